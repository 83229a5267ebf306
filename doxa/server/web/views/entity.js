// Entity: what is known, what is probably missing, what looks wrong, what is alike, and a small graph.

import { entityPath, lines, recall } from "../api.js";
import { changesSince, decided } from "../changes.js";
import { h, percent, plural, put, whole } from "../dom.js";
import { graph } from "../graph.js";
import { go, link, repeated } from "../router.js";
import { nameField } from "../suggest.js";
import { badge, bar, empty, entity, load, problem, relation, section, waiting } from "../ui.js";
import { explained, nameOf } from "../why.js";

const SHOWN = 12, FACTS = 400, MISSING = 12, WORST = 18;

export const title = (params) => params.get("name") ?? "Entity";

export async function show(root, params, page) {
  const name = params.get("name"), open = repeated("why");
  const search = nameField({
    label: "Entity", hideLabel: Boolean(name), placeholder: "find an entity",
    onchoose: (chosen) => go("entity", { name: chosen }),
  });
  const form = h("form", { class: "search", onsubmit: (event) => {
    event.preventDefault();
    const typed = search.input.value.trim();
    if (typed) go("entity", { name: typed });
  } }, search.box);
  if (!name) return void start(root, form, search.input);
  const [about, changes] = await Promise.all([
    recall(entityPath(name), { top: FACTS }), changesSince(page, { entity: name }),
  ]);
  const facts = [...about.facts.filter((fact) => changes.get(nameOf(fact))?.holds !== false), ...added(changes)];
  const abort = new AbortController();
  const picture = h("div", { class: "picture" }, graph(about.name, facts, []));
  const redraw = (rows) => put(picture, graph(about.name, facts, rows));
  const sizes = `${plural(about.total, "known fact")} in ${plural(about.relations.length, "role")} · `;
  put(root,
    h("div", { class: "entity-head" },
      h("div", {}, h("h1", {}, h("bdi", {}, about.name)),
        h("p", { class: "small" }, sizes, h("a", { href: link("ask", { head: about.name }) }, "ask about it"))), form),
    h("div", { class: "entity-grid" },
      h("div", {}, known(about, changes), wrong(about.name, changes, open)),
      h("div", {}, section("Neighborhood", "dashed: probably missing", picture),
        missing(about.name, open, abort.signal, redraw), alike(about.name))));
  return { close: () => abort.abort() };
}

async function start(root, form, input) {
  put(root, h("h1", {}, "Entity"), h("div", { class: "panel" }, form));
  input.focus({ preventScroll: true });
  const { names } = await recall("names", { kind: "entity", limit: 24 });
  root.append(h("h2", { class: "quiet" }, "Entities with most facts"),
    h("ul", { class: "chips" }, names.map((one) => h("li", {}, entity(one.name), h("small", {}, whole(one.facts))))));
}

/** Beliefs that were accepted or added since the model was trained. */
const added = (changes) => [...changes.values()].filter((one) => one.holds && !one.known);

function known(about, changes) {
  const groups = new Map();
  for (const fact of [...about.facts, ...added(changes)]) {
    const outward = fact.head === about.name, key = `${outward}\u0000${fact.relation}`;
    if (!groups.has(key)) groups.set(key, { outward, name: fact.relation, facts: [] });
    groups.get(key).facts.push(fact);
  }
  const counts = new Map(about.relations.map((one) => [`${one.slot === "head"}\u0000${one.relation}`, one.facts]));
  const ordered = [...groups].sort(([, a], [, b]) =>
    Number(b.outward) - Number(a.outward) || a.name.localeCompare(b.name));
  const drawn = ordered.map(([key, group]) =>
    block(about.name, group, Math.max(counts.get(key) ?? 0, group.facts.length), changes));
  const note = plural(about.total, "fact") + (changes.size ? `, ${plural(changes.size, "decision")} since` : "");
  return section("Known", note, drawn.length ? h("div", { class: "known-facts" }, drawn) : empty("Nothing is known."));
}

