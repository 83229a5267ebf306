// Why a belief has its credence: the terms, the words, what it was learned from, and what else could be right.

import { recall } from "./api.js";
import { h, percent } from "./dom.js";
import { badge, bar, belief, entity, load, relation } from "./ui.js";

let buttons = 0;

/** Ask for an explanation before it is needed. */
export const prefetch = (question) => recall("explain", question).catch(() => null);

/** A button and the explanation that it opens; `ontoggle` is told whether it is open. */
export function whyButton(question, { ontoggle = () => {} } = {}) {
  const id = `why-${(buttons += 1)}`, name = `${question.head} ${question.relation} ${question.tail}`;
  const panel = h("div", { class: "reason", id, hidden: true });
  const button = h("button", { class: "expand", type: "button", "aria-expanded": "false", "aria-controls": id, "aria-label": `Why ${name.slice(0, 80)}` }, "why");
  function toggle(open = panel.hidden) {
    if (open && !panel.childElementCount) panel.append(why(question));
    panel.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    ontoggle(open);
  }
  /** The row of the button opens it too, where it is not a link or another button. */
  const row = (...children) => h("div", { class: "row", onclick: (event) => { if (event.target.closest(".expand") || !event.target.closest("a, button")) toggle(); } }, ...children, button);
  return { panel, toggle, row };
}

/** Move between the buttons of a list with the arrow keys. */
export function moved(event, list) {
  const rows = [...list.querySelectorAll(".expand")], step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (!step || !rows.length) return;
  event.preventDefault();
  rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(document.activeElement) + step))].focus();
}

/** An explanation, drawn when it arrives. */
export function why(question, { summary = true } = {}) {
  const place = h("div", { class: "why" });
  load(place, recall("explain", question), (explanation) => draw(explanation, summary), "Explaining …");
  return place;
}

function draw(explanation, whole) {
  const [head, name, tail] = explanation.belief;
  return [
    whole ? verdict(explanation) : null,
    h("div", { class: "columns" },
      h("div", {}, terms(explanation, head, name, tail), words(explanation.mention)),
      h("div", {}, influences(explanation.influences)),
      h("div", {}, instead(explanation, head, name, tail), similar(explanation.similar_facts, name)),
    ),
  ];
}

function verdict({ credence, verdict: right, known }) {
  return h("p", { class: "verdict" }, "Credence ", h("strong", {}, percent(credence)), " ",
    badge(right ? "judged true" : "judged false", right ? "good" : "bad"), " ",
    known ? badge("known", "known") : badge("new to the model"));
}

function terms(explanation, head, name, tail) {
  const values = Object.entries(explanation.terms);
  const labels = { h: [entity(head), " among all heads"], r: [relation(name), " among all relations"], t: [entity(tail), " among all tails"] };
  return [h("h3", {}, "Each part, given the other two"),
    h("dl", { class: "terms" }, values.map(([term, value]) => {
      const part = /^Pr\((\w)/.exec(term)?.[1];
      return [h("dt", {}, labels[part] ?? term), h("dd", {}, bar(value))];
    }))];
}

function words(mention) {
  if (!mention) return null;
  const chips = mention.words.map(({ word, contrast }) => h("span", { class: `word ${contrast > 0 ? "for" : "against"}` }, word,
    h("small", {}, ` ${contrast > 0 ? "+" : "−"}${Math.abs(contrast).toFixed(1)}`)));
  return [h("h3", {}, "Words of the sentence"),
    h("p", { class: "words" }, chips, mention.unknown.map((word) => h("span", { class: "word unknown" }, word))),
    mention.unknown.length ? h("p", { class: "small" }, "Gray words are not in the vocabulary.") : null];
}

function influences(rows) {
  if (!rows.length) return null;
  const most = Math.max(...rows.map((row) => Math.abs(row.influence)), 1e-9);
  return [h("h3", {}, "Learned from"), h("ul", { class: "facts scored" }, rows.map((row) => h("li", {}, belief(row.head, row.relation, row.tail),
    bar(Math.abs(row.influence) / most, { kind: row.influence < 0 ? "against thin" : "thin", label: row.influence < 0 ? "against" : "" }))))];
}

function similar(rows, name) {
  if (!rows.length) return null;
  return [h("h3", {}, "Similar known facts"), h("ul", { class: "facts" }, rows.slice(0, 4).map((row) => h("li", {}, belief(row.head, name, row.tail))))];
}

function instead(explanation, head, name, tail) {
  const rows = [];
  const other = explanation.tail_runner_up, rival = explanation.relation_runner_up;
  if (other) rows.push([belief(head, name, other.name), other]);
  if (rival) rows.push([belief(head, rival.name, tail), rival]);
  if (!rows.length) return null;
  return [h("h3", {}, "What else could be right"), h("ul", { class: "facts" }, rows.map(([drawn, one]) => h("li", {}, drawn,
    " ", one.known ? badge("known", "known") : null, one.ahead ? badge("ranked higher", "warn") : null)))];
}
