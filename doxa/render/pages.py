"""An explanation as a page: one self-contained HTML file with a picture of the neighborhood."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import polars as pl

from doxa.curation.explanation import TERMS, Explanation, RunnerUp

COLORS = {
    "head": "#c8553d",
    "tail": "#2a6f97",
    "runner-up": "#8a6d3b",
    "like head": "#e3a394",
    "like tail": "#9fc3d8",
}
WIDTH, HEIGHT, EDGE = 720, 380, 60

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2d3d; max-width: 760px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem } h2 { font-size: 1rem; margin: 1.6rem 0 .4rem }
table { border-collapse: collapse } td, th { padding: .15rem .8rem .15rem 0; text-align: left; font-weight: normal }
th { color: #6b7f91 } td.number { text-align: right; font-variant-numeric: tabular-nums }
.bar { display: inline-block; height: .7em } .note { color: #6b7f91 } svg { border: 1px solid #dde4ea; width: 100% }
"""


def to_html(found: Explanation) -> str:
    """The page."""
    head, relation, tail, mention = found.belief
    title = f"{head} · {relation} · {tail}"
    parts = [f"<h1>{escape(title)}</h1>"]
    if mention:
        parts.append(f"<p>“{escape(mention)}”</p>")
    verdict = "true" if found.verdict else "false"
    known = "it stands in the knowledge base" if found.known else "it does not stand in the knowledge base"
    parts.append(f"<p>Credence <b>{found.credence:.2%}</b>, held {verdict}; {known}.</p>")
    parts.append("<h2>The three terms of Eq. 1</h2>")
    rows = [(escape(name), f"{term:.4g}") for name, term in zip(TERMS, found.terms, strict=True)]
    parts.append(_table(("", ""), [*rows, ("their geometric mean, before calibration", f"{found.uncalibrated:.4g}")]))
    if found.mention:
        beside = f" rather than {found.relation_runner_up.name}" if found.relation_runner_up else ""
        parts.append(f"<h2>The words, for {escape(relation)}{escape(beside)}</h2>")
        largest = max((abs(word.contrast) for word in found.mention.words), default=1.0) or 1.0
        words = sorted(found.mention.words, key=lambda word: -word.contrast)
        drawn = [(escape(word.word), f"{word.contrast:+.2f}", _bar(word.contrast / largest), f"{word.addend:+.3f}")
                 for word in words]  # fmt: skip
        parts.append(_table(("word", "for it", "", "addend of F(r, m)"), drawn))
        parts.append(f'<p class="note">F(r, m) = {found.mention.total:.4f}, of which β = {found.mention.beta:.4f}.</p>')
        if found.mention.unknown:
            parts.append(f'<p class="note">Never seen: {escape(", ".join(found.mention.unknown))}.</p>')
    parts.append("<h2>What else it might be</h2>")
    for what, one in (("tail", found.tail_runner_up), ("relation", found.relation_runner_up)):
        if one:
            parts.append(f"<p>{escape(_told(what, one, found.terms))}</p>")
    if found.similar_facts:
        parts.append(f"<h2>Most alike of what is known about {escape(relation)}</h2>")
        kin = [(escape(one.head), escape(one.tail), f"{one.head_similarity:+.2f}", f"{one.tail_similarity:+.2f}")
               for one in found.similar_facts]  # fmt: skip
        parts.append(_table(("head", "tail", "heads alike", "tails alike"), kin))
    if found.influences:
        parts.append("<h2>Training beliefs without which the answer would change most</h2>")
        pushes = [(escape(f"{one.head} · {one.relation} · {one.tail}"), f"{one.influence:+.3g}",
                   "holds it up" if one.influence > 0 else "drags it down") for one in found.influences]  # fmt: skip
        parts.append(_table(("", "push", ""), pushes))
    parts += ["<h2>The neighborhood</h2>", _picture(found)]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _told(what: str, one: RunnerUp, terms: tuple[float, float, float]) -> str:
    place = TERMS.index(one.decided_by)
    known = ", which is known," if one.known else ""
    beside = f"most by {one.decided_by}: {one.terms[place]:.3g} against {terms[place]:.3g}"
    return f"The {what} {one.name}{known} {'is likelier' if one.ahead else 'loses'}, {beside}."


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Cells are HTML already."""

    def cell(text: str) -> str:
        return f'<td class="number">{text}</td>' if text[:1] in "+-0123456789" else f"<td>{text}</td>"

    top = "".join(f"<th>{heading}</th>" for heading in headings) if any(headings) else ""
    lines = ["<tr>" + "".join(cell(text) for text in row) + "</tr>" for row in rows]
    return f"<table>{f'<tr>{top}</tr>' if top else ''}{''.join(lines)}</table>"


def _bar(share: float) -> str:
    color = "#2a6f97" if share > 0 else "#c8553d"
    return f'<span class="bar" style="width: {abs(share) * 120:.0f}px; background: {color}"></span>'


def _picture(found: Explanation) -> str:
    """Entities on the two axes along which their vectors differ most; the belief is the line."""

    def place(x: float, y: float) -> tuple[float, float]:
        return EDGE + x * (WIDTH - 3 * EDGE), EDGE / 2 + (1 - y) * (HEIGHT - EDGE)

    where = {role: place(x, y) for name, role, x, y in found.neighborhood if role in ("head", "tail")}
    drawn = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="the neighborhood">']
    if len(where) == 2:
        (x1, y1), (x2, y2) = where["head"], where["tail"]
        drawn.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#c8553d"/>')
    for name, role, x, y in found.neighborhood:
        left, top = place(x, y)
        drawn.append(
            f'<circle cx="{left:.1f}" cy="{top:.1f}" r="5" fill="{COLORS[role]}"><title>{role}</title></circle>'
            f'<text x="{left + 8:.1f}" y="{top + 4:.1f}" font-size="12" fill="#1f2d3d">{escape(name)}</text>'
        )
    legend = "".join(
        f'<circle cx="{20 + 110 * number}" cy="{HEIGHT - 12}" r="4" fill="{color}"/>'
        f'<text x="{28 + 110 * number}" y="{HEIGHT - 8}" font-size="11" fill="#6b7f91">{role}</text>'
        for number, (role, color) in enumerate(COLORS.items())
    )
    return "\n".join([*drawn, legend, "</svg>"])


def result_html(title: str, frame: pl.DataFrame, rows: int = 20) -> str:
    """A result in a notebook: one line of text and its first rows as a table."""
    return f"<p>{escape(title)}</p>{frame.head(rows)._repr_html_()}"
