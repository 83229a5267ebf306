// Ask: head, relation, tail, one of them empty; answers with probabilities, and why.

import { entityPath, recall } from "../api.js";
import { h, percent, put, whole } from "../dom.js";
import { go, link, mark } from "../router.js";
import { nameField } from "../suggest.js";
import { badge, bar, belief, empty, entity, load, relation } from "../ui.js";
import { moved, why, whyButton } from "../why.js";

const PARTS = ["head", "relation", "tail"];
const TOP = 10, MOST = 100;

export const title = (params) => PARTS.some((part) => params.get(part)) ? `${PARTS.map((part) => params.get(part) || "?").join(" · ")}` : "Ask";

const keys = [["↓ ↑", "next, previous answer"], ["Enter", "why this answer; again to close"]];

export function show(root, params) {
  const result = h("div", { class: "result", "aria-live": "polite" });
  const state = { params, open: null };
  put(root, h("h1", { class: "hidden" }, "Ask"), form(params), result);
  answer(result, state);
  if (!PARTS.some((part) => params.get(part))) root.querySelector("input").focus({ preventScroll: true });
  return { keys, pressed: (event) => moved(event, result) };
}

function question(params) {
  const values = Object.fromEntries([...PARTS, "mention"].map((name) => [name, params.get(name) ?? ""]));
  return { ...values, missing: PARTS.filter((part) => !values[part]) };
}

function form(params) {
  const now = question(params);
  const ask = () => go("ask", {
    ...Object.fromEntries(PARTS.map((part, index) => [part, fields[index].input.value.trim().replace(/^\?$/, "")])),
    mention: mention.value.trim(), new: fresh.checked ? 1 : "",
  });
  const chosen = () => { if (fields.filter((one) => one.input.value.trim()).length >= 2) ask(); };
  const labels = { head: "Head", relation: "Relation", tail: "Tail" };
  const fields = PARTS.map((part) => nameField({ label: labels[part], kind: part === "relation" ? "relation" : "entity", value: now[part], placeholder: "?", onchoose: chosen }));
  const mention = h("input", { type: "text", id: "mention", value: now.mention, placeholder: "a sentence that states it, optional", autocomplete: "off", dir: "auto" });
  const fresh = h("input", { type: "checkbox", id: "fresh", checked: params.get("new") ? true : null });
  return h("form", { class: "question panel", onsubmit: (event) => { event.preventDefault(); ask(); } },
    h("div", { class: "triple" }, fields.map((one) => one.box)),
    h("div", { class: "more" },
      h("div", { class: "field wide" }, h("label", { for: "mention" }, "Sentence"), mention),
      h("label", { class: "check" }, fresh, "only new answers"),
      h("button", { class: "primary", type: "submit" }, "Ask")));
}

function answer(result, state) {
  const now = question(state.params);
  if (now.missing.length > 1) return void examples(result, now);
  if (now.missing.length === 0) return void judged(result, now);
  const top = Number(state.params.get("top")) || TOP;
  const asked = { head: now.head, relation: now.relation, tail: now.tail, mention: now.mention, top, new_only: Boolean(state.params.get("new")) };
  load(result, recall("ask", asked), (answer) => answers(answer, now, state, top), "Asking …");
}

function answers(answer, now, state, top) {
  const missing = now.missing[0];
  const parts = PARTS.map((part) => (part === missing ? null : now[part]));
  const most = answer.answers[0]?.probability ?? 1;
  const rows = answer.answers.map((one, index) => row(one, index, now, missing, state, most));
  const sum = answer.answers.reduce((total, one) => total + one.probability, 0);
  return [
    h("div", { class: "head" }, h("h2", {}, belief(...parts)), h("span", { class: "note" }, rows.length ? `${whole(rows.length)} answers hold ${percent(sum)} of the probability` : "")),
    answer.note ? h("p", { class: "small" }, answer.note) : null,
    rows.length ? h("ol", { class: "answers" }, rows) : empty(h("p", {}, "No answer. Allow known answers, or ask for another part.")),
    rows.length === top && top < MOST ? h("a", { class: "button", href: link("ask", { ...Object.fromEntries(state.params), top: MOST }) }, `Show ${MOST}`) : null,
  ];
}

function row(one, index, now, missing, state, most) {
  const whole = { ...now, [missing]: one.name };
  const item = h("li", { class: one.known ? "known" : "" });
  const { panel, row: line, toggle } = whyButton({ head: whole.head, relation: whole.relation, tail: whole.tail, mention: now.mention }, { ontoggle: (open) => {
    item.classList.toggle("open", open);
    const params = { ...Object.fromEntries(state.params), why: open ? one.name : "" };
    mark("ask", params);
    state.params = new URLSearchParams(Object.entries(params).filter(([, value]) => value));
  } });
  item.append(line(h("span", { class: "rank" }, index + 1), h("span", { class: "name" }, missing === "relation" ? relation(one.name) : entity(one.name), one.known ? badge("known", "known") : null),
    bar(one.probability, { kind: most < 0.1 ? "faint" : "" })), panel);
  if (state.params.get("why") === one.name) toggle(true);
  return item;
}

function judged(result, now) {
  put(result, h("div", { class: "head" }, h("h2", {}, belief(now.head, now.relation, now.tail))),
    h("div", { class: "panel" }, why({ head: now.head, relation: now.relation, tail: now.tail, mention: now.mention })));
}

async function examples(result, now) {
  const known = PARTS.find((part) => now[part]);
  put(result, h("div", { class: "intro" },
    h("p", { class: "lead" }, known ? "Fill one more field: the empty one is what you ask for." : "What do you want to know? Fill two of the three fields; the empty one is the question. Fill all three to check a belief.")));
  try {
    const rows = await (known ? (known === "relation" ? ofRelation(now.relation) : ofEntity(now[known])) : popular());
    if (rows.length) result.append(h("h2", { class: "quiet" }, "For example"), h("ul", { class: "examples" }, rows.map(([head, name, tail]) => h("li", {},
      h("a", { href: link("ask", { head, relation: name, tail }) }, belief(head, name, tail, { links: false }))))));
  } catch { /* examples are a courtesy */ }
}

/** Questions about the facts of one entity, one for each relation. */
async function ofEntity(name) {
  const { facts } = await recall(entityPath(name), { top: 100 });
  return distinct(facts).slice(0, 6).map((fact) => (fact.head === name ? [fact.head, fact.relation, null] : [null, fact.relation, fact.tail]));
}

/** Questions about the entities with most facts; the last one asks for a relation. */
async function popular() {
  const { names } = await recall("names", { kind: "entity", limit: 8 });
  const about = await Promise.all(names.map((one) => recall(entityPath(one.name), { top: 20 })));
  const facts = distinct(about.flatMap((one) => distinct(one.facts).slice(0, 2))).slice(0, 6);
  return facts.map((fact, index) => (index === facts.length - 1 ? [fact.head, null, fact.tail] : [fact.head, fact.relation, null]));
}

/** The first fact of each relation. */
function distinct(facts) {
  const seen = new Set();
  return facts.filter((fact) => !seen.has(fact.relation) && seen.add(fact.relation));
}

async function ofRelation(name) {
  const { names } = await recall("names", { kind: "entity", limit: 5 });
  return names.map((one) => [one.name, name, null]);
}
