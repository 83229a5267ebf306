// Ask: head, relation, tail, one of them empty; answers with probabilities, and why.

import { entityPath, recall } from "../api.js";
import { h, percent, put, whole } from "../dom.js";
import { go, link, repeated } from "../router.js";
import { nameField } from "../suggest.js";
import { badge, bar, belief, empty, entity, load, relation } from "../ui.js";
import { moved, why, whyButton } from "../why.js";

const PARTS = ["head", "relation", "tail"];
const TOP = 10, MOST = 100;
const ONE_MORE = "Fill one more field: the empty one is what you ask for.";
const WELCOME = "What do you want to know? Fill two of the three fields; the empty one is the question. "
  + "Fill all three to check a belief.";

export const title = (params) =>
  PARTS.some((part) => params.get(part)) ? PARTS.map((part) => params.get(part) || "?").join(" · ") : "Ask";

const keys = [["↓ ↑", "next, previous answer"], ["Enter", "why this answer; again to close"]];

export function show(root, params) {
  const result = h("div", { class: "result", "aria-live": "polite" });
  put(root, h("h1", { class: "hidden" }, "Ask"), form(params), result);
  answer(result, params);
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
  const fields = PARTS.map((part) => nameField({
    label: labels[part], kind: part === "relation" ? "relation" : "entity", value: now[part], placeholder: "?",
    onchoose: chosen,
  }));
  const mention = h("input", {
    type: "text", id: "mention", value: now.mention, placeholder: "a sentence that states it, optional",
    autocomplete: "off", dir: "auto",
  });
  const fresh = h("input", { type: "checkbox", id: "fresh", checked: params.get("new") ? true : null });
  return h("form", { class: "question panel", onsubmit: (event) => { event.preventDefault(); ask(); } },
    h("div", { class: "triple" }, fields.map((one) => one.box)),
    h("div", { class: "more" },
      h("div", { class: "field wide" }, h("label", { for: "mention" }, "Sentence"), mention),
      h("label", { class: "check" }, fresh, "only new answers"),
      h("button", { class: "primary", type: "submit" }, "Ask")));
}

function answer(result, params) {
  const now = question(params);
  if (now.missing.length > 1) return void examples(result, now);
  if (now.missing.length === 0) return void judged(result, now);
  const { head, relation: name, tail, mention } = now, top = Number(params.get("top")) || TOP;
  const asked = { head, relation: name, tail, mention, top, new_only: Boolean(params.get("new")) };
  load(result, recall("ask", asked), (answer) => answers(answer, now, params, top), "Asking …");
}

function answers(answer, now, params, top) {
  const missing = now.missing[0], open = repeated("why");
  const parts = PARTS.map((part) => (part === missing ? null : now[part]));
  const most = answer.answers[0]?.probability ?? 1;
  const rows = answer.answers.map((one, index) => row(one, index, now, open, most));
  const sum = answer.answers.reduce((total, one) => total + one.probability, 0);
  const note = rows.length ? `${whole(rows.length)} answers hold ${percent(sum)} of the probability` : "";
  const more = link("ask", { ...Object.fromEntries(params), why: "", top: MOST });
  return [
    h("div", { class: "head" }, h("h2", {}, belief(...parts)), h("span", { class: "note" }, note)),
    answer.note ? h("p", { class: "small" }, answer.note) : null,
    rows.length ? h("ol", { class: "answers" }, rows)
      : empty(h("p", {}, "No answer. Allow known answers, or ask for another part.")),
    rows.length === top && top < MOST ? h("a", { class: "button", href: more }, `Show ${MOST}`) : null,
  ];
}

function row(one, index, now, open, most) {
  const missing = now.missing[0], { head, relation: name, tail, mention } = { ...now, [missing]: one.name };
  const item = h("li", { class: one.known ? "known" : "" });
  item.classList.toggle("open", open.has(one.name));
  const { panel, row: line } = whyButton({ head, relation: name, tail, mention }, {
    open: open.has(one.name),
    ontoggle: (opened) => {
      item.classList.toggle("open", opened);
      open.set(one.name, opened);
    },
  });
  const answer = missing === "relation" ? relation(one.name) : entity(one.name);
  item.append(line(h("span", { class: "rank" }, index + 1),
    h("span", { class: "name" }, answer, one.known ? badge("known", "known") : null),
    bar(one.probability, { kind: most < 0.1 ? "faint" : "" })), panel);
  return item;
}

function judged(result, { head, relation: name, tail, mention }) {
  put(result, h("div", { class: "head" }, h("h2", {}, belief(head, name, tail))),
    h("div", { class: "panel" }, why({ head, relation: name, tail, mention })));
}

async function examples(result, now) {
  const known = PARTS.find((part) => now[part]);
  put(result, h("div", { class: "intro" }, h("p", { class: "lead" }, known ? ONE_MORE : WELCOME)));
  const example = ([head, name, tail]) => h("li", {},
    h("a", { href: link("ask", { head, relation: name, tail }) }, belief(head, name, tail, { links: false })));
  try {
    const rows = await (known ? (known === "relation" ? ofRelation(now.relation) : ofEntity(now[known])) : popular());
    if (!rows.length) return;
    result.append(h("h2", { class: "quiet" }, "For example"), h("ul", { class: "examples" }, rows.map(example)));
  } catch { /* examples are a courtesy */ }
}

/** Questions about the facts of one entity, one for each relation. */
async function ofEntity(name) {
  const { facts } = await recall(entityPath(name), { top: 100 });
  return distinct(facts).slice(0, 6)
    .map((fact) => (fact.head === name ? [fact.head, fact.relation, null] : [null, fact.relation, fact.tail]));
}

/** Questions about the entities with most facts; the last one asks for a relation. */
async function popular() {
  const { names } = await recall("names", { kind: "entity", limit: 8 });
  const about = await Promise.all(names.map((one) => recall(entityPath(one.name), { top: 20 })));
  const facts = distinct(about.flatMap((one) => distinct(one.facts).slice(0, 2))).slice(0, 6);
  const last = facts.at(-1);
  return facts.map((fact) => (fact === last ? [fact.head, null, fact.tail] : [fact.head, fact.relation, null]));
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
