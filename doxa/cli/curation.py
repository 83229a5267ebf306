"""Curating a knowledge base: what is missing, what is wrong, what a curator decided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.cli.hints import faults_of_data
from doxa.cli.options import (
    BaseRateOption,
    ClusterOption,
    ForceOption,
    FormatOption,
    IndexOption,
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
from doxa.errors import DoxaError, UsageError

if TYPE_CHECKING:
    import polars as pl

    from doxa.curation.complete import Proposals, SearchProgress
    from doxa.model import Model
    from doxa.storage.store.knowledge_base import KnowledgeBase

HOW_TO_REVIEW = "review them as wrong, replace (the suggestion is right), right or unsure, then run `doxa review apply`"

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


IntoOption = Annotated[
    str, typer.Option("--into", metavar="KB", help="Put them into the review queue of this knowledge base.")
]
OverlapOption = Annotated[
    str, typer.Option("--overlap", metavar="SHARE", help="Share of the queue that two reviewers get, such as 5%.")
]


def _opened(into: str) -> KnowledgeBase | None:
    """The knowledge base of --into, opened before the work begins."""
    from doxa.cli.kb import open_store

    return open_store(into) if into else None


def _into_queue(
    kb: KnowledgeBase, table: pl.DataFrame, kind: str, model: Path, overlap: float, settings: dict[str, Any]
) -> None:
    """Put proposals into the review queue of a knowledge base; the run remembers the settings."""
    from doxa.render import terminal

    number = kb.queue.propose(table, kind, model=str(model), settings=settings, overlap=overlap)
    left = len(table) - number
    why = "decided or being reviewed" if kind == "missing" else "decided, not in the knowledge base or being reviewed"
    terminal.say(f"{kb.place}: {number:,} proposals for review" + (f"; {left:,} left out: {why}" if left else ""))
    if number:
        terminal.say(f"review them: doxa review next {kb.place}")


def _share(text: str) -> float:
    """`5%` or `0.05`."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"--overlap {text!r}; expected a share such as 5%")
    return share


def _unfinished_search(out: Path | None, into: str, resume: bool) -> Path | None:
    """The file that keeps the state of a search with --out; without --out, a search cannot be resumed."""
    if out is None and not into:
        raise UsageError("no --out and no --into: expected a file to write, or a knowledge base")
    unfinished = None if out is None else out.with_name(f".{out.name}.search")
    if resume and (unfinished is None or not unfinished.exists()):
        raise DoxaError(f"no unfinished search of {out or into} to resume", "start one without --resume")
    return unfinished


def complete(
    model: ModelFolder,
    out: ReviewFile = None,
    into: IntoOption = "",
    overlap: OverlapOption = "0%",
    relation: RelationsOption = None,
    entity: EntitiesOption = None,
    min_credence: Annotated[float, typer.Option(help="Least credence of a proposal.", min=0, max=1)] = 0.2,
    top: Annotated[int, typer.Option(help="Maximum number of proposals.", min=1)] = 10_000,
    base_rate: MissingOption = 0.1,
    contradicting: ContradictingOption = True,
    use_index: IndexOption = None,
    memory: MemoryOption = "",
    cluster: ClusterOption = "",
    parts: PartsOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the search that --out was begun with.")] = False,
) -> None:
    """Find what is missing: the most credible new beliefs of the whole knowledge base.

    Writes one row per proposal: credence, the probabilities of head, relation and tail (Eqs 8–10), and the ranks of
    head and tail among the answers not yet known. Fill the column `review` with accept, reject or unsure, then run
    `doxa review apply`. Continue a search that was stopped with --resume. --into fills the review queue of a store.

    Credence is the share of such proposals that turned out right when validation facts were hidden. No file tells how
    many true facts a knowledge base lacks: --base-rate states it, and a larger share raises every credence. The last
    lines say how many proposals are expected to be right.

    Example: `doxa complete model --relation 'located in' --top 500 --out missing.tsv`
    """
    from doxa.curation.complete import complete as run
    from doxa.model import Model
    from doxa.render import terminal

    check_output("--out", out, model, model)
    unfinished = _unfinished_search(out, into, resume)
    share, kb, loaded = _share(overlap), _opened(into), Model.load(model)
    with (
        terminal.progress("completing") as bar,
        rows_runner(cluster, parts, model, lambda share: bar(share, "on the cluster")) as runner,
    ):
        proposals = run(
            loaded, relations=relation or (), entities=entity or (), min_credence=min_credence, top=top,
            base_rate=base_rate, contradicting=contradicting, exclude=None if kb is None else kb.settled(),
            memory=memory_limit(memory), checkpoint=unfinished, resume=resume, use_index=use_index, runner=runner,
            report=lambda now: bar(now.fraction, _progress(now)),
        )  # fmt: skip
    if out is not None and unfinished is not None:
        _write(proposals.to_frame(), "missing", loaded, out)
        unfinished.unlink(missing_ok=True)
    _describe(proposals, out or into, min_credence)
    if kb is not None and len(proposals):
        settings = {"top": top, "min_credence": min_credence, "base_rate": base_rate, "overlap": share}
        _into_queue(kb, proposals.to_frame(), "missing", model, share, settings)
    elif len(proposals):
        terminal.say("review them as accept, reject or unsure, then run `doxa review apply`")


