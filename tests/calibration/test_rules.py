"""What is compared with a threshold: the product of probabilities, Pr(t|h,r) or the score itself."""

import math

import numpy as np
import polars as pl
import pytest

from doxa.calibration.rules import RuleWeights, calibration_input, decision_score, features, log_terms
from doxa.calibration.thresholds import BANDWIDTH, PRIOR_BELIEFS, Thresholds
from doxa.calibration.unseen import degree_prior
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.data.triples import TripleIndex
from doxa.errors import UsageError
from doxa.inference import judge
from doxa.model import fit
from doxa.slots import Slot
from tests import reference
from tests.worlds import beliefs, board, random_pbe, settings_of

RULES = ["product", "entities", "tail", "score"]
ENTITIES, RELATIONS, WORDS = 7, 4, 5


def world():
    """Beliefs whose ids fit the random models: all names first, then some with words, relations in no order."""
    names = [(f"e{i}", f"r{i % RELATIONS}", f"e{i}", "w0 w1 w2 w3 w4") for i in range(ENTITIES)]
    rows = [(f"e{i * 5 % 7}", f"r{i * 3 % 4}", f"e{i * 2 % 7}", f"w{i % 5}" if i % 2 else None) for i in range(20)]
    every = beliefs([*names, *rows], ("head", "relation", "tail", "mention"))
    return every.take(np.arange(ENTITIES, len(every)))


def in_words(slow, sample):
    word_ids = [sample.mention.take(np.array([i])).values.tolist() for i in range(len(sample))]
    return [(slow, *triple, words) for triple, words in zip(sample.triples.tolist(), word_ids, strict=True)]


def slow_score(slow, h, r, t, rule):
    if rule == "score":
        return reference.belief_score(slow, h, r, t)
    if rule == "tail":
        return math.log(reference.pr_tail(slow, h, r, t))
    if rule == "entities":
        return math.log(reference.pr_head(slow, h, r, t) * reference.pr_tail(slow, h, r, t))
    return math.log(reference.pr_head(slow, h, r, t) * reference.pr_relation(slow, h, r, t)
                    * reference.pr_tail(slow, h, r, t))  # fmt: skip


def random_model(seed):
    """Every entity is seen on both sides, so that candidates are the same for all questions."""
    pbe, slow = random_pbe(seed, entities=ENTITIES, relations=RELATIONS, words=WORDS)
    pbe.seen_heads = pbe.seen_tails = pbe.score.entity.weight.new_tensor(range(ENTITIES)).long()
    slow.seen_heads = slow.seen_tails = list(range(ENTITIES))
    return pbe, slow


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_evidence_equals_the_reference(seed, rule):
    pbe, slow = random_model(seed)
    sample = world()
    expected = [slow_score(slow, *triple, rule) for triple in sample.triples.tolist()]
    assert decision_score(pbe, sample, rule).tolist() == pytest.approx(expected)


def test_equal_queries_are_asked_once():
    (pbe, _), sample = random_model(0), world().take(np.arange(40) % 20)
    asked, distribution = dict.fromkeys(Slot, 0), pbe.distribution

    def counting(slot, batch, **more):
        asked[slot] += len(batch)
        return distribution(slot, batch, **more)

    pbe.distribution = counting
    shares = []
    log_terms(pbe, sample, report=shares.append)
    for slot, columns in ((Slot.HEAD, (1, 2)), (Slot.TAIL, (0, 1))):
        assert asked[slot] == len(np.unique(sample.triples[:, columns], axis=0)) < len(sample)
    assert shares == sorted(shares)
    assert shares[-1] == 1


@pytest.mark.parametrize("rule", RULES)
def test_credence_is_grounded_on_the_evidence_and_with_the_product_the_mention_speaks(rule):
    pbe, slow = random_model(5)
    sample = world()
    for value, (_, h, r, t, words) in zip(calibration_input(pbe, sample, rule), in_words(slow, sample), strict=True):
        if rule == "product":
            assert value == pytest.approx(math.log(reference.credence(slow, h, r, t, words)))
        else:
            assert value == pytest.approx(slow_score(slow, h, r, t, rule))


