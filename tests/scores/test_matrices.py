"""The scores whose relations are matrices against the reference, and the two ways of mapping with them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import nn

from doxa.scores import matrices as maps
from tests import reference
from tests.worlds import heads, make_score, relations, tails

ENTITIES, RELATIONS, WIDTH, HIDDEN = 6, 5, 4, 3
MATRIX_SCORES = ["structured", "single_layer", "bilinear", "neural_tensor"]


def make(name, seed=0, **more):
    """The score with every number drawn anew, large enough for tanh to bend."""
    hidden = {"hidden": HIDDEN} if name in ("single_layer", "neural_tensor") else {}
    score = make_score(name, ENTITIES, RELATIONS, torch.Generator(), dimension=WIDTH, **hidden, **more).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in score.parameters():
            parameter.normal_(generator=generator)
    return score


def expected(score, name, h, r, t):
    """The reference's value: the rows of the tables, laid out as the matrices of the formula."""
    shapes = {"bias": (HIDDEN,), "output": (HIDDEN,), "map": (WIDTH, WIDTH), "slices": (HIDDEN, WIDTH, WIDTH)}
    parts = [
        score.get_parameter(f"{table}.weight")[r].detach().numpy().reshape(shapes.get(table, (-1, WIDTH)))
        for table in score.relation_tables
    ]
    head, tail = (score.entity.weight[x].detach().numpy() for x in (h, t))
    return getattr(reference, name)(head, tail, *parts)


def queries(seed, count, distinct):
    random = np.random.default_rng(seed)
    return tuple(torch.from_numpy(random.integers(0, top, count)) for top in (ENTITIES, distinct, ENTITIES))


FEW_AND_MANY = pytest.mark.parametrize(("count", "distinct"), [(5, RELATIONS), (40, 2)], ids=["copied", "grouped"])


@FEW_AND_MANY
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MATRIX_SCORES)
def test_each_score_equals_its_formula(name, seed, count, distinct):
    score = make(name, seed)
    head, relation, tail = queries(seed, count, distinct)
    entities, links = torch.tensor([0, 2, 5]), torch.tensor([1, 4])
    each = score(head, relation, tail)
    by_tail, by_head = tails(score, head, relation, entities), heads(score, relation, tail, entities)
    by_relation = relations(score, head, tail, links)
    for i, (h, r, t) in enumerate(zip(head.tolist(), relation.tolist(), tail.tolist(), strict=True)):
        assert each[i].item() == pytest.approx(expected(score, name, h, r, t))
        assert by_tail[i].tolist() == pytest.approx([expected(score, name, h, r, x) for x in entities.tolist()])
        assert by_head[i].tolist() == pytest.approx([expected(score, name, x, r, t) for x in entities.tolist()])
        assert by_relation[i].tolist() == pytest.approx([expected(score, name, h, x, t) for x in links.tolist()])


@pytest.mark.parametrize("name", MATRIX_SCORES)
def test_every_matrix_score_can_tell_direction(name):
    score, (h, r, t) = make(name), (torch.tensor([i]) for i in (0, 1, 3))
    assert score(h, r, t).item() != pytest.approx(score(t, r, h).item())


def test_without_slices_the_neural_tensor_is_the_single_layer():
    whole, layer = make("neural_tensor", 3), make("single_layer", 4)
    with torch.no_grad():
        whole.slices.weight.zero_()
    layer.load_state_dict({name: rows for name, rows in whole.state_dict().items() if "slices" not in name})
    head, relation, tail = queries(5, 9, RELATIONS)
    assert torch.allclose(whole(head, relation, tail), layer(head, relation, tail))
    assert torch.allclose(tails(whole, head, relation), tails(layer, head, relation))
    assert torch.allclose(relations(whole, head, tail), relations(layer, head, tail))


def test_a_bilinear_form_with_a_diagonal_is_distmult():
    form, product = make("bilinear"), make("distmult", 1)
    with torch.no_grad():
        product.entity.weight.copy_(form.entity.weight)
        form.map.weight.copy_(torch.stack([row.diag().flatten() for row in product.relation.weight]))
    head, relation, tail = queries(6, 9, RELATIONS)
    assert torch.allclose(form(head, relation, tail), product(head, relation, tail))
    assert torch.allclose(heads(form, relation, tail), heads(product, relation, tail))


@pytest.mark.parametrize(("name", "default"), [("single_layer", 50), ("neural_tensor", 4)])
def test_each_score_has_its_default_width_of_the_layer(name, default):
    def hidden(**more):
        score = make_score(name, ENTITIES, RELATIONS, torch.Generator(), dimension=WIDTH, **more)
        return score.output.weight.shape[1]

    assert hidden() == default
    assert hidden(hidden=7) == 7


def table(numbers, seed=0):
    made = nn.Embedding(RELATIONS, numbers).double()
    with torch.no_grad():
        made.weight.normal_(generator=torch.Generator().manual_seed(seed))
    return made


