// Review: one proposal at a time, decided with one key; saving happens behind it.

import { get, post, recall } from "../api.js";
import { Desk } from "../desk.js";
import { clip, h, percent, plural, put, s, whole } from "../dom.js";
import { go, link, mark } from "../router.js";
import { badge, bar, empty, entity, key, load, problem, relation, section, toast, waiting } from "../ui.js";
import { prefetch, why } from "../why.js";

const REASONS = [
  "wrong head", "wrong tail", "wrong relation", "not stated by the mention", "no longer true", "duplicate", "other",
];
const ALTERNATIVES = 6, AHEAD = 3, STATISTICS = 10;

const keys = [
  ["a", "accept: the belief is true"],
  ["x", "reject: it is false; then a reason, or x again"],
  ["Space", "unsure"],
  ["1 … 6", "another tail is right"],
  ["Backspace", "undo the last decision, of an earlier sitting too"],
  ["e", "show the evidence of the model"],
];

const COMMANDS = `doxa kb init kb.db
doxa kb import kb.db beliefs.tsv
doxa complete MODEL --into kb.db
doxa serve kb.db`;

const desks = new Map();

export const title = () => "Review";

export async function show(root, params, page) {
  const refused = refusal(page.me);
  if (refused) return void put(root, h("h1", {}, "Review"), refused);
  const order = params.get("order") === "uncertainty" ? "uncertainty" : "credence";
  if (!desks.has(order)) desks.set(order, new Desk(order));
  const view = new ReviewView(root, desks.get(order), page);
  const number = Number(params.get("id"));
  view.draw();
  await (number ? view.desk.bring(number).catch((fault) => toast(fault.message, { kind: "bad" })) : view.desk.fill());
  view.ready = true;
  view.draw();
  view.figures();
  return view;
}

function refusal({ role, writable, name }) {
  if (!writable) {
    const text = "This server serves a model folder, which is read-only. To review, serve a knowledge base:";
    return h("div", { class: "notice" }, h("p", {}, text), h("pre", {}, COMMANDS));
  }
  if (role === "curator" || role === "admin") return null;
  const who = role ? `${name === "visitor" ? "Visitors" : "Readers"} may look but not decide. ` : "";
  return h("div", { class: "notice" }, h("p", {}, who, "To review, open the address with the token that ",
    h("code", {}, "doxa serve"), " printed, or the one of your account."));
}

/** The sign of the key: few fonts have it at a size that can be read. */
const backspace = () => s("svg", { viewBox: "0 0 22 14", role: "img", "aria-label": "Backspace" },
  s("path", { d: "M7 1h13a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1H7L1 7z M11 4.5l5 5 M16 4.5l-5 5" }));

/** A belief on one short line of text. */
const short = ({ head, relation: name, tail }) => [head, name, tail].map((one) => clip(one, 30)).join(" · ");

class ReviewView {
  keys = keys;

  constructor(root, desk, page) {
    Object.assign(this, { desk, page, ready: false, rejecting: false, shown: undefined, alternatives: [] });
    this.card = h("div", { class: "card", tabindex: "-1" });
    this.status = h("div", { class: "sitting" });
    this.side = h("div", { class: "review-side" });
    put(root, h("div", { class: "view-head" }, h("h1", {}, "Review"), this.orders()), this.status,
      h("div", { class: "review-grid" }, this.card, this.side));
    desk.changed = () => this.draw();
    desk.failed = (fault) => toast(`Not saved: ${fault.message}`, { kind: "bad" });
    desk.undone = (card) => toast(card ? `Undone: ${short(card)}` : "There is nothing to undo.");
    this.leaving = (event) => { if (desk.unsaved) event.preventDefault(); };
    addEventListener("beforeunload", this.leaving);
  }

  close() {
    this.desk.changed = () => {};
    removeEventListener("beforeunload", this.leaving);
  }

  orders() {
    const orders = [["credence", "most credible first"], ["uncertainty", "most uncertain first"]];
    const change = (event) => go("review", { order: inAddress(event.target.value) });
    const option = ([value, text]) => h("option", { value, selected: value === this.desk.order ? true : null }, text);
    return h("label", { class: "select" }, h("span", { class: "hidden" }, "Order"),
      h("select", { onchange: change }, orders.map(option)));
  }

  /** What the card shows: the number of a proposal, a fault, or why there is none. */
  get state() {
    const { current, fault, filling } = this.desk;
    if (!this.ready) return "filling";
    return current?.id ?? fault?.message ?? (filling ? "filling" : "empty");
  }

