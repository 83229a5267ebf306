"""Review in the terminal: one proposal at a time, with its evidence, decided by a key."""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.cli.kb import CuratorOption, StoreArgument, open_store
from doxa.cli.kb_changes import NoteOption, ReasonOption
from doxa.cli.options import JsonOption, chosen_of
from doxa.errors import BadFile, BadModel, DoxaError, UsageError
from doxa.render.plain import print_json

if TYPE_CHECKING:
    from doxa.model import Model
    from doxa.storage.store.knowledge_base import KnowledgeBase
    from doxa.storage.store.queue import Proposal

KEYS = {"a": "accept", "x": "reject", " ": "unsure", "r": "replace", "\x7f": "undo", "\b": "undo", "u": "undo",
        "e": "explain", "q": "quit", "\x03": "quit", "\x04": "quit"}  # fmt: skip
"""What each key does; backspace undoes."""

PROMPT = "a accept · x reject · r replace by the suggestion · space unsure · backspace undo · e explain · q quit"

OrderOption = Annotated[
    str, typer.Option("--order", help="credence: the most credible first; uncertainty: those nearest to ½ first.")
]
LeaseOption = Annotated[float, typer.Option(help="Seconds until a proposal returns to the queue.", min=1)]


def next_(
    store: StoreArgument,
    order: OrderOption = "credence",
    lease: LeaseOption = 600.0,
    explain: Annotated[
        bool, typer.Option("--explain/--no-explain", help="Show why the live model believes each proposal.")
    ] = True,
    curator: CuratorOption = "",
    json_: Annotated[bool, typer.Option("--json", help="Print the next proposal as JSON and stop.")] = False,
) -> None:
    """Review proposals one after the other, each with its evidence.

    Keys: a accept, x reject (then a number for the reason), r replace by the suggested tail, space unsure, backspace
    undo, e explain, q quit. A proposal is leased to you; it returns to the queue when the lease ends.
    Without a terminal, a line of standard input is one key; `x 2` rejects with the second reason.

    Example: `doxa review next kb.db --order uncertainty`
    """
    from doxa.render import terminal
    from doxa.storage.store.queue import ORDERS

    chosen_of("--order", order, ORDERS)
    kb = open_store(store, curator)
    explainer = Explainer(kb)
    while True:
        proposal = kb.queue.claim(order=order, lease=lease)
        if json_:
            print_json(None if proposal is None else proposal.as_dict())
            return
        if proposal is None:
            terminal.say("nothing to review")
            return
        _show(proposal)
        if explain and explainer.model is not None:
            explainer.show(proposal)
        if not _review(kb, proposal, explainer):
            kb.queue.release(proposal.id)
            return


def _show(proposal: Proposal) -> None:
    from doxa.render import terminal

    kind = "not yet known" if proposal.kind == "missing" else "known, but suspect"
    terminal.say(f"\n{proposal.id}  {' · '.join(proposal.triple)}   ({kind}, credence {proposal.credence:.3g})")
    if proposal.suggestion:
        terminal.say(f"   suggested tail: {proposal.suggestion}")
    for name, value in proposal.evidence.items():
        if value is not None:
            terminal.say(f"   {name.replace('_', ' ')}: {value}")
    for stated in proposal.mentions:
        if stated["mention"]:
            terminal.say(f"   {stated['uri']}: {stated['mention']}")


def _review(kb: KnowledgeBase, proposal: Proposal, explainer: Explainer) -> bool:
    """Let the reviewer decide one proposal; False ends the review."""
    from doxa.render import terminal
    from doxa.storage.store.log import REASONS

    while True:
        key, rest = _key()
        action = KEYS.get(key, "")
        if action == "quit":
            return False
        try:
            if action == "undo":
                terminal.say(f"decision {kb.queue.undo_last()}: the last review is undone")
                kb.queue.release(proposal.id)
                return True
            if action == "explain":
                explainer.show(proposal)
                continue
            if not action:
                terminal.remark(PROMPT)
                continue
            reason = _reason(rest, REASONS) if action == "reject" else None
            number = kb.queue.decide(proposal.id, action, reason=reason)
            terminal.say(f"decision {number}: {action}" + (f", {reason}" if reason else ""))
            return True
        except UsageError as fault:
            terminal.remark(f"Note: {fault}")
            if "leased" in fault.message or "already" in fault.message:
                return True


def _key() -> tuple[str, str]:
    """A key, and what follows it on a line that is no terminal's."""
    from doxa.render import terminal

    if sys.stdin is None:
        raise BadFile("cannot read decisions: standard input is closed")
    if sys.stdin.isatty():
        terminal.remark(PROMPT)
        key = typer.getchar()
        return key.lower(), ""
    line = sys.stdin.readline()
    if not line:
        return "q", ""
    text = line.rstrip("\n")
    return (text[:1] or " ").lower(), text[1:].strip()


def _reason(rest: str, reasons: tuple[str, ...]) -> str | None:
    """The reason of a rejection by its number; none without."""
    from doxa.render import terminal

    if not rest and sys.stdin.isatty():
        terminal.remark("why? " + " · ".join(f"{place} {reason}" for place, reason in enumerate(reasons, 1)))
        rest = typer.getchar()
    if rest.isdecimal() and 1 <= int(rest) <= len(reasons):
        return reasons[int(rest) - 1]
    return rest if rest in reasons else None


