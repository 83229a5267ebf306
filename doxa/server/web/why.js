// Why a belief has its credence: the terms, the words, what it was learned from, and what else could be right.

import { recall } from "./api.js";
import { h, percent } from "./dom.js";
import { badge, bar, belief, entity, load, relation } from "./ui.js";

let buttons = 0;

/** Ask for an explanation before it is needed. */
export const prefetch = (question) => recall("explain", question).catch(() => null);

/** A button and the explanation that it opens; `open` at first, and `ontoggle` is called when it opens or closes. */
export function whyButton(question, { open = false, ontoggle = () => {} } = {}) {
  const id = `why-${(buttons += 1)}`, name = `${question.head} ${question.relation} ${question.tail}`;
  const panel = h("div", { class: "reason", id });
  const button = h("button", {
    class: "expand", type: "button", "aria-controls": id, "aria-label": `Why ${name.slice(0, 80)}`,
  }, "why");
  function show(opened) {
    if (opened && !panel.childElementCount) panel.append(why(question));
    panel.hidden = !opened;
    button.setAttribute("aria-expanded", String(opened));
  }
  /** The row of the button opens it too, where it is not a link or another button. */
  function clicked(event) {
    if (!event.target.closest(".expand") && event.target.closest("a, button")) return;
    show(panel.hidden);
    ontoggle(!panel.hidden);
  }
  const row = (...children) => h("div", { class: "row", onclick: clicked }, ...children, button);
  show(open);
  return { panel, row };
}

/** A belief in the address. */
export const nameOf = ({ head, relation: name, tail }) => [head, name, tail].join(" · ");

/** A belief with figures and a button that explains it; `below` stands below. `open` has the names of open ones. */
export function explained(row, open, figures, below = null) {
  const { head, relation: name, tail } = row, key = nameOf(row);
  const { panel, row: line } = whyButton({ head, relation: name, tail }, {
    open: open.has(key), ontoggle: (opened) => open.set(key, opened),
  });
  return h("li", {}, line(belief(head, name, tail), figures), below, panel);
}

/** Move between the buttons of a list with the arrow keys. */
export function moved(event, list) {
  const rows = [...list.querySelectorAll(".expand")];
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
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

/** The terms of the score. Probabilities of answers are calibrated, these are not. */
function terms(explanation, head, name, tail) {
  const values = Object.entries(explanation.terms);
  const labels = {
    h: [entity(head), " among all heads"],
    r: [relation(name), " among all relations"],
    t: [entity(tail), " among all tails"],
  };
  return [h("h3", {}, "Each part, given the other two, before calibration"),
    h("dl", { class: "terms" }, values.map(([term, value]) => {
      const part = /^Pr\((\w)/.exec(term)?.[1];
      return [h("dt", {}, labels[part] ?? term), h("dd", {}, bar(value))];
    }))];
}

function words(mention) {
  if (!mention) return null;
  const chips = mention.words.map(({ word, contrast }) => {
    const size = ` ${contrast > 0 ? "+" : "−"}${Math.abs(contrast).toFixed(1)}`;
    return h("span", { class: `word ${contrast > 0 ? "for" : "against"}` }, word, h("small", {}, size));
  });
  return [h("h3", {}, "Words of the sentence"),
    h("p", { class: "words" }, chips, mention.unknown.map((word) => h("span", { class: "word unknown" }, word))),
    mention.unknown.length ? h("p", { class: "small" }, "Gray words are not in the vocabulary.") : null];
}

function influences(rows) {
  if (!rows.length) return null;
  const most = Math.max(...rows.map((row) => Math.abs(row.influence)), 1e-9);
  const size = ({ influence }) => {
    const against = influence < 0;
    const style = { kind: against ? "against thin" : "thin", label: against ? "against" : "" };
    return bar(Math.abs(influence) / most, style);
  };
  return [h("h3", {}, "Learned from"), h("ul", { class: "facts scored" },
    rows.map((row) => h("li", {}, belief(row.head, row.relation, row.tail), size(row))))];
}

function similar(rows, name) {
  if (!rows.length) return null;
  return [h("h3", {}, "Similar known facts"),
    h("ul", { class: "facts" }, rows.slice(0, 4).map((row) => h("li", {}, belief(row.head, name, row.tail))))];
}

function instead(explanation, head, name, tail) {
  const rows = [];
  const other = explanation.tail_runner_up, rival = explanation.relation_runner_up;
  if (other) rows.push([belief(head, name, other.name), other]);
  if (rival) rows.push([belief(head, rival.name, tail), rival]);
  if (!rows.length) return null;
  const marks = ({ known, ahead }) =>
    [known ? badge("known", "known") : null, ahead ? badge("ranked higher", "warn") : null];
  return [h("h3", {}, "What else could be right"),
    h("ul", { class: "facts" }, rows.map(([drawn, one]) => h("li", {}, drawn, " ", marks(one))))];
}