function block(name, group, total, changes) {
  const items = recentFirst(group.facts, changes).map((fact) => chip(fact, group.outward, changes));
  const list = h("ul", { class: "chips" }, items.slice(0, SHOWN));
  const all = (event) => {
    const rest = total - items.length;
    put(list, items, rest > 0 ? h("li", { class: "plain" }, `and ${whole(rest)} more`) : null);
    event.preventDefault();
  };
  if (total > SHOWN) {
    const text = `${whole(total - SHOWN)} more`;
    list.append(h("li", { class: "plain" }, h("button", { type: "button", class: "link", onclick: all }, text)));
  }
  const label = group.outward ? [relation(group.name)] : [relation(group.name), h("small", {}, " of these")];
  const ask = link("ask", group.outward ? { head: name, relation: group.name } : { relation: group.name, tail: name });
  return h("div", { class: `group ${group.outward ? "out" : "in"}` },
    h("h3", {}, label, h("a", { class: "small", href: ask, "aria-label": `Ask: ${group.name}` }, "ask")), list);
}

/** What was decided since the model was trained is not hidden behind "more". */
const recentFirst = (facts, changes) => [...facts].sort((a, b) => changes.has(nameOf(b)) - changes.has(nameOf(a)));

function chip(fact, outward, changes) {
  const doubtful = fact.confidence != null && fact.confidence < 0.5, change = changes.get(nameOf(fact));
  const kind = change?.holds === false ? "retracted" : doubtful ? "doubtful" : "";
  return h("li", { class: kind }, entity(outward ? fact.tail : fact.head),
    doubtful ? h("small", { title: "confidence" }, percent(fact.confidence)) : null,
    change ? h("small", {}, change.holds ? "accepted" : "retracted") : null);
}

function missing(name, open, signal, drawn) {
  const place = h("div", {}, waiting("Searching …"));
  const progress = ({ progress: value, count }) => h("div", { class: "progress-line" },
    h("progress", { value, max: 1, "aria-label": "Search" }), h("span", { class: "small" }, `${count} so far`));
  (async () => {
    const rows = [];
    try {
      for await (const line of lines("complete", { entity: name, top: MISSING, min_credence: 0.2 }, { signal })) {
        if (line.proposal) rows.push(line.proposal);
        else if (line.problem) throw Object.assign(new Error(line.problem.detail), { hints: line.problem.hints ?? [] });
        else if (line.progress !== undefined) put(place, progress(line));
      }
      put(place, rows.length ? h("ul", { class: "rows" }, rows.map((row) => explained(row, open, bar(row.credence))))
        : empty("Nothing that the model is at least 20 % sure of."));
      drawn(rows);
    } catch (fault) {
      if (fault.name !== "AbortError") put(place, problem(fault));
    }
  })();
  return section("Probably missing", "by credence", place);
}

/** Suspicion is a sum of log odds: above 0 a belief is more likely wrong than right. */
const suspicion = (row) => bar(row.suspicion / WORST, { kind: "against", label: "" });

/** Why a belief is suspect, a line for each reason. */
function reasons(row) {
  const text = (one) => one.replace(/^credence (.*)/, (_, value) => `credence ${percent(Number(value))}`);
  return h("ul", { class: "small" }, row.reason.split("; ").map((one) => h("li", {}, text(one))));
}

/** A known belief that looks wrong, with what was decided about it since. */
export function suspect(row, open, changes) {
  const line = explained(row, open, suspicion(row), [decided(changes, row), reasons(row)]);
  line.classList.toggle("done", changes.get(nameOf(row))?.holds === false);
  return line;
}

function wrong(name, changes, open) {
  const place = h("div", {});
  load(place, recall("audit", { entity: name, top: 20 }), ({ suspects }) => {
    const rows = suspects.filter((one) => one.suspicion > 0).slice(0, 8);
    return rows.length ? h("ul", { class: "rows" }, rows.map((row) => suspect(row, open, changes)))
      : empty(badge("fine", "good"), " No fact looks wrong.");
  }, "Checking …");
  return section("Looks wrong", "by suspicion", place);
}

function alike(name) {
  const place = h("div", {});
  const pair = (one) => h("li", { class: "pair" }, entity(one.name),
    bar(one.similarity, { kind: "thin", label: one.similarity.toFixed(2) }));
  load(place, recall("similar", { entity: name, top: 10 }), ({ similar }) =>
    h("ul", { class: "rows compact" }, similar.map(pair)));
  return section("Alike", "similarity of vectors", place);
}