class Explainer:
    """Explanations by the live model, which is loaded once."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb, self.live = kb, kb.models.live()

    @cached_property
    def model(self) -> Model | None:
        """The live model; None if there is none, or if its folder cannot be read here."""
        from doxa.model import Model
        from doxa.render import terminal

        try:
            return None if self.live is None else Model.load(self.kb.models.folder_of(self.live))
        except BadModel as fault:
            terminal.remark(f"Note: no explanations: {fault}")
            return None

    def show(self, proposal: Proposal) -> None:
        """Print why the live model believes a proposal, or why it cannot say.

        The credence of the explanation is left out: it is that of a belief to judge, not of a proposal.
        """
        from doxa.render import terminal

        if self.model is None:
            terminal.remark("Note: the knowledge base has no live model that can explain")
            return
        try:
            terminal.say("\n".join(self.model.explain(*proposal.triple).reasons()))
        except DoxaError as fault:
            terminal.remark(f"Note: {fault}")


def decide(
    store: StoreArgument,
    proposal: Annotated[int, typer.Argument(metavar="PROPOSAL", help="The number of a proposal.")],
    verdict: Annotated[str, typer.Argument(metavar="VERDICT", help="accept, reject, replace or unsure.")],
    reason: ReasonOption = None,
    replacement: Annotated[str | None, typer.Option(help="The right tail, if it is not the suggested one.")] = None,
    note: NoteOption = None,
    curator: CuratorOption = "",
) -> None:
    """Decide one proposal by its number.

    Example: `doxa review decide kb.db 17 reject --reason 'wrong tail'`
    """
    from doxa.render import terminal

    kb = open_store(store, curator)
    number = kb.queue.decide(proposal, verdict, reason=reason, note=note, replacement=replacement)
    terminal.say(f"decision {number}: {verdict} {' · '.join(kb.queue.get(proposal).triple)}")


def undo(
    store: StoreArgument,
    decision: Annotated[
        int | None, typer.Argument(metavar="[DECISION]", help="A number of the log; your last review by default.")
    ] = None,
    note: NoteOption = None,
    curator: CuratorOption = "",
) -> None:
    """Undo your last review, or a decision; its proposal is open again.

    Example: `doxa review undo kb.db`
    """
    from doxa.render import terminal

    kb = open_store(store, curator)
    number = kb.queue.undo_last(note=note) if decision is None else kb.undo(decision, note=note)
    undone = kb.entries(1).row(0, named=True)["undoes"]
    terminal.say(f"decision {number}: decision {undone} is undone, its proposal is open again")


def stats(
    store: StoreArgument,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="PNG", help="Draw the calibration in the field.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Count the decisions of reviewers; measure precision, agreement, and the calibration of the credence shown.

    Example: `doxa review stats kb.db --plot field.png`
    """
    from doxa.curation.field import statistics
    from doxa.render import terminal

    kb = open_store(store, read_only=True)
    figures, counts = statistics(kb.queue.decisions()), kb.queue.counts()
    if plot is not None and figures.calibration is not None:
        from doxa.data.atomic import written
        from doxa.render.plots import reliability_diagram

        with written(plot) as unfinished:
            reliability_diagram(figures.calibration, unfinished)
    if json_:
        print_json(figures.as_dict() | {"queue": counts})
        return
    terminal.say(", ".join(f"{number:,} {state}" for state, number in counts.items()))
    _tables(figures.as_dict())


def _tables(figures: dict[str, Any]) -> None:
    """Print the statistics."""
    from doxa.render import terminal

    for title, name in (("verdicts", "verdicts"), ("reasons of rejection", "reasons"), ("reviewers", "curators")):
        if figures[name]:
            terminal.show_table(title, (name[:-1], "decisions"), [(key, f"{n:,}") for key, n in figures[name].items()])
    if figures["precision"] is not None:
        kinds = ", ".join(f"{share:.1%} of {kind} ones" for kind, share in figures["precision_by_kind"].items())
        terminal.say(f"{figures['precision']:.1%} of the decided beliefs were accepted ({kinds})")
    calibration = figures["calibration"]
    if calibration:
        bins = zip(*calibration["bins"].values(), strict=True)
        rows = [(f"{shown:.3f}", f"{true:.3f}", f"{n:,}", "█" * round(20 * true)) for shown, true, n in bins]
        terminal.show_table("calibration in the field", ("credence shown", "accepted", "decisions", ""), rows)
        terminal.say(f"Brier {calibration['brier']:.3f}, ECE {calibration['ece']:.3f}")
    agreement = figures["agreement"]
    if agreement["pairs"]:
        kappa = "" if agreement["kappa"] is None else f", Cohen's kappa {agreement['kappa']:.2f}"
        terminal.say(f"{agreement['pairs']:,} proposals had two reviewers: {agreement['share']:.1%} agreed{kappa}")
        if agreement["disagreements"]:
            counts = "; ".join(f"{n:,} {verdicts}" for verdicts, n in agreement["disagreements"].items())
            terminal.say(f"{sum(agreement['disagreements'].values()):,} disagreements: {counts}")