  draw() {
    this.drawStatus();
    const card = this.ready ? this.desk.current : null;
    if (this.shown === this.state) return;
    this.shown = this.state;
    this.rejecting = false;
    if (!card) return void this.drawNothing();
    mark("review", { id: card.id, order: inAddress(this.desk.order) });
    put(this.card, this.face(card));
    put(this.side, this.other(card), this.evidence(card));
    for (const next of this.desk.cards.slice(1, AHEAD)) {
      prefetch(question(next));
      recall("ask", asked(next)).catch(() => null);
    }
  }

  drawNothing() {
    put(this.side);
    const again = (text, kind) => h("button", { type: "button", class: kind, onclick: () => this.desk.fill() }, text);
    if (this.ready && this.desk.fault) {
      return void put(this.card, problem(this.desk.fault), again("Try again", "primary"));
    }
    if (!this.ready || this.desk.filling) return void put(this.card, waiting("Fetching proposals …"));
    mark("review", { order: inAddress(this.desk.order) });
    put(this.card, empty(h("p", { class: "lead" }, "Nothing to review."),
      h("p", {}, "All proposals are decided, or in the hands of others."), this.search(), again("Look again", "")));
  }

  search() {
    if (this.page.me.role !== "admin") {
      const command = h("code", {}, "doxa complete MODEL --into kb.db");
      return h("p", { class: "small" }, "An admin can search for more: ", command);
    }
    const start = async (kind) => {
      try {
        await post("jobs", { kind });
        const action = { label: "Show", run: () => go("model") };
        toast("The search runs; the Model view shows how far it is.", { action });
      } catch (fault) {
        toast(fault.message, { kind: "bad" });
      }
    };
    const button = (kind, text, look) => h("button", { type: "button", class: look, onclick: () => start(kind) }, text);
    return h("p", { class: "actions" }, button("complete", "Search for missing beliefs", "primary"),
      button("audit", "Search for wrong ones", ""));
  }

  face(card) {
    const missing = card.kind === "missing";
    return [
      h("div", { class: "card-top" }, badge(missing ? "probably missing" : "looks wrong", missing ? "good" : "warn"),
        h("a", { class: "small", href: link("review", { id: card.id }) }, `#${card.id}`)),
      h("div", { class: "statement" },
        h("div", { class: "end" }, entity(card.head)),
        h("div", { class: "link-line" }, relation(card.relation)),
        h("div", { class: "end" }, entity(card.tail))),
      h("div", { class: "credence" }, h("span", {}, "credence"), bar(card.credence)),
      this.quotes(card),
      h("div", { class: "actions", id: "actions" }, this.buttons()),
    ];
  }

  buttons() {
    const action = (text, name, kind, run) => h("button", { type: "button", class: kind, onclick: () => {
      run();
      this.card.focus({ preventScroll: true });
    } }, h("span", {}, text), key(name));
    return [
      action("Accept", "a", "accept", () => this.decide("accept")),
      action("Reject", "x", "reject", () => this.reject()),
      action("Unsure", "Space", "unsure", () => this.decide("unsure")),
      action("Undo", backspace(), "undo", () => this.desk.undo()),
    ];
  }

  reasons() {
    const button = (name, text, run, kind = "") =>
      h("button", { type: "button", class: kind, onclick: run }, key(name), text);
    return h("div", { class: "reasons", role: "group", "aria-label": "Reason" },
      h("p", { class: "small" }, "Why is it false?"),
      REASONS.map((reason, index) => button(index + 1, reason, () => this.decide("reject", { reason }))),
      button("x", "no reason", () => this.decide("reject"), "reject"),
      button("Esc", "cancel", () => this.keep()));
  }

  quotes(card) {
    const quoted = card.mentions.filter((one) => one.mention);
    const reason = card.evidence.reason;
    const { head_rank: heads, tail_rank: tails } = card.evidence;
    const rank = heads && tails ? `Rank ${whole(tails)} among all tails and ${whole(heads)} among all heads.` : null;
    if (!quoted.length && !reason && !rank) return null;
    const source = ({ uri, confidence }) =>
      h("cite", {}, h("bdi", {}, uri), confidence !== null ? ` · confidence ${percent(confidence)}` : "");
    return h("div", { class: "quotes" }, reason ? h("p", {}, String(reason)) : null, rank ? h("p", {}, rank) : null,
      quoted.map((one) => h("blockquote", {}, h("bdi", {}, one.mention), source(one))));
  }

