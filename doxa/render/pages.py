"""HTML: the page of an explanation, the page of a map, the face of a result in a notebook.

Each page is one self-contained file. Every name from the data is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

import polars as pl

from doxa.render.colors import ACCENT, BLUE, GRAY, GROUPS, INK, ROLES

if TYPE_CHECKING:
    from doxa.curation.explanation import Explanation, RunnerUp
    from doxa.curation.map import Map

WIDTH, HEIGHT, EDGE = 720, 380, 60
"""Size of the picture of the neighborhood, and its margin, in pixels."""

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2d3d; max-width: 760px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem } h2 { font-size: 1rem; margin: 1.6rem 0 .4rem }
table { border-collapse: collapse } td, th { padding: .15rem .8rem .15rem 0; text-align: left; font-weight: normal }
th { color: #6b7f91 } td.number { text-align: right; font-variant-numeric: tabular-nums }
.bar { display: inline-block; height: .7em } .note { color: #6b7f91 } svg { border: 1px solid #dde4ea; width: 100% }
"""


def explanation_page(explanation: Explanation) -> str:
    """The explanation of a belief as a page, with a picture of the entities around it."""
    title = " · ".join(explanation.belief[:3])
    sections = (_summary, _words, _runners_up, _similar_facts, _influences, _neighborhood)
    body = "\n".join(part for section in sections for part in section(explanation))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def _summary(explanation: Explanation) -> Iterator[str]:
    if explanation.belief[3]:
        yield f"<p>“{escape(explanation.belief[3])}”</p>"
    verdict = "true" if explanation.verdict else "false"
    known = "is a known fact" if explanation.known else "is not a known fact"
    yield f"<p>Credence <b>{explanation.credence:.2%}</b>, judged {verdict}. The belief {known}.</p>"
    yield "<h2>The three terms of Eq. 1</h2>"
    rows = [(escape(name), f"{term:.4g}") for name, term in _terms(explanation).items()]
    yield _table(("", ""), [*rows, ("their geometric mean, before calibration", f"{explanation.uncalibrated:.4g}")])


def _terms(explanation: Explanation) -> dict[str, float]:
    """The terms of Eq. 1 by name."""
    terms: dict[str, float] = explanation.as_dict()["terms"]
    return terms


def _words(explanation: Explanation) -> Iterator[str]:
    mention = explanation.mention
    if not mention:
        return
    rival = explanation.relation_runner_up
    instead = f" rather than {rival.name}" if rival else ""
    yield f"<h2>The words, for {escape(explanation.belief[1])}{escape(instead)}</h2>"
    largest = max((abs(word.contrast) for word in mention.words), default=1.0) or 1.0
    words = sorted(mention.words, key=lambda word: -word.contrast)
    rows = [(escape(word.word), f"{word.contrast:+.2f}", _bar(word.contrast / largest), f"{word.addend:+.3f}")
            for word in words]  # fmt: skip
    yield _table(("word", "in favor", "", "addend of F(r, m)"), rows)
    yield f'<p class="note">F(r, m) = {mention.total:.4f}, of which β = {mention.beta:.4f}.</p>'
    if mention.unknown:
        yield f'<p class="note">Never seen: {escape(", ".join(mention.unknown))}.</p>'


def _runners_up(explanation: Explanation) -> Iterator[str]:
    yield "<h2>The best other answers</h2>"
    for what, rival in (("tail", explanation.tail_runner_up), ("relation", explanation.relation_runner_up)):
        if rival:
            yield f"<p>{escape(_comparison(what, rival, _terms(explanation)))}</p>"


def _comparison(what: str, rival: RunnerUp, terms: dict[str, float]) -> str:
    rival_term = rival.terms[list(terms).index(rival.decided_by)]
    known = ", a known answer," if rival.known else ""
    outcome = "is more probable" if rival.ahead else "is less probable"
    return (
        f"The {what} {rival.name}{known} {outcome}, mostly by {rival.decided_by}: "
        f"{rival_term:.3g} against {terms[rival.decided_by]:.3g}."
    )


