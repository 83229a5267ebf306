"""Maps: which entities are on them, where, and in which groups."""

import numpy as np
import pytest

from doxa.curation.group_names import names_of_groups, shared_features
from doxa.curation.map import PER_HUB, by_degree, degrees, draw_map
from doxa.errors import DoxaError, UsageError
from tests.reference import distinguishing_features
from tests.worlds import random_model


def test_entities_of_the_relation_in_the_unit_square():
    model, _ = random_model(0, entities=40, facts=150)
    drawn = draw_map(model, ["r1"])
    facts = model.train[model.train[:, 1] == 1]
    assert set(drawn.names) == {f"e{x}" for x in facts[:, [0, 2]].ravel()}
    assert drawn.places.min() == 0
    assert drawn.places.max() == 1
    for name, group in zip(drawn.names, drawn.group, strict=True):
        entity = int(name[1:])
        slots = {(True, False): "head of r1", (False, True): "tail of r1", (True, True): "head and tail of r1"}
        assert drawn.groups[group] == slots[entity in facts[:, 0], entity in facts[:, 2]]
    again = draw_map(model, ["r1"])
    assert np.allclose(again.places, drawn.places)
    assert drawn.to_frame().columns == ["name", "x", "y", "group"]
    assert len(drawn.as_dict()["entities"]) == len(drawn)


def test_two_main_axes_and_groups_by_similarity():
    model, _ = random_model(1, entities=40, facts=150)
    drawn = draw_map(model, most=20, layout="pca", groups=3)
    assert len(drawn) == 20
    assert len(drawn.groups) == 3
    assert set(drawn.group.tolist()) == {0, 1, 2}
    with pytest.raises(UsageError, match="layout"):
        draw_map(model, layout="globe")
    few, _ = random_model(0, facts=1)
    with pytest.raises(DoxaError, match="at least 3"):
        draw_map(few)


def test_the_title_names_few_relations_and_slots_need_none():
    model, _ = random_model(0, entities=40, facts=150, relations=5)
    assert draw_map(model, ["r1", "r0"], layout="pca").title == "r1, r0"
    assert draw_map(model, [f"r{number}" for number in range(5)], layout="pca").title == "r0, r1, r2 and 2 more"
    everything = draw_map(model, layout="pca")
    assert (everything.title, everything.groups) == ("all relations", ("head", "tail", "head and tail"))


@pytest.mark.parametrize("seed", range(5))
def test_entities_come_by_degree_over_distinct_facts_and_a_loop_counts_once(seed):
    rng = np.random.default_rng(seed)
    facts = np.unique(rng.integers(0, (9, 3, 9), (40, 3)), axis=0)
    chosen = facts[facts[:, 1] < 2]
    order = by_degree(chosen, facts, 12)
    in_facts = [sum(entity in (head, tail) for head, _, tail in chosen.tolist()) for entity in range(12)]
    assert degrees(chosen, 12).tolist() == in_facts
    assert sorted(order.tolist()) == [entity for entity in range(12) if in_facts[entity]]
    assert [in_facts[entity] for entity in order] == sorted((count for count in in_facts if count), reverse=True)


def test_neighbors_of_a_huge_hub_do_not_crowd_out_those_of_a_small_one():
    """Hub 0 has 100 neighbors, hub 1 has 20; all neighbors have one fact of the chosen relation."""
    large = np.array([[entity, 0, 0] for entity in range(2, 102)])
    small = np.array([[entity, 0, 1] for entity in range(102, 122)])
    chosen = np.concatenate([large, small])
    order = by_degree(chosen, chosen, 122).tolist()
    assert order[:2] == [0, 1]
    picked = order[2 : 2 + 2 * PER_HUB]
    assert sum(entity < 102 for entity in picked) == PER_HUB
    known = np.concatenate([chosen, [[101, 1, 121], [100, 1, 101]]])
    assert by_degree(chosen, known, 122).tolist()[2:5] == [101, 100, 121]  # by the number of all their facts


def test_the_hub_of_an_entity_is_its_neighbor_with_most_facts():
    """30 entities are linked to hub 90, then 5 to hub 91, and each of the 35 to an entity of its own."""
    linked = np.arange(40, 75)
    to_hubs = np.stack([linked, 0 * linked, np.where(linked < 70, 90, 91)], axis=1)
    to_others = np.stack([linked, 0 * linked, linked - 40], axis=1)
    facts = np.concatenate([to_hubs, to_others])
    order = by_degree(facts, facts, 92).tolist()
    assert order[:2] == [90, 91]
    assert sorted(order[2:17]) == [*range(40, 50), *range(70, 75)]


@pytest.mark.parametrize("seed", range(5))
def test_features_of_groups_are_those_of_the_obvious_count(seed):
    rng = np.random.default_rng(seed)
    facts = np.unique(rng.integers(0, (14, 2, 4), (40, 3)), axis=0)
    entities = rng.permutation(14)[:12]
    group = np.concatenate([np.arange(3), rng.integers(0, 3, 9)])
    features = shared_features(facts, entities, group).rows()
    expected = distinguishing_features(facts, entities, group)
    assert {row[:1] + row[2:]: pytest.approx(row[1]) for row in features} == expected
    assert expected


def world_of_countries():
    """A model whose known facts are: e2 … e6 r0 e0; e7 … e11 r0 e1; e1 r1 e12, e13, e14; e2 r1 e12, too."""
    model, _ = random_model(0, entities=18, relations=3, facts=3)
    facts = [(entity, 0, 0) for entity in range(2, 7)] + [(entity, 0, 1) for entity in range(7, 12)]
    facts += [(1, 1, 12), (1, 1, 13), (1, 1, 14), (2, 1, 12)]
    known = type(model.known)(np.array(facts), 18, 3)
    object.__setattr__(model, "known", known)
    return model


def test_groups_are_named_by_what_most_members_share():
    model = world_of_countries()
    entities = np.arange(18)
    group = np.zeros(18, int)
    group[2:7], group[7:12], group[12:15], group[15] = 1, 2, 3, 4
    names = names_of_groups(model, entities, group, ["e0", "e3", "e9", "e12", "e15"])
    assert names == ("tail of r0", "r0 · e0", "r0 · e1", "e1 · r1", "e15")


def test_what_fewer_than_half_share_is_called_mixed_and_no_name_is_used_twice():
    model = world_of_countries()
    part = np.array([2, 3, 15, 16, 17])
    entities = np.concatenate([part, [7, 8, 9, 10, 11]])
    names = names_of_groups(model, entities, np.repeat([0, 1], 5), ["e3", "e7"])
    assert names == ("mixed, 40% r0 · e0", "r0 · e1")
    entities, group = np.array([2, 3, 4, 5, 15, 16, 17, 14]), np.array([0, 0, 1, 1, 2, 2, 2, 2])
    names = names_of_groups(model, entities, group, ["e2", "e4", "e15"])
    assert names[:2] == ("r0 · e0", "head of r0")
    entities, group = np.arange(2, 7), np.array([0, 0, 0, 0, 1])
    assert names_of_groups(model, entities, group, ["e2", "e6"])[1] == "e6"


def test_a_feature_of_everyone_names_no_group():
    model = world_of_countries()
    names = names_of_groups(model, np.arange(3, 7), np.array([0, 0, 1, 1]), ["e3", "e5"])
    assert names == ("mixed, around e3", "mixed, around e5")