def _write(table: pl.DataFrame, kind: str, model: Model, out: Path) -> None:
    """Write proposals to a file for review."""
    from doxa import formats
    from doxa.curation.review import to_review

    formats.write(to_review(table, kind, model), out, prefixes=model.vocabularies.prefixes)


def _progress(now: SearchProgress) -> str:
    last = f", last {now.last_credence:.3f}" if now.count else ""
    return f"{now.relation} · {now.count:,} proposals{last}"


def _describe(proposals: Proposals, place: Path | str, min_credence: float) -> None:
    """Print how many proposals there are, their credence, and what it means."""
    from doxa.render import terminal

    terminal.say(f"{place}: {len(proposals):,} new belief{'' if len(proposals) == 1 else 's'}")
    if not len(proposals):
        terminal.remark(f"none has a credence of {min_credence:g} or more; a smaller --min-credence may show some")
        return
    first, last = proposals.credence[0], proposals.credence[-1]
    expected = "" if proposals.expected_right is None else f"; {proposals.expected_right:,.0f} expected to be right"
    terminal.say(f"credence {first:.3f} to {last:.3f}{expected}")
    terminal.say(proposals.basis)


def audit(
    model: ModelFolder,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Beliefs to audit, with mentions; the model's known facts by default."),
    ] = None,
    top: Annotated[int, typer.Option(help="Number of suspects to write.", min=1)] = 1000,
    show: Annotated[int, typer.Option(help="Number of suspects to print.", min=0)] = 10,
    out: Annotated[Path | None, typer.Option("--out", help="TSV or CSV file to write, with a column `review`.")] = None,
    into: IntoOption = "",
    overlap: OverlapOption = "0%",
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
    from doxa.curation.audit import audit as run
    from doxa.model import Model
    from doxa.render import terminal

    check_output("--out", out, model, file or model)
    share, kb, loaded = _share(overlap), _opened(into), Model.load(model)
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
        expected = f"{suspects.expected_wrong:,.0f} of {len(suspects):,} suspects are expected to be wrong"
        terminal.say(f"{expected} where {suspects.base_rate:.3g} of the audited beliefs are true (--base-rate)")
    if kb is not None:
        options = {"top": top, "base_rate": base_rate, "overlap": share}
        _into_queue(kb, suspects.to_frame(), "suspect", model, share, options)
    if out is not None:
        _write(suspects.to_frame(), "suspect", loaded, out)
        terminal.say(f"{out}: {len(suspects):,} suspects")
        terminal.say(HOW_TO_REVIEW)


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

    MODEL can be a knowledge base: its live model learns what was decided since, and the new version is published only
    if no 95 % interval of MRR or Brier score on the valid split lies wholly on the worse side.

    Examples: `doxa update model new.tsv --retract wrong.tsv --out model2`, `doxa update kb.db`
    """
    from doxa.curation.update import update as run
    from doxa.model import Model
    from doxa.render import terminal
    from doxa.storage import folders
    from doxa.storage.store.place import store_place

    if store_place(model) is not None:
        _update_live(str(model), out, epochs, seed, force, [new, retract, labels])
        return
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
    known = f" ({counts['known']:,} more are training facts already)" if counts["known"] else ""
    terminal.say(f"{out}: {updated.model!r}")
    terminal.say(
        f"{counts['beliefs']:,} beliefs added{known}, {counts['retracted']:,} retracted, "
        f"{counts['new_entities']:,} new entities, "
        f"{counts['new_relations']:,} relations, {counts['new_words']:,} words in {counts['seconds']:.1f} s"
    )
    terminal.say(str(updated.drift))


def _update_live(store: str, out: Path | None, epochs: int, seed: int, force: bool, files: list[Path | None]) -> None:
    """Update the live model of a knowledge base, and say whether it was published."""
    from doxa.cli.kb import open_store
    from doxa.curation.living import update_live
    from doxa.render import terminal

    if any(file is not None for file in files):
        raise UsageError("a knowledge base is updated with its own decisions", "leave the files of beliefs out")
    with terminal.progress("updating") as bar, faults_of_data():
        updated = update_live(open_store(store), out, epochs=epochs, seed=seed, force=force, report=bar)
    if updated is None:
        terminal.say("nothing was decided since the live model; it stays")
        return
    counts, version = updated.result.counts, updated.version
    terminal.say(
        f"{counts['beliefs']:,} beliefs added, {counts['retracted']:,} retracted, {counts['labels']:,} labels, "
        f"{counts['negatives']:,} hard negatives in {counts['seconds']:.1f} s"
    )
    for one in updated.comparison.differences if updated.comparison else ():
        terminal.say(f"{one.metric}: {one.a:.4f} → {one.b:.4f} (95 % interval {one.low:+.4f} to {one.high:+.4f})")
    terminal.say(f"{version.folder}: version {version.id}, {version.state}: {updated.reason}")
