// The frame of the page: views by address, keys, theme, help, and who is signed in.

import { get } from "./api.js";
import { h, put } from "./dom.js";
import { go, here, link } from "./router.js";
import { key, problem } from "./ui.js";
import * as ask from "./views/ask.js";
import * as entity from "./views/entity.js";
import * as map from "./views/map.js";
import * as model from "./views/model.js";
import * as review from "./views/review.js";
import * as suspects from "./views/suspects.js";

const VIEWS = { ask, entity, review, suspects, map, model };
const LETTERS = { a: "ask", e: "entity", r: "review", s: "suspects", p: "map", m: "model" };
const GENERAL = [
  ["g then a e r s p m", "go to Ask, Entity, Review, Suspects, Map, Model"],
  ["/", "go to the first field"],
  ["?", "show these keys"],
];

const main = document.getElementById("main"), nav = document.getElementById("nav");
const page = { me: { name: "", role: null, writable: false } };
let shown = { name: null, view: null }, chord = 0;

function drawNav() {
  const titles = { ask: "Ask", entity: "Entity", review: "Review", suspects: "Suspects", map: "Map", model: "Model" };
  const current = (name) => (shown.name === name ? "page" : null);
  put(nav, Object.keys(VIEWS).map((name) =>
    h("a", { href: link(name), "aria-current": current(name), class: "tab" }, titles[name])));
}

async function show() {
  if (location.hash === "#main") return;
  const { view: wanted, params } = here();
  const name = wanted in VIEWS ? wanted : "ask";
  if (shown.name === name && shown.view?.update?.(params)) return;
  shown.view?.close?.();
  shown = { name, view: null };
  drawNav();
  const root = h("div", { class: `view in-${name}` });
  put(main, root);
  scrollTo(0, 0);
  const title = VIEWS[name].title(params);
  document.title = `${title.length > 80 ? `${title.slice(0, 80)}…` : title} · doxa`;
  const mine = shown;
  try {
    const view = await VIEWS[name].show(root, params, page);
    if (shown === mine) mine.view = view ?? {};
    else view?.close?.();
  } catch (fault) {
    put(root, problem(fault));
  }
}

function typing(target) {
  return target instanceof Element && target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
}

function help() {
  const keys = [...GENERAL, ...(shown.view?.keys ?? [])];
  const dialog = h("dialog", { class: "help", "aria-labelledby": "help-title", onclose: () => dialog.remove() },
    h("h2", { id: "help-title" }, "Keys"),
    h("dl", { class: "keys" }, keys.map(([names, what]) => [
      h("dt", {}, names.split(" ").map((one) => (one === "then" ? " then " : key(one)))), h("dd", {}, what)])),
    h("form", { method: "dialog" }, h("button", { class: "primary", autofocus: true }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && typing(event.target)) return void event.target.blur();
  if (typing(event.target)) return;
  if (event.key === "?") return void (event.preventDefault(), help());
  const second = chord && performance.now() - chord < 1500;
  chord = 0;
  if (second && event.key in LETTERS) return void (event.preventDefault(), go(LETTERS[event.key]));
  if (event.key === "g") return void (chord = performance.now());
  if (event.key === "/") {
    event.preventDefault();
    return void main.querySelector("input[type=text], input[type=search]")?.focus();
  }
  shown.view?.pressed?.(event);
}

function theme() {
  const button = document.getElementById("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
  const current = () => document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
  const draw = () => {
    button.textContent = current() === "dark" ? "☀" : "☾";
    button.title = current() === "dark" ? "Light theme" : "Dark theme";
    dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = current() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("doxa-theme", document.documentElement.dataset.theme);
    } catch { /* storage is switched off */ }
    draw();
  });
  dark.addEventListener("change", draw);
  draw();
}

async function start() {
  theme();
  document.getElementById("help").addEventListener("click", help);
  document.addEventListener("keydown", pressed);
  addEventListener("hashchange", show);
  try {
    page.me = await get("me");
    const { name, role, writable } = page.me;
    const rights = h("small", {}, writable ? role : "read-only");
    put(document.getElementById("who"), role ? h("bdi", {}, name) : "no access", rights);
  } catch (fault) {
    put(main, problem(fault));
    return;
  }
  await show();
}

start();
