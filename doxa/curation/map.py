"""A map: entities of chosen relations in two dimensions, alike ones near each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from doxa.calibration.thresholds import Numbers
from doxa.curation.explain import flat
from doxa.curation.similar import clusters, directions
from doxa.data.vocabulary import Ids
from doxa.errors import DoxaError, one_of
from doxa.model import Model

LAYOUTS = ("tsne", "pca")
COLORS = ("#2a6f97", "#c8553d", "#588157", "#8a6d3b", "#7b5ea7", "#d4a017", "#3d8f8a", "#a4466c", "#5c6b73", "#9c6644")


@dataclass(frozen=True, eq=False)
class Map:
    """Vocabularies, their places in the unit square, (n, 2), the group each belongs to, and what the groups are."""

    title: str
    names: tuple[str, ...]
    places: Numbers
    group: Ids
    groups: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


def draw_map(
    model: Model,
    relations: Sequence[str] = (),
    most: int = 800,
    layout: str = "tsne",
    groups: int = 0,
    seed: int = 0,
) -> Map:
    """A map of the entities that stand in beliefs of some relations (all if none is named), `most` of them at most.

    Those with most beliefs are kept. The layout is t-SNE of the vectors' directions, or their two main axes (pca).
    Entities are grouped by whether they stand as head or tail, or by likeness into so many `groups`.
    """
    one_of("layout", layout, LAYOUTS)
    ids = model.vocabularies.relations.require(relations) if relations else np.arange(len(model.vocabularies.relations))
    facts = model.known.triples
    facts = facts[np.isin(facts[:, 1], ids)]
    counts = np.bincount(facts[:, [0, 2]].ravel(), minlength=len(model.vocabularies.entities))
    chosen = np.sort(np.argsort(-counts, kind="stable")[: min(most, int((counts > 0).sum()))])
    if len(chosen) < 3:
        raise DoxaError(f"the relations have {len(chosen)} entities; at least 3 are needed for a map")
    vectors = directions(model, chosen).double().numpy()
    if groups:
        found = clusters(model, min(groups, len(chosen)), chosen, seed)
        group = np.zeros(len(chosen), np.int64)
        for number, cluster in enumerate(found):
            group[np.searchsorted(chosen, cluster.entities)] = number
        said = tuple(f"like {', '.join(cluster.names[:2])}" for cluster in found)
    else:
        head, tail = np.isin(chosen, facts[:, 0]), np.isin(chosen, facts[:, 2])
        group = np.where(head & tail, 2, np.where(tail, 1, 0))
        said = ("head", "tail", "both")
    names = tuple(model.vocabularies.entities.names.gather(chosen).to_list())
    title = ", ".join(relations) if relations else "all relations"
    return Map(title, names, _placed(vectors, layout, seed), group, said)


def _placed(vectors: Numbers, layout: str, seed: int) -> Numbers:
    if layout == "pca" or len(vectors) < 10:
        return flat(vectors)
    from sklearn.manifold import TSNE  # only this needs it, and answering should start quickly

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    made = TSNE(2, perplexity=perplexity, init="pca", random_state=seed, metric="cosine").fit_transform(vectors)
    made = np.asarray(made, float)
    return np.asarray((made - made.min(axis=0)) / np.maximum(np.ptp(made, axis=0), 1e-12))


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title>
<style>
body { margin: 0; font: 14px system-ui, sans-serif; color: #1f2d3d } canvas { display: block; cursor: grab }
#bar { position: fixed; top: 10px; left: 12px; background: #fffd; padding: .4rem .7rem; border: 1px solid #dde4ea }
#tip { position: fixed; pointer-events: none; background: #1f2d3d; color: #fff; padding: .1rem .4rem; display: none }
.dot { display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin: 0 .3em 0 .8em }
</style></head>
<body><div id="bar"><b>@TITLE@</b> <input id="find" placeholder="find an entity">@LEGEND@</div>
<div id="tip"></div><canvas id="map"></canvas>
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
function size() { canvas.width = innerWidth; canvas.height = innerHeight; draw(); }
addEventListener("resize", size);
find.addEventListener("input", draw);
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  const factor = e.deltaY < 0 ? 1.2 : 1 / 1.2;
  left = e.clientX - (e.clientX - left) * factor;
  top_ = e.clientY - (e.clientY - top_) * factor;
  zoom *= factor; draw();
}, {passive: false});
canvas.addEventListener("mousedown", e => { drag = [e.clientX - left, e.clientY - top_]; });
addEventListener("mouseup", () => { drag = null; });
canvas.addEventListener("mousemove", e => {
  if (drag) { left = e.clientX - drag[0]; top_ = e.clientY - drag[1]; draw(); return; }
  let near = null, best = 100;
  for (const p of points) {
    const [x, y] = at(p), gap = (x - e.clientX) ** 2 + (y - e.clientY) ** 2;
    if (gap < best) { best = gap; near = p; }
  }
  tip.style.display = near ? "block" : "none";
  if (near) { tip.textContent = near[0]; tip.style.left = e.clientX + 12 + "px"; tip.style.top = e.clientY + "px"; }
});
size();
</script></body></html>
"""


def map_page(found: Map) -> str:
    """The map as one self-contained page to move about, zoom and search in."""
    rows = [
        [name, round(float(x), 4), round(float(y), 4), int(group)]
        for name, (x, y), group in zip(found.names, found.places, found.group, strict=True)
    ]
    legend = "".join(
        f'<span class="dot" style="background: {COLORS[number % len(COLORS)]}"></span>{escape(group)}'
        for number, group in enumerate(found.groups)
    )
    points = json.dumps(rows, ensure_ascii=False).replace("<", "\\u003c")
    page = PAGE.replace("@TITLE@", escape(found.title)).replace("@LEGEND@", legend)
    return page.replace("@COLORS@", json.dumps(COLORS)).replace("@POINTS@", points)