  other(card) {
    const place = h("div", {});
    this.alternatives = [];
    load(place, recall("ask", asked(card)), ({ answers }) => {
      const rows = answers.filter((one) => one.name !== card.tail).slice(0, ALTERNATIVES);
      if (this.desk.current === card) this.alternatives = rows.map((one) => one.name);
      return h("ol", { class: "alternatives" }, rows.map((one, index) => this.alternative(one, index, card)));
    });
    return section("Other tails", "press a number if one of them is right instead", place);
  }

  alternative(one, index, card) {
    const suggested = one.name === card.suggestion ? badge("suggested", "good") : null;
    const pick = h("button", {
      type: "button", class: "pick", "aria-label": `Another tail is right: ${one.name.slice(0, 80)}`,
      onclick: () => this.replace(index),
    }, key(index + 1));
    return h("li", {}, pick, entity(one.name), one.known ? badge("known", "known") : suggested,
      bar(one.probability, { kind: "thin" }));
  }

  evidence(card) {
    const open = matchMedia("(min-width: 700px)").matches;
    return h("details", { class: "panel model-evidence", open: open ? true : null },
      h("summary", {}, h("h2", {}, "What the model knows")), why(question(card), { summary: false }));
  }

  drawStatus() {
    const { desk } = this, queue = desk.queue, stats = this.stats;
    const total = queue ? queue.decided + queue.open : 0;
    const figure = (value, label) => h("span", { class: "stat" }, h("strong", {}, value), ` ${label}`);
    const { share, pairs } = stats?.agreement ?? {};
    const saving = desk.unsaved ? `saving ${desk.unsaved}` : "saved";
    const progress = { max: Math.max(total, 1), value: queue?.decided, "aria-label": "Decided proposals" };
    put(this.status, queue ? h("progress", progress) : null,
      h("div", { class: "stats" },
        queue ? figure(whole(queue.decided), `of ${whole(total)} decided`) : null,
        figure(whole(desk.history.length), "this sitting"),
        desk.speed ? figure(desk.speed.toFixed(0), "a minute") : null,
        stats?.precision != null ? figure(percent(stats.precision), "accepted") : null,
        share != null ? figure(percent(share), `agreement on ${plural(pairs, "pair")}`) : null,
        h("span", { class: `saving ${desk.unsaved ? "busy" : ""}` }, saving)));
  }

  async figures() {
    try {
      this.stats = await get("review/stats");
      this.drawStatus();
    } catch { /* figures are not needed to go on */ }
  }

  decide(verdict, details) {
    const entry = this.desk.decide(verdict, details);
    if (entry && this.desk.times.length % STATISTICS === 0) this.desk.line.then(() => this.figures());
    return entry;
  }

  reject() {
    if (this.rejecting) return void this.decide("reject");
    if (!this.desk.current) return;
    this.rejecting = true;
    put(document.getElementById("actions"), this.reasons());
  }

  keep() {
    this.rejecting = false;
    put(document.getElementById("actions"), this.buttons());
  }

  replace(index) {
    const tail = this.alternatives[index];
    if (tail === undefined) return;
    if (this.decide("replace", { replacement: tail })) toast(`Replaced by ${tail.slice(0, 60)}`);
  }

  pressed(event) {
    const focused = event.target.closest?.("button, a, summary");
    if (focused && (event.key === " " || event.key === "Enter")) return;
    const digit = Number(event.key);
    const done = () => event.preventDefault();
    if (event.repeat) return void done();
    if (event.key === "Backspace") return void (done(), this.desk.undo());
    if (!this.desk.current) return;
    if (this.rejecting && event.key === "Escape") return void (done(), this.keep());
    if (this.rejecting && digit >= 1 && digit <= REASONS.length) {
      return void (done(), this.decide("reject", { reason: REASONS[digit - 1] }));
    }
    if (event.key === "a") this.decide("accept");
    else if (event.key === "x") this.reject();
    else if (event.key === " ") this.decide("unsure");
    else if (event.key === "e") this.side.querySelector("details")?.toggleAttribute("open");
    else if (!this.rejecting && digit >= 1 && digit <= ALTERNATIVES) this.replace(digit - 1);
    else return;
    done();
  }
}

/** The order as it is in the address: the first one is not. */
const inAddress = (order) => (order === "credence" ? "" : order);

const question = (card) => ({ head: card.head, relation: card.relation, tail: card.tail });
const asked = (card) => ({ head: card.head, relation: card.relation, top: ALTERNATIVES + 1 });
