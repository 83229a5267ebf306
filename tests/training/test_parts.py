"""A step in parts is the objective itself, and the number of threads changes no bit of a run."""

import os
import threading

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.estimators import Candidates
from doxa.model import fit
from doxa.scores.pairwise import Distances, Places, Products, Turns
from doxa.systems import build, recipe
from doxa.training import parts
from doxa.training.candidates import draw_candidates
from doxa.training.executors.single import SingleProcess
from doxa.training.objective import batch_loss
from doxa.training.parts import PartedBatch, PartedStep
from doxa.training.steps import Steps
from doxa.training.threads import ALONE, Threads, torch_threads
from doxa.training.weights import term_weighting
from tests.training.test_gather import TRAIN, WAYS, gradients, with_random_words
from tests.worlds import board, random_beliefs, settings_of

CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()

SCORES = ("translation", "distmult", "complex", "rotate")
ONE_SIDED = {"tail_weight": 0.0, "relation_weight": 0.4}


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "PART", 2)
    monkeypatch.setattr(parts, "BLOCK", 3)


def parted_gradients(pbe, step, batch, threads=ALONE):
    """The loss, and the gradients by name as whole tables."""
    pbe.zero_grad()
    loss, tables = step.gradients(batch, threads)
    made = {name: p.grad.to_dense().clone() for name, p in pbe.named_parameters() if p.grad is not None}
    for name, gradient in tables.items():
        whole = torch.zeros_like(pbe.get_parameter(name))
        for block in gradient.blocks:
            ids, summed = gradient.block(block)
            assert len(ids.unique()) == len(ids) > 0
            whole[ids] = summed
        made[name] = whole
    return loss, made


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("way", [*WAYS, ONE_SIDED, {"norm": 1}], ids=str)
def test_parts_give_the_loss_and_gradients_of_the_objective(score, way, small_parts):
    if "norm" in way and score != "translation":
        return
    settings = settings_of(score=score, dimension=4, negative_weight=3, scale=1.7, **way)
    pbe = with_random_words(build(TRAIN, settings).double())
    rows = np.array([2, 1, 0])
    drawn = Candidates.every(pbe)
    if settings.estimator != "exact":
        drawn = draw_candidates(drawn, 2, np.random.default_rng(1), settings.training_estimator == "sampled")
    plain = batch_loss(pbe, Batch.of(TRAIN, rows), drawn, settings)
    dense = gradients(pbe, plain)
    batch = PartedBatch.of(TRAIN, rows, drawn)
    assert [len(part) for part in batch.parts] == [2, 1]
    loss, parted = parted_gradients(pbe, PartedStep(pbe, settings), batch)
    assert loss == pytest.approx(plain.item(), rel=1e-12)
    assert {name for name, gradient in parted.items() if gradient.any()} <= dense.keys()
    for name, gradient in dense.items():
        assert torch.allclose(parted.get(name, torch.zeros(())), gradient, atol=1e-12), name


@pytest.mark.parametrize("score", SCORES)
def test_parts_heed_term_weights_confidence_and_known_facts(score, small_parts):
    settings = recipe({"score": score, "dimension": 4, "max_answers": 1, "filter_negatives": True})
    train, _ = random_beliefs(4)
    facts = TripleIndex(train.triples, 7, 4)
    pbe = with_random_words(build(train, settings).double())
    rows = np.arange(len(train))[::-1].copy()
    batch, weighting = Batch.of(train, rows), term_weighting(settings, lambda: facts)
    assert len(weighting.of(batch)["head"].unique()) > 1
    drawn = Candidates(torch.tensor([2, 5]), torch.tensor([2, 3]), torch.tensor([2, 6]))
    plain = batch_loss(pbe, batch, drawn.without_known(batch, facts), settings, weighting.of(batch))
    dense = gradients(pbe, plain)
    step = PartedStep(pbe, settings, weighting, facts)
    loss, parted = parted_gradients(pbe, step, PartedBatch.of(train, rows, drawn))
    assert loss == pytest.approx(plain.item(), rel=1e-9)
    for name, gradient in dense.items():
        assert torch.allclose(parted[name], gradient, atol=1e-9), name


def pairs_of(kind, distance):
    """One point and two candidates, the first of which lies so far ahead of the truth that exp overflows."""
    points = torch.tensor([[0.0, 1.0]])
    candidates = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    if kind is Turns:
        return Turns(points * distance, candidates, -1.0, squares=torch.tensor([2 * distance]))
    return kind(points * distance, candidates * distance, 1.0 if kind is Products else -1.0)