@pytest.fixture(scope="module")
def parts():
    """Train, and validation with labels: true steps and the same ones turned back."""
    train, valid = split(Beliefs.from_frame(board(5)), (0.3,), seed=0)
    table = valid.to_frame()
    back = table.rename({"head": "tail", "tail": "head"}).select(table.columns).with_columns(label=pl.lit(-1))
    return train, Beliefs.from_frame(pl.concat([table.with_columns(label=pl.lit(1)), back]))


def quick(parts, **values):
    return fit(*parts, **({"dimension": 6, "epochs": 1, "batch_size": 16, "num_candidates": 16, "threads": 1} | values))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("system", ["pbe", "transh"])
def test_thresholds_are_the_best_for_the_evidence_of_validation(parts, rule, system):
    """They are fitted to the rule's own evidence, relation by relation."""
    model = quick(parts, decision_rule=rule, system=system)
    valid = parts[1].encode(model.vocabularies)
    judgment = judge(model, valid, contradictions=False)
    scores = decision_score(model.pbe, valid, rule)
    best = reference.thresholds(scores, valid.relation, valid.label, BANDWIDTH, PRIOR_BELIEFS)
    assert model.calibration.thresholds.by_relation == pytest.approx([best[0], best[1]])
    assert np.array_equal(judgment.accepted, scores >= model.calibration.thresholds.of(valid.relation))


def test_the_learned_rule_weights_probabilities_and_known_answers(parts):
    model = quick(parts, decision_rule="learned")
    valid = parts[1].encode(model.vocabularies)
    trained = {tuple(triple) for triple in model.train.tolist()}
    result = features(model.pbe, valid, model.trained_facts)
    terms = log_terms(model.pbe, valid.without_mentions())
    assert np.array_equal(result[:, :2], terms[:, [0, 2]])
    for row, (h, r, t) in zip(result, valid.triples.tolist(), strict=True):
        heads = {x for x, *rest in trained if rest == [r, t]} - {h}
        tails = {x for *rest, x in trained if rest == [h, r]} - {t}
        assert row[2:] == pytest.approx([math.log(1 + len(heads)), math.log(1 + len(tails))])
    weights = RuleWeights.fit(result, valid.relation, valid.label, 2)
    assert np.allclose(model.calibration.weights.by_relation, weights.by_relation)
    scores = weights.decision_score(result, valid.relation)
    thresholds = Thresholds.fit(scores, valid.relation, valid.label, 2)
    alone = judge(model, valid, contradictions=False)
    assert np.array_equal(alone.accepted, scores >= thresholds.of(valid.relation))
    assert np.array_equal(model.credence(valid), quick(parts, decision_rule="entities").credence(valid))


def test_without_validation_no_weights_are_fitted(parts):
    one, other = (
        fit(
            parts[0],
            dimension=6,
            epochs=1,
            batch_size=16,
            num_candidates=16,
            threads=1,
            validation_fraction=0.0,
            decision_rule=rule,
        )
        for rule in ("learned", "entities")
    )
    assert one.calibration.weights is None
    assert judge(one, parts[0]).accepted.tolist() == judge(other, parts[0]).accepted.tolist()


def test_a_fact_of_training_does_not_count_itself_among_the_known(parts):
    model = quick(parts)
    sample = parts[0].encode(model.vocabularies)
    counts = model.trained_facts.count_answers(Slot.HEAD, None, sample.relation, sample.tail)
    row = int(np.argmin(counts))
    assert counts[row] == 1
    assert features(model.pbe, sample, model.trained_facts)[row, 2] == 0.0


def test_the_rules_differ(parts):
    model = quick(parts)
    valid = parts[1].encode(model.vocabularies)
    result = [decision_score(model.pbe, valid, rule) for rule in RULES]
    assert not any(np.allclose(one, other) for one, other in zip(result, result[1:] + result[:1], strict=True))


