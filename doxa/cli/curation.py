"""Curating a knowledge base: what is missing, what is wrong, what a curator decided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from doxa.cli.hints import faults_of_data
from doxa.cli.options import (
    BaseRateOption,
    ClusterOption,
    ForceOption,
    FormatOption,
    MemoryOption,
    ModelFolder,
    OnErrorOption,
    PartsOption,
    ReadOption,
    ReviewFile,
    SeedOption,
    check_output,
    memory_limit,
    read,
    reading,
    rows_runner,
)
from doxa.errors import UsageError

if TYPE_CHECKING:
    from doxa.curation.complete import SearchProgress

RelationsOption = Annotated[
    list[str] | None, typer.Option("--relation", help="Only beliefs of this relation; repeatable.")
]
EntitiesOption = Annotated[
    list[str] | None, typer.Option("--entity", help="Only beliefs about this entity; repeatable.")
]
MissingOption = Annotated[
    float,
    typer.Option("--base-rate", help="Share of all true facts that training lacks.", min=0.0001, max=0.9999),
]
ContradictingOption = Annotated[
    bool,
    typer.Option(
        "--contradicting/--no-contradicting", help="Also second answers where the relation rarely has several."
    ),
]


def complete(
    model: ModelFolder,
    out: ReviewFile,
    relation: RelationsOption = None,
    entity: EntitiesOption = None,
    min_credence: Annotated[float, typer.Option(help="Least credence of a proposal.", min=0, max=1)] = 0.2,
    top: Annotated[int, typer.Option(help="Maximum number of proposals.", min=1)] = 10_000,
    base_rate: MissingOption = 0.1,
    contradicting: ContradictingOption = True,
    memory: MemoryOption = "",
    cluster: ClusterOption = "",
    parts: PartsOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the search that --out was begun with.")] = False,
) -> None:
    """Find what is missing: the most credible new beliefs of the whole knowledge base.

    Writes one row per proposal: credence, the probabilities of head, relation and tail (Eqs 8–10), and the ranks of
    head and tail among the answers not yet known. Fill the column `review` with accept, reject or unsure, then run
    `doxa review apply`. Continue a search that was stopped with --resume.

    Credence is the share of such proposals that turned out right when validation facts were hidden. No file tells how
    many true facts a knowledge base lacks: --base-rate states it, and a larger share raises every credence. The last
    lines say how many proposals are expected to be right.

    Example: `doxa complete model --relation 'located in' --top 500 --out missing.tsv`
    """
    from doxa import formats
    from doxa.curation.complete import complete as run
    from doxa.curation.review import to_review
    from doxa.errors import DoxaError
    from doxa.model import Model
    from doxa.render import terminal

    check_output("--out", out, model, model)
    unfinished = out.with_name(f".{out.name}.search")
    if resume and not unfinished.exists():
        raise DoxaError(f"no unfinished search of {out} to resume", "start one without --resume")
    loaded = Model.load(model)
    with terminal.progress("completing") as bar:

        def report(now: SearchProgress) -> None:
            bar(now.fraction, f"{now.relation} · {now.count:,} proposals, last {now.last_credence:.3f}")

        with rows_runner(cluster, parts, model, lambda share: bar(share, "on the cluster")) as runner:
            proposals = run(
                loaded, relations=relation or (), entities=entity or (), min_credence=min_credence, top=top,
                base_rate=base_rate, contradicting=contradicting, memory=memory_limit(memory), report=report,
                checkpoint=unfinished, resume=resume, runner=runner,
            )  # fmt: skip
    formats.write(to_review(proposals.to_frame(), "missing", loaded), out, prefixes=loaded.vocabularies.prefixes)
    unfinished.unlink(missing_ok=True)
    terminal.say(f"{out}: {len(proposals):,} new belief{'' if len(proposals) == 1 else 's'}")
    if len(proposals):
        first, last = proposals.credence[0], proposals.credence[-1]
        expected = "" if proposals.expected_right is None else f"; {proposals.expected_right:,.0f} expected to be right"
        terminal.say(f"credence {first:.3f} to {last:.3f}{expected}")
        terminal.say(proposals.basis)
        terminal.say("review them as accept, reject or unsure, then run `doxa review apply`")
    else:
        terminal.remark(f"none has a credence of {min_credence:g} or more; a smaller --min-credence may show some")


def audit(
    model: ModelFolder,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Beliefs to audit, with mentions; the model's known facts by default."),
    ] = None,
    top: Annotated[int, typer.Option(help="Number of suspects to write.", min=1)] = 1000,
    show: Annotated[int, typer.Option(help="Number of suspects to print.", min=0)] = 10,
    out: Annotated[Path | None, typer.Option("--out", help="TSV or CSV file to write, with a column `review`.")] = None,
    base_rate: BaseRateOption = None,
    memory: MemoryOption = "",
    cluster: ClusterOption = "",
    parts: PartsOption = None,
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
    on_error: OnErrorOption = "raise",
) -> None:
    """Find what is wrong: known beliefs, the most suspect first, each with a likelier tail.

    A belief is suspect if its credence is low, if another head or tail is much likelier, or if it contradicts a
    likelier known belief. Prints each suspect with its reason. Fill the column `review` of --out with wrong, replace
    (the belief is wrong and the suggested tail is right), right or unsure, then run `doxa review apply`.

    Prints how many suspects are expected to be wrong, and the mixture of true and false beliefs that credence holds
    for; --base-rate states another one. The order of the suspects stays.

    Example: `doxa audit model beliefs.tsv --out suspects.tsv`
    """
    from doxa import formats
    from doxa.curation.audit import audit as run
    from doxa.curation.review import to_review
    from doxa.model import Model
    from doxa.render import terminal

    check_output("--out", out, model, file or model)
    loaded = Model.load(model)
    beliefs = None if file is None else read(file, on_error, reading(format_, read_), allow_zero_confidence=True)
    with (
        terminal.progress("auditing") as bar,
        rows_runner(cluster, parts, model, lambda share: bar(share, "")) as runner,
    ):
        suspects = run(
            loaded, beliefs, top, memory=memory_limit(memory), base_rate=base_rate,
            report=lambda fraction: bar(fraction, ""), runner=runner,
        )  # fmt: skip
    for row in range(min(show, len(suspects))):
        terminal.say(f"{row + 1:4}  {suspects.belief(row)}\n      {suspects.reason(row)}")
    if suspects.unseen:
        terminal.remark(f"Note: {suspects.unseen:,} beliefs have names the model never saw; they are not judged")
    if suspects.expected_wrong is not None:
        condition = f"where {suspects.base_rate:.3g} of the audited beliefs are true (--base-rate)"
        terminal.say(
            f"{suspects.expected_wrong:,.0f} of {len(suspects):,} suspects are expected to be wrong {condition}"
        )
    if out is not None:
        formats.write(to_review(suspects.to_frame(), "suspect", loaded), out, prefixes=loaded.vocabularies.prefixes)
        terminal.say(f"{out}: {len(suspects):,} suspects")
        terminal.say(
            "review them as wrong, replace (the suggestion is right), right or unsure, then run `doxa review apply`"
        )


def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A TSV or CSV file with the column `review` filled in.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for added.tsv, retracted.tsv and labels.tsv.")],
) -> None:
    """Turn a reviewed file of `doxa complete` or `doxa audit` into beliefs to add, beliefs to retract, and labels.

    Proposals: accept adds the belief and labels it true; reject labels it false. Suspects: wrong retracts the belief
    and labels it false; replace also adds the belief with the suggested tail, labeled true; right labels it true.
    unsure and an empty review decide nothing. FILE may be a spreadsheet saved as CSV in UTF-8. The column `source` of
    each row names the file and line it comes from. The three files of an earlier review in --out are replaced at once.

    Example: `doxa review apply missing.tsv --out decided`, then the command `doxa update` that it prints
    """
    from doxa.curation.review import decide
    from doxa.render import terminal

    decisions = decide(file)
    counts = decisions.write(out)
    for path, count in counts.items():
        terminal.say(f"{path}: {count:,} beliefs")
    if not counts:
        terminal.say("nothing is decided; nothing is written")
    terminal.remark(f"{decisions.unsure:,} unsure, {decisions.open:,} without an answer")
    retract = f" --retract {out / 'retracted.tsv'}" if len(decisions.retracted) else ""
    added = f" {out / 'added.tsv'}" if len(decisions.added) else ""
    labels = f" --labels {out / 'labels.tsv'}" if len(decisions.labels) else ""
    if labels:
        terminal.remark(f"Next: doxa update MODEL{added}{retract}{labels} --out MODEL2")


def update(
    model: ModelFolder,
    new: Annotated[Path | None, typer.Argument(metavar="[NEW]", help="New beliefs; they may have new names.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The model folder to write.")] = None,
    retract: Annotated[Path | None, typer.Option(help="Known beliefs to unlearn.")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Beliefs labeled 1 or -1; they move credence and thresholds by their number.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the new beliefs.", min=1)] = 5,
    seed: SeedOption = 0,
    force: ForceOption = False,
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
    on_error: OnErrorOption = "raise",
) -> None:
    """Add new beliefs to a model and unlearn retracted ones, without training from scratch.

    Only vectors of new names and of entities and relations in these beliefs are trained, together with a sample of old
    beliefs about them. Prints how far old answers drifted. MODEL is not changed.

    Example: `doxa update model new.tsv --retract wrong.tsv --out model2`
    """
    from doxa.curation.update import update as run
    from doxa.model import Model
    from doxa.render import terminal
    from doxa.storage import folders

    if out is None:
        raise UsageError("no --out: expected the folder to write the updated model to")
    if out.resolve() == model.resolve():
        raise UsageError(f"--out {out} is the model being updated", "choose another folder")
    with faults_of_data():
        folders.check_vacant(out, force, resume=False)
    loaded = Model.load(model)
    added, retracted, labeled = (
        None if file is None else read(file, on_error, reading(format_, read_)) for file in (new, retract, labels)
    )
    with terminal.progress("updating") as bar:
        updated = run(loaded, added, retracted, labeled, epochs=epochs, seed=seed, report=bar)
    updated.model.save(out, force)
    counts = updated.counts
    terminal.say(f"{out}: {updated.model!r}")
    terminal.say(
        f"{counts['beliefs']:,} beliefs added, {counts['retracted']:,} retracted, "
        f"{counts['new_entities']:,} new entities, "
        f"{counts['new_relations']:,} relations, {counts['new_words']:,} words in {counts['seconds']:.1f} s"
    )
    terminal.say(str(updated.drift))