def mapped_with_gradients(vectors, relation, maps_table, form):
    vectors = vectors.clone().requires_grad_()
    maps_table.zero_grad()
    result = maps.mapped(vectors, relation, maps_table, form)
    (result * torch.arange(result.numel()).view_as(result)).sum().backward()
    return result.detach(), vectors.grad, maps_table.weight.grad.clone()


def refused(*_):
    raise AssertionError("this way was not to be taken")


@given(st.lists(st.integers(0, RELATIONS - 1), min_size=1, max_size=30), st.sampled_from(["as_matrices", "transposed"]))
@hypothesis_settings(max_examples=40)
def test_grouped_and_copied_maps_are_the_same(relation, name):
    """Values and gradients; FEW, the number that decides, forces each way in turn."""
    form = getattr(maps, name)(WIDTH)
    relation, maps_table = torch.tensor(relation), table(2 * WIDTH * WIDTH)
    vectors = torch.randn(len(relation), WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maps, "FEW", 0)
        with pytest.MonkeyPatch.context() as only_grouped:
            only_grouped.setattr(torch, "bmm", refused)
            grouped = mapped_with_gradients(vectors, relation, maps_table, form)
        patch.setattr(maps, "FEW", 10**9)
        patch.setattr(maps, "by_relation", refused)
        copied = mapped_with_gradients(vectors, relation, maps_table, form)
    for one, other in zip(grouped, copied, strict=True):
        assert torch.allclose(one, other)
    matrices = form(maps_table.weight)
    for i, r in enumerate(relation.tolist()):
        assert torch.allclose(grouped[0][i], matrices[r] @ vectors[i])


@pytest.mark.parametrize(("count", "together"), [(15, False), (16, True)])
def test_queries_are_grouped_when_each_relation_has_enough(count, together, monkeypatch):
    calls = []
    by_relation = maps.by_relation
    monkeypatch.setattr(maps, "by_relation", lambda *inputs: calls.append(1) or by_relation(*inputs))
    maps.mapped(torch.ones(count, WIDTH).double(), torch.arange(count) % 2, table(WIDTH * WIDTH))
    assert bool(calls) is together


def test_a_transposed_row_is_each_of_its_matrices_transposed():
    row = torch.arange(2 * WIDTH * WIDTH)[None]
    first, second = maps.transposed(WIDTH)(row)[0].split(WIDTH)
    one, two = maps.as_matrices(WIDTH)(row)[0].split(WIDTH)
    assert torch.equal(first, one.T)
    assert torch.equal(second, two.T)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_results_by_relation_return_in_the_order_of_the_queries(relation):
    relation = torch.tensor(relation)
    numbers = nn.Embedding.from_pretrained(torch.arange(5.0)[:, None])

    def answer(matrix, column):
        return torch.stack([column, matrix[0].expand(len(column))], dim=1)

    result = maps.by_relation(relation, numbers, maps.as_matrices(1), answer, torch.arange(len(relation)).float())
    assert result[:, 0].tolist() == list(range(len(relation)))
    assert result[:, 1].tolist() == relation.tolist()


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 30))
def test_tiles_cover_the_table_once_within_bounds(count, candidates, depth):
    whole, sizes = torch.arange(count * candidates).view(count, candidates), []

    def answer(rows, columns):
        sizes.append(whole[rows, columns].numel() * depth)
        return whole[rows, columns]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maps, "BLOCK_NUMBERS", 20)
        with torch.no_grad():
            assert torch.equal(maps.tiled(count, candidates, depth, answer), whole)
        assert max(sizes) <= max(20, depth)
        sizes.clear()
        assert torch.equal(maps.tiled(count, candidates, depth, answer), whole)
        assert len(sizes) == 1  # while gradients are kept


@FEW_AND_MANY
@pytest.mark.parametrize("name", MATRIX_SCORES)
def test_scores_do_not_depend_on_blocks(name, count, distinct, monkeypatch):
    score = make(name)
    head, relation, tail = queries(1, count, distinct)

    def tables():
        return [tails(score, head, relation), heads(score, relation, tail), relations(score, head, tail)]

    whole = tables()
    monkeypatch.setattr(maps, "BLOCK_NUMBERS", 60)
    with torch.no_grad():
        for one, other in zip(whole, tables(), strict=True):
            assert torch.allclose(one, other)


@pytest.mark.parametrize("name", MATRIX_SCORES)
def test_no_query_has_no_scores(name):
    score, none = make(name), torch.zeros(0, dtype=torch.int64)
    assert score(none, none, none).shape == (0,)
    assert tails(score, none, none).shape == (0, ENTITIES)
    assert heads(score, none, none).shape == (0, ENTITIES)
    assert relations(score, none, none).shape == (0, RELATIONS)
