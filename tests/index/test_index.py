"""Answers by the index: those of exact scoring, up to the recall and the standard error that it states."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from doxa import model as model_module
from doxa.calibration import candidates
from doxa.data.batch import Batch
from doxa.errors import CannotAnswer, UsageError
from doxa.index import build, centroids, entity_index
from doxa.index.cells import make_cells
from doxa.slots import ENTITY_SLOTS, Slot
from tests.index.models import KINDS, grouped_model
from tests.worlds import random_model


@pytest.fixture(scope="module", autouse=True)
def _small():
    """A short list and a small sample, so that 600 entities are many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entity_index, "SHORTLIST", 20)
        patch.setattr(entity_index, "CODED", 40)
        patch.setattr(build, "DRAWS", (200, 400, 800))
        yield


@pytest.fixture(scope="module")
def indexed():
    return grouped_model().build_index()


def questions_of(model, count=60):
    """Questions for tails and heads about known facts, by name."""
    names, relations = model.vocabularies.entities, model.vocabularies.relations
    triples = [(names[h], relations[r], names[t]) for h, r, t in model.train[:count].tolist()]
    return [(h, r, "?") for h, r, _ in triples] + [("?", r, t) for _, r, t in triples]


def names_of(answers):
    return [{candidate.name for candidate in answer} for answer in answers]


@pytest.mark.parametrize(("score", "options"), KINDS)
@pytest.mark.parametrize("new_only", [False, True])
def test_answers_are_those_of_exact_scoring(score, options, new_only):
    model = grouped_model(score, **options).build_index(0.98)
    questions = questions_of(model)
    exact = model.ask(questions, new_only=new_only, use_index=False)
    by_index = model.ask(questions, new_only=new_only, use_index=True)
    shares = [len(a & b) / 10 for a, b in zip(names_of(exact), names_of(by_index), strict=True)]
    assert np.mean(shares) > 0.95
    ratios, errors = [], []
    for one, other in zip(exact, by_index, strict=True):
        expected = {candidate.name: candidate for candidate in one}
        common = [candidate for candidate in other if candidate.name in expected]
        assert all(candidate.known == expected[candidate.name].known for candidate in common)
        ratios.append(common[0].probability / expected[common[0].name].probability - 1)
        errors.append(other.standard_error)
        assert [c.probability for c in other] == sorted((c.probability for c in other), reverse=True)
    assert 0 < np.median(errors) < 0.1
    assert np.quantile(np.abs(ratios), 0.9) < 0.1
    assert model.index.summary.probes < model.index.summary.cells


@pytest.mark.parametrize(("score", "options"), KINDS)
def test_members_beyond_the_shortlist_count_by_their_codes(score, options, monkeypatch):
    """All members are searched: without a sample, the sum of exponentials is nearly the exact one."""
    monkeypatch.setattr(entity_index, "CODED", 600)
    index = grouped_model(score, **options).build_index().index
    index.summary = replace(index.summary, probes=len(index.cells))
    for slot in ENTITY_SLOTS:
        triples = np.stack([np.arange(50), np.arange(50) % 3, np.arange(50, 100)], 1)
        exact = build.exact_answers(index.pbe, slot, triples, 0.8, 0)
        shares, errors = build.compare(index, exact)
        assert shares.mean() > 0.99
        assert errors.max() < 0.03
        batch = Batch.of_triples(*torch.from_numpy(triples.T.copy()))
        for answer in index.distributions(slot, batch, 10, temperature=0.8):
            assert answer.logits.shape == (1, 20), "scored exactly"
            assert float(answer.relative_error) == 0, "every draw is a member that was searched"


def test_candidates_are_those_of_their_slot(indexed):
    for slot in ENTITY_SLOTS:
        cells = indexed.index.cells
        places = [
            range(first, first + count) for first, count in zip(cells.first(slot), cells.counts(slot), strict=True)
        ]
        members = cells.members[np.concatenate([np.array(part, int) for part in places])]
        assert sorted(members) == indexed.pbe.seen[slot].tolist()
    answers = indexed.ask(questions_of(indexed), top=600, use_index=True)
    seen = {slot: {f"e{number}" for number in indexed.pbe.seen[slot].tolist()} for slot in ENTITY_SLOTS}
    assert all(names == seen[answer.slot] for names, answer in zip(names_of(answers), answers, strict=True))
    assert all(answer.standard_error == 0 for answer in answers), "all candidates were scored"


