"""Maps: which entities are on them, where, and in which groups."""

import numpy as np
import pytest

from doxa.curation.map import draw_map
from doxa.errors import DoxaError, UsageError
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
        assert (
            drawn.groups[group]
            == {(True, False): "head", (False, True): "tail", (True, True): "both"}[
                (entity in facts[:, 0], entity in facts[:, 2])
            ]
        )
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
