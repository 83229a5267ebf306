// Entity: what is known, what is probably missing, what looks wrong, what is alike, and a small graph.

import { entityPath, lines, recall } from "../api.js";
import { h, percent, plural, put, whole } from "../dom.js";
import { graph } from "../graph.js";
import { go, link } from "../router.js";
import { nameField } from "../suggest.js";
import { badge, bar, belief, empty, entity, load, problem, relation, section, waiting } from "../ui.js";
import { whyButton } from "../why.js";

const SHOWN = 12, FACTS = 400, MISSING = 12, WORST = 18;

export const title = (params) => params.get("name") ?? "Entity";

export async function show(root, params) {
  const name = params.get("name");
  const search = nameField({ label: "Entity", hideLabel: Boolean(name), placeholder: "find an entity", onchoose: (chosen) => go("entity", { name: chosen }) });
  const form = h("form", { class: "search", onsubmit: (event) => { event.preventDefault(); if (search.input.value.trim()) go("entity", { name: search.input.value.trim() }); } }, search.box);
  if (!name) return void start(root, form, search.input);
  const about = await recall(entityPath(name), { top: FACTS });
  const abort = new AbortController();
  const picture = h("div", { class: "picture" }, graph(about.name, about.facts, []));
  put(root,
    h("div", { class: "entity-head" }, h("div", {}, h("h1", {}, h("bdi", {}, about.name)),
      h("p", { class: "small" }, `${plural(about.total, "known fact")} in ${plural(about.relations.length, "role")} · `, h("a", { href: link("ask", { head: about.name }) }, "ask about it"))), form),
    h("div", { class: "entity-grid" },
      h("div", {}, known(about), wrong(about.name)),
      h("div", {}, section("Neighborhood", "dashed: probably missing", picture),
        missing(about.name, abort.signal, (rows) => put(picture, graph(about.name, about.facts, rows))), alike(about.name))));
  return { close: () => abort.abort() };
}

async function start(root, form, input) {
  put(root, h("h1", {}, "Entity"), h("div", { class: "panel" }, form));
  input.focus({ preventScroll: true });
  const { names } = await recall("names", { kind: "entity", limit: 24 });
  root.append(h("h2", { class: "quiet" }, "Entities with most facts"), h("ul", { class: "chips" }, names.map((one) => h("li", {}, entity(one.name), h("small", {}, whole(one.facts))))));
}

function known(about) {
  const groups = new Map();
  for (const fact of about.facts) {
    const outward = fact.head === about.name, key = `${outward}\u0000${fact.relation}`;
    if (!groups.has(key)) groups.set(key, { outward, name: fact.relation, facts: [] });
    groups.get(key).facts.push(fact);
  }
  const counts = new Map(about.relations.map((one) => [`${one.slot === "head"}\u0000${one.relation}`, one.facts]));
  const ordered = [...groups].sort((a, b) => Number(b[1].outward) - Number(a[1].outward) || a[1].name.localeCompare(b[1].name));
  return section("Known", plural(about.total, "fact"), about.total ? h("div", { class: "known-facts" }, ordered.map(([key, group]) => block(about.name, group, counts.get(key) ?? group.facts.length))) : empty("Nothing is known."));
}

function block(name, group, total) {
  const items = group.facts.map((fact) => h("li", { class: fact.confidence !== null && fact.confidence < 0.5 ? "doubtful" : "" }, entity(group.outward ? fact.tail : fact.head),
    fact.confidence !== null && fact.confidence < 0.5 ? h("small", { title: "confidence" }, percent(fact.confidence)) : null));
  const list = h("ul", { class: "chips" }, items.slice(0, SHOWN));
  if (total > SHOWN) {
    list.append(h("li", { class: "plain" }, h("button", { type: "button", class: "link", onclick: (event) => { put(list, items, total > items.length ? h("li", { class: "plain" }, `and ${whole(total - items.length)} more`) : null); event.preventDefault(); } }, `${whole(total - SHOWN)} more`)));
  }
  const label = group.outward ? [relation(group.name)] : [relation(group.name), h("small", {}, " of these")];
  const ask = link("ask", group.outward ? { head: name, relation: group.name } : { relation: group.name, tail: name });
  return h("div", { class: `group ${group.outward ? "out" : "in"}` }, h("h3", {}, label, h("a", { class: "small", href: ask, "aria-label": `Ask: ${group.name}` }, "ask")), list);
}

function missing(name, signal, drawn) {
  const place = h("div", {}, waiting("Searching …"));
  (async () => {
    const rows = [];
    try {
      for await (const line of lines("complete", { entity: name, top: MISSING, min_credence: 0.2 }, { signal })) {
        if (line.proposal) rows.push(line.proposal);
        else if (line.problem) throw Object.assign(new Error(line.problem.detail), { hints: line.problem.hints ?? [] });
        else if (line.progress !== undefined) put(place, h("div", { class: "progress-line" }, h("progress", { value: line.progress, max: 1, "aria-label": "Search" }), h("span", { class: "small" }, `${line.count} so far`)));
      }
      put(place, rows.length ? h("ul", { class: "rows" }, rows.map((row) => explained(row, bar(row.credence)))) : empty("Nothing that the model is at least 20 % sure of."));
      drawn(rows);
    } catch (fault) {
      if (fault.name !== "AbortError") put(place, problem(fault));
    }
  })();
  return section("Probably missing", "by credence", place);
}

/** A belief with a figure and a button that explains it; `extra` stands below. */
export function explained(row, figure, ...extra) {
  const { panel, row: line } = whyButton({ head: row.head, relation: row.relation, tail: row.tail });
  return h("li", {}, line(belief(row.head, row.relation, row.tail), figure), ...extra, panel);
}

/** Suspicion is a sum of log odds: above 0 a belief is more likely wrong than right. */
export const suspicion = (row) => bar(row.suspicion / WORST, { kind: "against", label: "" });

/** Why a belief is suspect, a line for each reason. */
export const reasons = (row) => h("ul", { class: "small" }, row.reason.split("; ").map((one) => h("li", {}, one.replace(/^credence (.*)/, (_, value) => `credence ${percent(Number(value))}`))));

function wrong(name) {
  const place = h("div", {});
  load(place, recall("audit", { entity: name, top: 20 }), ({ suspects }) => {
    const rows = suspects.filter((one) => one.suspicion > 0).slice(0, 8);
    return rows.length ? h("ul", { class: "rows" }, rows.map((row) => explained(row, suspicion(row), reasons(row))))
      : empty(badge("fine", "good"), " No fact looks wrong.");
  }, "Checking …");
  return section("Looks wrong", "by suspicion", place);
}

function alike(name) {
  const place = h("div", {});
  load(place, recall("similar", { entity: name, top: 10 }), ({ similar }) => h("ul", { class: "rows compact" }, similar.map((one) => h("li", { class: "pair" }, entity(one.name), bar(one.similarity, { kind: "thin", label: one.similarity.toFixed(2) })))));
  return section("Alike", "similarity of vectors", place);
}