def test_an_entity_lies_in_the_cell_of_the_nearest_centroid():
    random = np.random.default_rng(0)
    vectors, middles = (random.normal(size=(rows, 4)).astype(np.float32) for rows in (50, 6))
    cells = make_cells(torch.from_numpy(vectors), np.arange(0, 40), np.arange(20, 45), middles)
    assert sorted(cells.members) == list(range(45)), "the last entities are candidates of no slot"
    for cell, (start, *_, end) in enumerate(cells.bounds.tolist()):
        for entity in cells.members[start:end]:
            distances = np.linalg.norm(middles - vectors[entity], axis=1)
            np.testing.assert_array_equal(middles[distances.argmin()], cells.centroids[cell])


def test_each_round_of_k_means_improves_the_centroids_of_the_last(monkeypatch):
    vectors = torch.from_numpy(np.random.default_rng(0).normal(size=(600, 3)).astype(np.float32))
    errors, reports = [], []
    for rounds in (1, 2, 10):
        monkeypatch.setattr(centroids, "ROUNDS", rounds)
        found = centroids.k_means(vectors, np.arange(600), 30, 0, reports.append)
        errors.append(np.square(vectors.numpy()[:, None] - found).sum(2).min(1).sum())
    assert errors[0] > errors[1] > errors[2]
    assert reports[-10:] == [number / 10 for number in range(10)]


def test_the_work_done_is_reported(indexed):
    reports = []
    indexed.build_index(report=lambda share, what: reports.append((share, what)))
    assert reports == sorted(reports, key=lambda each: each[0])
    assert len({share for share, what in reports if what == "k-means"}) == centroids.ROUNDS
    assert (reports[0], reports[-1]) == ((0.0, "k-means"), (1.0, "recall"))


def test_the_recall_wanted_is_measured(indexed):
    summary = indexed.index.summary
    assert summary.questions == 2 * len(indexed.train), "all facts, both ways"
    assert 0.95 <= summary.recall <= 1
    assert 0 < summary.probability_error <= 0.1
    higher = indexed.build_index(recall=0.999).index.summary
    assert higher.probes > summary.probes
    assert higher.recall >= 0.999


@pytest.mark.parametrize(
    ("is_wrong", "times", "draws"),
    [
        (lambda times, draws: False, 1, 200),
        (lambda times, draws: draws < 400, 1, 400),
        (lambda times, draws: times < 3, 1.5**3, 200),
        (lambda times, draws: times < 1.3 or draws < 800, 1.5, 800),
        (lambda times, draws: True, 1, 800),
    ],
    ids=["enough", "more draws", "more cells", "both", "recall alone"],
)
def test_as_many_cells_and_draws_as_probabilities_need(indexed, monkeypatch, is_wrong, times, draws):
    """Errors are made up: a fifth of the questions is wrong until a query searches and draws enough."""
    tried = []

    def compare(index, exact):
        tried.append(index.summary)
        wrong = is_wrong(index.summary.probes / tried[0].probes, index.summary.draws)
        return np.ones(100), np.where(np.arange(100) % 5 == 0, 0.5 if wrong else 0.01, 0.01)

    monkeypatch.setattr(build, "compare", compare)
    summary = indexed.build_index().index.summary
    assert (summary.probes, summary.draws) == (round(times * tried[0].probes), draws)
    assert summary.probability_error == (0.5 if times == 1 and draws == 800 else 0.01)


def test_a_question_has_one_answer(indexed):
    """Alone or among others, the same sample is drawn."""
    questions = questions_of(indexed)
    together = indexed.ask(questions, use_index=True)
    alone = indexed.ask(questions[7:8], use_index=True)[0]
    assert [c.name for c in alone] == [c.name for c in together[7]]
    assert alone[0].probability == pytest.approx(together[7][0].probability, rel=1e-5)