@pytest.mark.parametrize("kind", [Products, Distances, Turns])
@pytest.mark.parametrize("distance", [1.0, 300.0])
def test_the_log_loss_overflows_nowhere(kind, distance):
    scores = pairs_of(kind, distance)
    truth, weights, by_truth = torch.tensor([-1.5 * distance]), torch.tensor([2.0]), torch.zeros(1)
    of_candidates = torch.full_like(scores.candidates, torch.nan)
    nowhere = Places(*(torch.zeros(0, dtype=torch.int64) for _ in range(2)))
    pulled = scores.log_loss(truth.numpy(), nowhere, weights.numpy(), by_truth.numpy(), of_candidates)
    logits = torch.cat([truth[:, None], scores.table()], 1).double()
    assert pulled.loss == pytest.approx(-2 * logits.log_softmax(1)[0, 0].item(), rel=1e-5)
    assert by_truth.item() == pytest.approx(2 * (logits.softmax(1)[0, 0].item() - 1), rel=1e-5)
    assert all(torch.isfinite(each).all() for each in (pulled.points, of_candidates))


def trained(train, threads, **values):
    """Weights and sums of squares after two epochs."""
    settings = settings_of(dimension=6, epochs=2, batch_size=12, num_candidates=5, **values)
    steps = Steps(build(train, settings), train, settings)
    runner = SingleProcess(steps, threads)
    runner.warm_up()
    losses = [progress.loss for progress in runner.run_epoch(range(2 * steps.per_epoch), lambda step: 0.01 * step)]
    runner.close()
    state = {**steps.pbe.state_dict(), **{f"sum {name}": s for name, s in steps.optimizer.state().items()}}
    return losses, state


@pytest.mark.parametrize("values", [{"score": score} for score in SCORES] + [
    {"score": "complex", "n3": 0.1}, {"estimator": "negative"}, {"entity_norm": "unit"}], ids=str)  # fmt: skip
def test_any_number_of_threads_gives_the_same_bits(values, small_parts):
    train = Beliefs.from_frame(board(4))
    losses, state = trained(train, 1, **values)
    for threads in (2, 2, 3):
        again, other = trained(train, threads, **values)
        assert again == losses
        assert all(torch.equal(state[name], other[name]) for name in state)


def test_a_model_is_the_same_with_one_thread_and_with_two():
    values = {"dimension": 8, "epochs": 3, "batch_size": 300, "num_candidates": 20, "validation_fraction": 0.2}
    one, two = (fit(random_beliefs(3)[0], threads=threads, **values) for threads in (1, 2))
    before, after = (dict(model.pbe.state_dict()) for model in (one, two))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_results_come_in_the_order_of_the_tasks():
    threads = Threads(3)
    barrier = threading.Barrier(3, timeout=30)
    assert threads.run([lambda n=n: (barrier.wait(), n)[1] for n in range(3)]) == [0, 1, 2]
    assert threads.run([lambda n=n: n for n in range(20)]) == list(range(20))
    threads.close()
    assert threads.run([lambda: 1, lambda: 2]) == [1, 2]


def test_the_first_error_of_a_task_is_raised():
    def fail(number):
        raise ValueError(number)

    threads = Threads(2)
    with pytest.raises(ValueError, match="1"):
        threads.run([lambda: 0, lambda: fail(1), lambda: fail(2), lambda: 3])
    assert threads.run([lambda: 1, lambda: 2]) == [1, 2]
    threads.close()


def test_products_of_compiled_loops_use_so_many_threads_meanwhile():
    def counts():
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    with torch_threads(2):
        assert counts() == {2}
        with torch_threads(1):
            assert counts() == {1}
        assert counts() == {2}


def test_a_helping_thread_lets_torch_use_one_thread():
    before, barrier = torch.get_num_threads(), threading.Barrier(2, timeout=30)
    torch.set_num_threads(3)
    threads = Threads(2)
    numbers = threads.run([lambda: (barrier.wait(), torch.get_num_threads())[1]] * 2)
    threads.close()
    torch.set_num_threads(before)
    assert sorted(numbers) == [1, 3]


def test_threads_of_a_run_let_torch_use_one_thread_and_give_the_rest_back():
    before, inside = torch.get_num_threads(), set()
    torch.set_num_threads(2)
    settings = settings_of(dimension=4, epochs=1, batch_size=8, num_candidates=4)
    train = Beliefs.from_frame(board(4))
    steps = Steps(build(train, settings), train, settings)
    runner = SingleProcess(steps, 2)
    for _ in runner.run_epoch(range(2), lambda step: 0.0):
        inside |= set(steps.threads.run([torch.get_num_threads] * 8))
    after = torch.get_num_threads()
    runner.close()
    torch.set_num_threads(before)
    assert inside == {1}
    assert after == 2


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not bind threads to cores")
@pytest.mark.parametrize("more", [0, 1])
def test_threads_as_many_as_cores_have_a_core_each(more):
    """With more threads than cores, the system places them."""
    cores = CORES
    assert os.sched_getaffinity(0) == cores, "a run before this one left its thread on one core"
    threads, barrier = Threads(len(cores) + more), threading.Barrier(len(cores) + more)

    def places():
        barrier.wait(60)  # so that each thread takes one task
        return frozenset(os.sched_getaffinity(0))

    try:
        with threads.apart():
            places_of = threads.run([places] * threads.count)
    finally:
        threads.close()
    apart = more == 0 and len(cores) > 1
    assert set(places_of) == ({frozenset({core}) for core in cores} if apart else {frozenset(cores)})
    assert os.sched_getaffinity(0) == cores
