// Pieces that several views draw: names, beliefs, bars, problems, toasts, waiting.

import { h, percent, put } from "./dom.js";
import { link } from "./router.js";

/** A name as a link to its entity. `bdi` keeps right-to-left names from turning their surroundings. */
export const entity = (name) => h("a", { class: "entity", href: link("entity", { name }) }, h("bdi", {}, name));

export const relation = (name) => h("span", { class: "relation" }, h("bdi", {}, name));

/** A belief on one line: head, relation, tail; a null part is the one in question. */
export function belief(head, name, tail, { links = true } = {}) {
  const side = (one) => one === null ? h("span", { class: "blank" }, "?")
    : links ? entity(one) : h("span", { class: "entity" }, h("bdi", {}, one));
  return h("span", { class: "belief" }, side(head), " ",
    name === null ? h("span", { class: "blank" }, "?") : relation(name), " ", side(tail));
}

/** A share as a bar with its figure; `kind` is its color. */
export function bar(share, { kind = "", label = percent(share) } = {}) {
  return h("span", { class: `bar ${kind}`, vars: { p: Math.max(0, Math.min(1, share ?? 0)) } },
    h("span", { class: "track", "aria-hidden": "true" }), h("span", { class: "figure" }, label));
}

export const badge = (text, kind = "") => h("span", { class: `badge ${kind}` }, text);

export const key = (name) => h("kbd", {}, name);

/** Something that is being worked on. */
export const waiting = (text = "Loading …") =>
  h("p", { class: "waiting", role: "status" }, h("span", { class: "pulse", "aria-hidden": "true" }), text);

/** What went wrong, and what to do next. */
export function problem(fault) {
  if (!("hints" in fault)) console.error(fault);
  return h("div", { class: "notice bad", role: "alert" }, h("p", {}, sentence(fault.message)),
    fault.hints?.length ? h("ul", {}, fault.hints.map((hint) => h("li", {}, hint))) : null);
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Nothing to show, and why. */
export const empty = (...children) => h("div", { class: "empty" }, ...children);

/** A section with a heading; `note` stands beside it. */
export function section(title, note, ...children) {
  const head = h("div", { class: "head" }, h("h2", {}, title), note ? h("span", { class: "note" }, note) : null);
  return h("section", { class: "panel" }, head, ...children);
}

/** Fill an element with what a promise brings: waiting, then the result or the problem. */
export async function load(element, promise, draw, text) {
  const early = setTimeout(() => put(element, waiting(text)), element.childElementCount ? 150 : 0);
  try {
    const result = await promise;
    clearTimeout(early);
    put(element, draw(result));
  } catch (fault) {
    clearTimeout(early);
    if (fault.name !== "AbortError") put(element, problem(fault));
  }
}

/** A short message at the edge of the page. */
export function toast(text, { kind = "", action = null } = {}) {
  const note = h("div", { class: `toast ${kind}` }, h("span", {}, text));
  const chosen = () => {
    note.remove();
    action.run();
  };
  if (action) note.append(h("button", { type: "button", onclick: chosen }, action.label));
  const place = document.getElementById("toasts");
  place.append(note);
  while (place.childElementCount > 3) place.firstElementChild.remove();
  setTimeout(() => note.remove(), kind === "bad" ? 9000 : 5000);
}
