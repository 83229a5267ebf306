// The neighborhood of an entity as a small graph: known facts as solid lines, proposed ones dashed.

import { clip, s } from "./dom.js";
import { link } from "./router.js";

const WIDTH = 560, HEIGHT = 380, PER_RELATION = 3, MOST = 14;

/** The facts to draw: a few of each relation and direction, so that no relation takes all places. */
export function chosen(facts, name) {
  const counts = new Map(), seen = new Set();
  const spread = facts.map((fact) => {
    const outward = fact.head === name, other = outward ? fact.tail : fact.head, group = `${fact.relation}\u0000${outward}`;
    counts.set(group, (counts.get(group) ?? 0) + 1);
    return { ...fact, outward, other, turn: counts.get(group) };
  });
  return spread.filter((fact) => fact.turn <= PER_RELATION && fact.other !== name).sort((a, b) => a.turn - b.turn)
    .filter((fact) => !seen.has(fact.other) && seen.add(fact.other)).slice(0, MOST)
    .sort((a, b) => a.relation.localeCompare(b.relation));
}

/** The graph of an entity; `missing` are proposed facts. */
export function graph(name, facts, missing) {
  const known = chosen(facts, name), extra = chosen(missing, name).filter((one) => !known.some((fact) => fact.other === one.other)).slice(0, 4);
  const all = [...known, ...extra.map((one) => ({ ...one, proposed: true }))];
  const svg = s("svg", { class: "graph", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": `Neighborhood of ${clip(name, 60)}` });
  const center = [WIDTH / 2, HEIGHT / 2], edges = s("g", {}), nodes = s("g", {});
  all.forEach((fact, index) => {
    const angle = ((index + 0.5) / all.length) * 2 * Math.PI - Math.PI / 2, inner = index % 2 && all.length > 8 ? 0.8 : 1;
    const x = center[0] + Math.cos(angle) * 172 * inner, y = center[1] + Math.sin(angle) * 158 * inner;
    edges.append(s("line", { class: fact.proposed ? "edge proposed" : "edge", x1: center[0], y1: center[1], x2: x, y2: y }));
    const label = [center[0] + (x - center[0]) * 0.6, center[1] + (y - center[1]) * 0.6];
    edges.append(s("text", { class: "edge-name", x: label[0], y: label[1], "text-anchor": "middle" }, `${fact.outward ? "" : "‹ "}${clip(fact.relation, 18)}${fact.outward ? " ›" : ""}`));
    const side = Math.abs(Math.cos(angle)) < 0.25 ? "middle" : Math.cos(angle) > 0 ? "start" : "end";
    const shift = side === "middle" ? 0 : side === "start" ? 9 : -9, drop = side === "middle" ? (Math.sin(angle) > 0 ? 18 : -10) : 4;
    nodes.append(s("a", { href: link("entity", { name: fact.other }) }, s("title", {}, clip(`${fact.head} · ${fact.relation} · ${fact.tail}`, 300)),
      s("circle", { class: fact.proposed ? "node proposed" : "node", cx: x, cy: y, r: 5 }),
      s("text", { class: "node-name", x: x + shift, y: y + drop, "text-anchor": side }, clip(fact.other, 18))));
  });
  nodes.append(s("circle", { class: "node center", cx: center[0], cy: center[1], r: 8 }),
    s("text", { class: "node-name center", x: center[0], y: center[1] - 14, "text-anchor": "middle" }, clip(name, 28)));
  svg.append(edges, nodes);
  return svg;
}