def test_below_a_million_entities_answers_are_exact_unless_the_index_is_wanted(indexed, monkeypatch):
    question = questions_of(indexed)[:1]
    assert indexed.ask(question)[0].standard_error is None
    assert "index" not in indexed.ask(question)[0].as_dict()
    monkeypatch.setattr(model_module, "INDEX_FROM", 600)
    answer = indexed.ask(question)[0]
    assert answer.as_dict()["relative_standard_error"] == answer.standard_error > 0
    assert answer.as_dict()["index"]["recall"] == indexed.index.summary.recall
    assert "by the index: standard error" in str(answer)
    assert indexed.ask(question, use_index=False)[0].standard_error is None


def test_many_known_answers_are_left_out_by_exact_scoring(indexed, monkeypatch):
    monkeypatch.setattr(entity_index, "MOST_KNOWN", 0)
    questions = questions_of(indexed, 5)
    exact, by_index = (indexed.ask(questions, new_only=True, use_index=wanted) for wanted in (False, True))
    assert names_of(exact) == names_of(by_index)
    assert [answer.standard_error for answer in by_index] == [0] * 10


def test_an_index_of_other_weights_is_not_used(indexed):
    other = replace(indexed, pbe=grouped_model(seed=1).pbe)
    assert other.answering_index() is None
    with pytest.raises(CannotAnswer, match="no index of its weights"):
        other.ask(questions_of(other)[:1], use_index=True)


@pytest.mark.parametrize("scored", [0, 50_000])
def test_completion_by_the_index_proposes_the_same(indexed, monkeypatch, scored):
    """With pools that are scored, and with pools that are searched; the curve is not fitted, so credence is Pr."""
    monkeypatch.setattr(candidates, "POOL_SCORED", scored)
    exact = indexed.complete(relations=["r0"], min_credence=0, use_index=False)
    by_index = indexed.complete(relations=["r0"], min_credence=0, use_index=True)
    rows = {tuple(triple): place for place, triple in enumerate(exact.triples.tolist())}
    common = [(place, rows[tuple(t)]) for place, t in enumerate(by_index.triples.tolist()) if tuple(t) in rows]
    assert len(common) > 0.95 * len(exact)
    here, there = (np.array(part) for part in zip(*common, strict=True))
    for column in (0, 2):
        ratio = by_index.terms[here, column] / exact.terms[there, column]
        assert np.quantile(np.abs(ratio - 1), 0.9) < 0.2
    ratio = by_index.credence[here] / exact.credence[there]
    assert np.quantile(np.abs(ratio - 1), 0.9) < 0.2


def test_scores_without_a_metric_and_senseless_options_are_refused(indexed):
    with pytest.raises(CannotAnswer, match="has no index"):
        random_model(0, score="weighted_translation")[0].build_index()
    with pytest.raises(UsageError, match="recall is 0"):
        indexed.build_index(recall=0)
    with pytest.raises(UsageError, match="cells is -1"):
        indexed.build_index(cells=-1)


def test_without_faiss_the_error_says_what_to_install(indexed, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(CannotAnswer, match=r"faiss.*\n.*doxa\[index\]"):
        indexed.ask(questions_of(indexed)[:1], use_index=True)


def test_targets_compare_as_scores_do():
    """The order of candidates by their metric with the target is their order by D."""
    for score, options in KINDS:
        pbe = grouped_model(score, **options).pbe
        vectors, metric = pbe.score.entity.weight.detach(), pbe.score.entity_metric
        h, r, t = vectors[3:4], pbe.score.relation.weight.detach()[1:2], vectors[9:10]
        for slot in ENTITY_SLOTS:
            target = pbe.score.target(slot, h, r, t)
            near = target @ vectors.T if metric == "product" else -torch.cdist(target, vectors, p=float(metric[1]))
            triple = [torch.full((600,), number) for number in (3, 1, 9)]
            triple[slot] = torch.arange(600)
            each = pbe.score(*triple).detach()
            assert torch.equal(near[0].argsort()[::50], each.argsort()[::50]), (score, slot)


def test_slots_other_than_entities_do_not_need_the_index(indexed):
    answer = indexed.ask([("e3", "?", "e100")], use_index=True)[0]
    assert answer.slot is Slot.RELATION
    assert answer.standard_error is None
