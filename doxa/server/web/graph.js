// The neighborhood of an entity as a small graph: on the left what points to it, on the right what it points to.

import { clip, s } from "./dom.js";
import { link } from "./router.js";

const WIDTH = 560, ROW = 40, LEFT = 180, RIGHT = WIDTH - 180, PER_RELATION = 3, PER_SIDE = 8;

/** The facts to draw: a few of each relation, so that no relation takes all places; proposed ones first. */
function chosen(facts, name) {
  const counts = new Map(), seen = new Set();
  return facts.map((fact) => {
    counts.set(fact.relation, (counts.get(fact.relation) ?? 0) + 1);
    return { ...fact, turn: fact.proposed ? 0 : counts.get(fact.relation) };
  }).filter((fact) => fact.turn <= PER_RELATION && fact.other !== name).sort((a, b) => a.turn - b.turn)
    .filter((fact) => !seen.has(fact.other) && seen.add(fact.other)).slice(0, PER_SIDE)
    .sort((a, b) => a.relation.localeCompare(b.relation));
}

/** The graph of an entity; `missing` are proposed facts, drawn dashed. */
export function graph(name, facts, missing) {
  const all = [...missing.slice(0, 6).map((fact) => ({ ...fact, proposed: true })), ...facts];
  const inward = chosen(all.filter((fact) => fact.tail === name).map((fact) => ({ ...fact, other: fact.head })), name);
  const outward = chosen(all.filter((fact) => fact.head === name).map((fact) => ({ ...fact, other: fact.tail })), name);
  const rows = Math.max(inward.length, outward.length, 2), height = rows * ROW + 24, middle = height / 2;
  const svg = s("svg", {
    class: "graph", viewBox: `0 0 ${WIDTH} ${height}`, role: "group", "aria-label": `Neighborhood of ${clip(name, 60)}`,
  });
  const edges = s("g", {}), nodes = s("g", {});
  const side = (list, x, anchor) => list.forEach((fact, index) => {
    const y = middle + (index - (list.length - 1) / 2) * ROW;
    const bend = (x + WIDTH / 2) / 2, shift = anchor === "end" ? -11 : 11;
    const curve = `M${x} ${y} C${bend} ${y} ${bend} ${middle} ${WIDTH / 2} ${middle}`;
    edges.append(s("path", { class: fact.proposed ? "edge proposed" : "edge", d: curve }));
    nodes.append(s("a", { href: link("entity", { name: fact.other }) },
      s("title", {}, clip(`${fact.head} · ${fact.relation} · ${fact.tail}`, 300)),
      s("circle", { class: fact.proposed ? "node proposed" : "node", cx: x, cy: y, r: 5 }),
      s("text", { class: "node-name", x: x + shift, y: y - 1, "text-anchor": anchor }, clip(fact.other, 23)),
      s("text", { class: "edge-name", x: x + shift, y: y + 13, "text-anchor": anchor }, clip(fact.relation, 28))));
  });
  side(inward, LEFT, "end");
  side(outward, RIGHT, "start");
  nodes.append(s("circle", { class: "node center", cx: WIDTH / 2, cy: middle, r: 9 }),
    s("text", { class: "node-name center", x: WIDTH / 2, y: middle - 17, "text-anchor": "middle" }, clip(name, 20)));
  svg.append(edges, nodes);
  return svg;
}