@pytest.mark.parametrize("rule", RULES[1:])
def test_only_the_product_hears_the_mention(parts, rule):
    model = quick(parts, decision_rule=rule)
    table = parts[1].to_frame()
    without = Beliefs.from_frame(table.drop("mention"))
    assert np.array_equal(model.credence(parts[1]), model.credence(without))
    longer = quick(parts, epochs=20)
    assert not np.array_equal(longer.credence(parts[1]), longer.credence(without))


@pytest.mark.parametrize("rule", RULES)
def test_accuracy_can_decide_when_to_stop(parts, rule):
    """The quality of an epoch is the accuracy at the thresholds that suit it."""
    model = quick(parts, decision_rule=rule, stop_on="accuracy")
    valid = parts[1].encode(model.vocabularies)
    scores = decision_score(model.pbe, valid, rule)
    best = reference.thresholds(scores, valid.relation, valid.label, BANDWIDTH, PRIOR_BELIEFS)
    right = ((scores >= [best[r] for r in valid.relation]) == (valid.label == 1)).sum()
    assert model.curve[-1]["metric"] == pytest.approx(right / len(valid))
    assert model.curve[-1]["metric"] != pytest.approx(quick(parts, decision_rule=rule).curve[-1]["metric"])


def test_accuracy_keeps_the_weights_of_the_best_epoch(parts):
    model = quick(parts, stop_on="accuracy", epochs=3, learning_rate=1.0, seed=3)
    qualities = [point["metric"] for point in model.curve]
    valid = parts[1].encode(model.vocabularies)
    right = judge(model, valid, contradictions=False).accepted == (valid.label == 1)
    assert right.mean() == pytest.approx(max(qualities))
    assert qualities[-1] < max(qualities)


@pytest.mark.parametrize(
    ("setting", "value", "choices"),
    [
        ("decision_rule", "head", "product, entities, tail, score, learned"),
        ("stop_on", "mrr", "auto, ranking, entity, accuracy, confidence"),
    ],
)
def test_other_rules_are_refused(setting, value, choices):
    with pytest.raises(UsageError, match=f"setting {setting} is '{value}'; expected one of {choices}"):
        settings_of(**{setting: value})


UNSEEN = [("e1", "r0", "new"), ("new", "r0", "e2"), ("new", "r1", "e0"), ("new", "r0", "old"), ("e1", "rx", "new")]


def test_the_degree_prior_counts_the_facts_of_the_known_entity_in_its_slot():
    train = beliefs([("e1", "r0", "e2"), ("e1", "r0", "e3"), ("e3", "r0", "e2"), ("e0", "r1", "e1")])
    facts = TripleIndex(train.triples, len(train.vocabularies.entities), len(train.vocabularies.relations))
    result, kind = degree_prior(facts, Beliefs.from_frame(beliefs(UNSEEN).to_frame(), train.vocabularies))
    assert np.allclose(np.expm1(result), [2, 2, 0, 0, 0])
    assert kind.tolist() == [1, 0, 2, 1, -1]


def test_beliefs_with_unseen_entities_are_classified_as_validation_shows():
    """Here an unseen square is right of a square with a right neighbor, and never up of any."""
    table = board(5, words=False)
    lines = table.rows()
    valid = [(h, r, t, 1) for h, r, t in lines[:6]] + [(h, r, lines[0][0], -1) for h, r, t in lines[6:12]]
    valid += [("0,0", "right", f"s{i}", 1) for i in range(4)] + [("0,0", "up", f"s{i}", -1) for i in range(4)]
    validation = beliefs(valid, ("head", "relation", "tail", "label"))
    model = fit(Beliefs.from_frame(table), validation, dimension=4, epochs=2, threads=1)
    asked = beliefs([("1,1", "right", "new"), ("1,1", "up", "new"), ("1,1", "right", "1,2")])
    result = judge(model, asked)
    assert result.accepted[:2].tolist() == [True, False]
    assert result.unknown.tolist() == [True, True, False]


def test_without_such_validation_an_unseen_entity_is_classified_as_false(tmp_path):
    model = fit(Beliefs.from_frame(board(5, words=False)), dimension=4, epochs=2, threads=1)
    assert model.calibration.unseen is None
    assert not judge(model, beliefs([("1,1", "right", "new")])).accepted[0]
