"""Mutants: small faults put into a copy of doxa, and the test that each of them must fail.

    python -m tests.mutants [NAME …]

Each mutant replaces one text, which its file must hold exactly once. A named test passes on doxa as it is and fails on
its mutant. Prints a line per mutant; exit code 1 if one survives. `tests/test_mutants.py` keeps the texts up to date.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FAILED = 1
"""Exit code of pytest when tests ran and one failed; others mean that they could not be run."""


class Mutant(NamedTuple):
    """A fault: the text of a file that is replaced, and the test that fails for it."""

    name: str
    path: str
    before: str
    after: str
    test: str


MUTANTS = [
    Mutant("degree counted on known facts",
           "inference/judgment.py", "encoded, model.trained_facts, memory", "encoded, model.known, memory",
           "calibration/test_unseen.py::test_validation_facts_do_not_count_in_the_degree_of_a_known_entity"),
    Mutant("unseen thresholds fitted on known facts",
           "calibration/judge.py", "fit_unseen_thresholds(facts, unseen)", "fit_unseen_thresholds(known, unseen)",
           "calibration/test_unseen.py::test_validation_facts_do_not_move_the_thresholds_of_unseen_names"),
    Mutant("negatives that are test facts",
           "evaluation/report.py", "model.known.union(beliefs.positives().triples), seed", "model.known, seed",
           "evaluation/test_report.py::test_no_negative_is_another_test_belief"),
    Mutant("negatives that are other test facts",
           "evaluation/report.py", "beliefs.positives().triples), seed", "beliefs.positives().triples[:1]), seed",
           "evaluation/test_report.py::test_no_negative_is_another_test_belief"),
    Mutant("answers struck out by train alone",
           "evaluation/calibration.py", "beliefs, model.known, kind", "beliefs, model.trained_facts, kind",
           "evaluation/test_calibration.py::test_answers_known_from_train_or_valid_are_no_candidates"),
    Mutant("relevance 2^c",
           "evaluation/confidence.py", "2**relevance - 1", "2**relevance",
           "evaluation/test_confidence.py"
           "::test_the_relevance_of_a_tail_is_its_confidence_or_two_to_it_less_one"),
    Mutant("truths of other queries among the relation's candidates",
           "evaluation/protocol.py", "scores[:, outside] = -torch.inf", "pass",
           "evaluation/test_ranks.py"
           "::test_a_truth_outside_the_pool_of_its_relation_is_a_candidate_of_its_own_query_alone"),
    Mutant("a guess among all entities",
           "evaluation/protocol.py", "max(len(members), 1))", "ranker.entities)",
           "evaluation/test_ranks.py::test_a_guess_is_among_the_candidates_of_the_relation"),
    Mutant("a guess among all entities where no belief of the relation is seen",
           "evaluation/protocol.py", "np.unique(beliefs.relation[beliefs.relation >= 0])",
           "np.unique(beliefs.relation[seen])",
           "evaluation/test_ranks.py::test_a_guess_is_among_the_candidates_of_the_relation"),
    Mutant("frequency classes closed at their end",
           "evaluation/report.py", 'counts, side="right"', 'counts, side="left"',
           "evaluation/test_report.py::test_a_frequency_class_begins_with_its_first_number"),
    Mutant("last weights kept mid-epoch",
           "training/loop.py", "if partial and self.validate() >= state.best_metric:", "if partial:",
           "training/test_loop.py::test_a_run_that_ends_mid_epoch_returns_to_its_best_weights"),
    Mutant("best weights lost mid-epoch",
           "training/loop.py", "if partial or state.best_epoch", "if state.best_epoch",
           "training/test_loop.py::test_a_run_that_ends_mid_epoch_returns_to_its_best_weights"),
    Mutant("confidence clamped without ε",
           "training/objective.py", "clamp_min(max(settings.epsilon, 1e-6))", "clamp_min(1e-6)",
           "training/test_objective.py::test_a_confidence_below_epsilon_counts_as_epsilon"),
    Mutant("confidence clamped with ε alone",
           "training/objective.py", "clamp_min(max(settings.epsilon, 1e-6))", "clamp_min(settings.epsilon)",
           "training/test_objective.py::test_a_confidence_below_epsilon_counts_as_epsilon"),
    Mutant("unseen thresholds lost on load",
           "calibration/judge.py", "unseen=unseen and Thresholds(", "unseen=None and Thresholds(",
           "storage/test_models.py::test_the_thresholds_of_unseen_names_come_back"),
    Mutant("unseen thresholds by kind lost on load",
           "calibration/judge.py", 'Thresholds(np.array(unseen["by_kind"], float), ',
           'Thresholds(np.full(2 * count, np.nan), ',
           "storage/test_models.py::test_the_thresholds_of_unseen_names_come_back"),
    Mutant("confidences lost on load",
           "storage/models.py", 'if "confidence" in facts else', "if False else",
           "storage/test_models.py::test_the_confidences_of_facts_come_back"),
    Mutant("confidences lost on save",
           "storage/models.py", "if len(model.known_confidence):", "if False:",
           "storage/test_models.py::test_the_confidences_of_facts_come_back"),
    Mutant("temperatures fitted with valid's answers known",
           "calibration/judge.py", "fit_temperatures(pbe, positives, facts,", "fit_temperatures(pbe, positives, known,",
           "calibration/test_judge.py"
           "::test_temperatures_are_fitted_with_the_other_answers_of_validation_among_the_candidates"),
    Mutant("a retracted validation fact stays known",
           "curation/update.py", "valid=grown.valid[kept[1]]", "valid=grown.valid",
           "curation/test_update.py::test_a_retracted_validation_fact_is_no_longer_known"),
    Mutant("an unseen head that joins no candidates",
           "pbe.py", "log_probability_of_newcomer(truth, total)))", "truth - total))",
           "test_pbe.py::test_an_entity_never_seen_as_head_joins_the_candidates_of_its_own_query_alone"),
]  # fmt: skip


def run_tests(folder: Path, tests: list[str]) -> int:
    """The exit code of pytest on tests of a copy; nothing compiled from a mutant may outlive it."""
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *(f"tests/{test}" for test in tests)]
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL).returncode


def killed(folder: Path, mutant: Mutant) -> bool:
    """Whether the named test fails on the copy with this fault."""
    path = folder / "doxa" / mutant.path
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.before) != 1:
        raise SystemExit(f"{mutant.path} holds {mutant.before!r} {text.count(mutant.before)} times; expected once")
    path.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
    try:
        return run_tests(folder, [mutant.test]) == FAILED
    finally:
        path.write_text(text, encoding="utf-8")


def main(names: list[str]) -> int:
    unknown = set(names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        raise SystemExit(f"no mutant {min(unknown)!r}; expected any of: {', '.join(one.name for one in MUTANTS)}")
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for part in ("doxa", "tests"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        if run_tests(folder, list(dict.fromkeys(mutant.test for mutant in chosen))):
            raise SystemExit("the named tests must pass on doxa as it is; run them with pytest")
        survivors = 0
        for mutant in chosen:
            dead = killed(folder, mutant)
            survivors += not dead
            print(f"{'killed  ' if dead else 'SURVIVES'}  {mutant.name}  ({mutant.test.split('::')[1]})", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants killed")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