def _similar_facts(explanation: Explanation) -> Iterator[str]:
    if explanation.similar_facts:
        yield f"<h2>The most similar known facts of {escape(explanation.belief[1])}</h2>"
        rows = [(escape(fact.head), escape(fact.tail), f"{fact.head_similarity:+.2f}", f"{fact.tail_similarity:+.2f}")
                for fact in explanation.similar_facts]  # fmt: skip
        yield _table(("head", "tail", "similarity of heads", "of tails"), rows)


def _influences(explanation: Explanation) -> Iterator[str]:
    if explanation.influences:
        yield "<h2>Training beliefs with most influence on the answer</h2>"
        rows = []
        for head, relation, tail, influence in explanation.influences:
            effect = "supports it" if influence > 0 else "opposes it"
            rows.append((escape(f"{head} · {relation} · {tail}"), f"{influence:+.3g}", effect))
        yield _table(("", "influence", ""), rows)


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of cells that are HTML already."""

    def cell(text: str) -> str:
        return f'<td class="number">{text}</td>' if text[:1] in "+-0123456789" else f"<td>{text}</td>"

    top = "".join(f"<th>{heading}</th>" for heading in headings) if any(headings) else ""
    lines = ["<tr>" + "".join(cell(text) for text in row) + "</tr>" for row in rows]
    return f"<table>{f'<tr>{top}</tr>' if top else ''}{''.join(lines)}</table>"


def _bar(share: float) -> str:
    color = BLUE if share > 0 else ACCENT
    return f'<span class="bar" style="width: {abs(share) * 120:.0f}px; background: {color}"></span>'


def _neighborhood(explanation: Explanation) -> Iterator[str]:
    """Entities on the two main axes of their vectors; the line is the belief."""
    yield "<h2>The neighborhood</h2>"
    yield f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="the neighborhood">'
    where = {role: _pixels(x, y) for _, role, x, y in explanation.neighborhood if role in ("head", "tail")}
    if len(where) == 2:
        (x1, y1), (x2, y2) = where["head"], where["tail"]
        yield f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{ACCENT}"/>'
    for name, role, x, y in explanation.neighborhood:
        left, top = _pixels(x, y)
        yield f'<circle cx="{left:.1f}" cy="{top:.1f}" r="5" fill="{ROLES[role]}"><title>{role}</title></circle>'
        yield f'<text x="{left + 8:.1f}" y="{top + 4:.1f}" font-size="12" fill="{INK}">{escape(name)}</text>'
    for number, (role, color) in enumerate(ROLES.items()):
        left = 20 + 110 * number
        yield f'<circle cx="{left}" cy="{HEIGHT - 12}" r="4" fill="{color}"/>'
        yield f'<text x="{left + 8}" y="{HEIGHT - 8}" font-size="11" fill="{GRAY}">{role}</text>'
    yield "</svg>"


def _pixels(x: float, y: float) -> tuple[float, float]:
    """A place in the unit square as pixels of the picture."""
    return EDGE + x * (WIDTH - 3 * EDGE), EDGE / 2 + (1 - y) * (HEIGHT - EDGE)


def result_html(title: str, frame: pl.DataFrame, rows: int = 20) -> str:
    """A result in a notebook: one line of text, and the first `rows` of its frame as a table."""
    with pl.Config(tbl_rows=rows, tbl_cols=-1, fmt_str_lengths=100):
        return f"<p>{escape(title)}</p>{frame.head(rows)._repr_html_()}"


MAP_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title>
<style>
body { margin: 0; font: 14px system-ui, sans-serif; color: #1f2d3d } canvas { display: block; cursor: grab }
body { display: flex; flex-direction: column; height: 100vh; overflow: hidden }
#bar { padding: .4rem .7rem; border-bottom: 1px solid #dde4ea } .group { white-space: nowrap }
#place { flex: 1; min-height: 0 }
#tip { position: fixed; pointer-events: none; background: #1f2d3d; color: #fff; padding: .1rem .4rem; display: none }
.dot { display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin: 0 .3em 0 .8em }
</style></head>
<body><div id="bar"><b>@TITLE@</b> <input id="find" placeholder="find an entity">@LEGEND@</div>
<div id="tip"></div><div id="place"><canvas id="map"></canvas></div>
<script>
const points = @POINTS@, colors = @COLORS@;
const canvas = document.getElementById("map"), pen = canvas.getContext("2d");
const tip = document.getElementById("tip"), find = document.getElementById("find");
let zoom = 1, left = 0, top_ = 0, drag = null;
const at = p => [left + zoom * (40 + p[1] * (canvas.width - 80)),
                 top_ + zoom * (40 + (1 - p[2]) * (canvas.height - 80))];
function draw() {
  pen.clearRect(0, 0, canvas.width, canvas.height);
  const wanted = find.value.toLowerCase();
  for (const p of points) {
    const [x, y] = at(p), hit = wanted && p[0].toLowerCase().includes(wanted);
    pen.globalAlpha = wanted && !hit ? 0.15 : 0.8;
    pen.fillStyle = colors[p[3] % colors.length];
    pen.beginPath(); pen.arc(x, y, hit ? 6 : 3.5, 0, 7); pen.fill();
    if (hit || zoom > 4) { pen.globalAlpha = 1; pen.fillStyle = "#1f2d3d"; pen.fillText(p[0], x + 7, y + 4); }
  }
}
function size() {
  const place = canvas.parentElement;
  canvas.width = place.clientWidth; canvas.height = place.clientHeight; draw();
}
addEventListener("resize", size);
find.addEventListener("input", draw);
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  const factor = e.deltaY < 0 ? 1.2 : 1 / 1.2;
  left = e.offsetX - (e.offsetX - left) * factor;
  top_ = e.offsetY - (e.offsetY - top_) * factor;
  zoom *= factor; draw();
}, {passive: false});
canvas.addEventListener("mousedown", e => { drag = [e.clientX - left, e.clientY - top_]; });
addEventListener("mouseup", () => { drag = null; });
canvas.addEventListener("mousemove", e => {
  if (drag) { left = e.clientX - drag[0]; top_ = e.clientY - drag[1]; draw(); return; }
  let near = null, best = 100;
  for (const p of points) {
    const [x, y] = at(p), gap = (x - e.offsetX) ** 2 + (y - e.offsetY) ** 2;
    if (gap < best) { best = gap; near = p; }
  }
  tip.style.display = near ? "block" : "none";
  if (near) { tip.textContent = near[0]; tip.style.left = e.clientX + 12 + "px"; tip.style.top = e.clientY + "px"; }
});
size();
</script></body></html>
"""


def map_page(entities: Map) -> str:
    """A map as one self-contained page, in which the reader can move, zoom and search."""
    rows = [
        [name, round(float(x), 4), round(float(y), 4), int(group)]
        for name, (x, y), group in zip(entities.names, entities.places, entities.group, strict=True)
    ]
    legend = " ".join(
        f'<span class="group"><span class="dot" style="background: {GROUPS[number % len(GROUPS)]}"></span>'
        f"{escape(group)}</span>"
        for number, group in enumerate(entities.groups)
        if (entities.group == number).any()
    )
    parts = {
        "TITLE": escape(entities.title),
        "LEGEND": legend,
        "COLORS": json.dumps(GROUPS),
        "POINTS": json.dumps(rows, ensure_ascii=False).replace("<", "\\u003c"),
    }
    return re.sub(r"@([A-Z]+)@", lambda match: parts[match[1]], MAP_PAGE)
