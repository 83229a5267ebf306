"""Measuring a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from doxa.cli.options import (
    ClusterOption,
    FormatOption,
    JsonFile,
    MemoryOption,
    ModelFolder,
    OnErrorOption,
    PartsOption,
    ReadOption,
    check_output,
    chosen_of,
    memory_limit,
    read,
    reading,
    rows_runner,
    test_part,
    write_text,
)
from doxa.errors import UsageError

TASKS = "entity,relation,classification,confidence,calibration"
COMPARED = "entity,relation,classification,calibration"

TasksOption = Annotated[str, typer.Option(help="Tasks, comma-separated.")]
FilterOption = Annotated[
    str, typer.Option("--filter", help="Known facts to drop from rankings: all (train, valid and test), or train.")
]
CandidatesOption = Annotated[
    str,
    typer.Option(
        help="Rank among all entities (all, as published figures do), those seen in that slot of the relation "
        "(relation), or those that `doxa ask` answers with (answered)."
    ),
]
RankAllOption = Annotated[bool, typer.Option("--rank-all", help="Of a labeled file, rank the false beliefs too.")]
NegativesSeed = Annotated[int, typer.Option(help="Seed of the negatives made for unlabeled files.", min=0)]
CompareSeed = Annotated[int, typer.Option(help="Seed of the bootstrap, and of negatives for unlabeled files.", min=0)]
KeepKnownOption = Annotated[
    bool, typer.Option("--keep-known", help="Also compare on beliefs that a model was trained or validated on.")
]
PlotOption = Annotated[Path | None, typer.Option("--plot", metavar="PNG", help="Draw the reliability diagram.")]


def evaluate(
    model: ModelFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Test beliefs, or a dataset folder with a test file.")],
    tasks: TasksOption = TASKS,
    filter_: FilterOption = "all",
    candidates: CandidatesOption = "all",
    rank_all: RankAllOption = False,
    seed: NegativesSeed = 0,
    memory: MemoryOption = "",
    cluster: ClusterOption = "",
    parts: PartsOption = None,
    json_: JsonFile = None,
    plot: PlotOption = None,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Measure a model on a file: entity inference, relation prediction, classification, confidence, calibration.

    Prints raw and filtered mean rank, MRR and Hits@k, accuracy and calibration errors. Ties count at their expected
    rank. A file without labels is classified against negatives: head or tail is replaced by an entity seen in that
    slot of the relation.

    Beside each figure, in parentheses, stands that of the popularity baseline: it answers with the entity or relation
    that is most frequent in training. A model that does not exceed it has learned frequencies alone.

    Example: `doxa evaluate model test.tsv --tasks entity,relation --json report.json`
    """
    from doxa.data.atomic import written
    from doxa.data.unseen import report_known
    from doxa.evaluation.protocol import CANDIDATE_RULES
    from doxa.evaluation.report import evaluate as run
    from doxa.model import Model
    from doxa.render import terminal
    from doxa.render.evaluation import show_evaluation

    names = [task.strip() for task in tasks.split(",") if task.strip()]
    filter_rule = chosen_of("--filter", filter_, ("all", "train"))
    candidate_rule = chosen_of("--candidates", candidates, CANDIDATE_RULES)
    if not names:
        raise UsageError("--tasks names no task")
    for option, path in (("--json", json_), ("--plot", plot)):
        check_output(option, path, model, file)
    loaded = Model.load(model)
    beliefs = read(test_part(file), on_error, reading(format_, read_), allow_zero_confidence=True)
    report_known(file.name, beliefs.encode(loaded.vocabularies), loaded.trained_facts)
    with terminal.busy("evaluating") as state, rows_runner(cluster, parts, model) as runner:
        evaluation = run(
            loaded, beliefs, names, filter=filter_rule, candidates=candidate_rule, rank_all=rank_all, seed=seed,
            memory=memory_limit(memory), report=lambda task: state(f"evaluating: {task}"), runner=runner,
        )  # fmt: skip
    show_evaluation(evaluation)
    if plot is not None and evaluation.calibration is not None:
        from doxa.render.plots import reliability_diagram

        with written(plot) as unfinished:
            reliability_diagram(evaluation.calibration.after, unfinished, evaluation.calibration.before)
    if json_ is not None:
        write_text(json_, json.dumps(evaluation.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A model folder, the one to compare with.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another model folder.")],
    file: Annotated[Path, typer.Argument(metavar="TEST", help="Test beliefs that neither model was trained on.")],
    tasks: TasksOption = COMPARED,
    seed: CompareSeed = 0,
    keep_known: KeepKnownOption = False,
    memory: MemoryOption = "",
    json_: JsonFile = None,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Say whether model B is better than model A on a file, or whether the beliefs are too few to show it.

    Prints filtered MRR and Hits@k of entities and relations, accuracy, and errors of credence: of A, of B, and their
    difference with a 95 % interval. B is better or worse where the interval excludes 0
    and the models differ on 10 beliefs or more. The intervals come from a
    bootstrap over the beliefs, on which both models answer the same questions and judge the same negatives.

    Ranks leave out the known facts of both models. Beliefs that a model was trained or validated on are left out, with
    a warning. The models may differ in system, score and vocabulary; a belief with a name that a model does not know
    counts as its guess.

    Example: `doxa compare old-model new-model test.tsv --tasks entity --json comparison.json`
    """
    from doxa.evaluation.compare import compare as run
    from doxa.model import Model
    from doxa.render import terminal
    from doxa.render.evaluation import show_comparison

    names = [task.strip() for task in tasks.split(",") if task.strip()]
    if not names:
        raise UsageError("--tasks names no task")
    for folder in (a, b):
        check_output("--json", json_, folder, file)
    models = Model.load(a), Model.load(b)
    beliefs = read(file, on_error, reading(format_, read_), allow_zero_confidence=True)
    with terminal.busy("comparing") as state:
        comparison = run(
            *models, beliefs, names, seed=seed, keep_known=keep_known, memory=memory_limit(memory),
            report=lambda step: state(f"comparing: {step}"),
        )  # fmt: skip
    show_comparison(comparison, str(a), str(b))
    if json_ is not None:
        about = {"a": str(a), "b": str(b)} | comparison.as_dict()
        write_text(json_, json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
