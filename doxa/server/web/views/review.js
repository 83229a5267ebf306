// Review: one proposal at a time, decided with one key; saving happens behind it.

import { get, post, recall } from "../api.js";
import { Desk } from "../desk.js";
import { h, percent, plural, put, whole } from "../dom.js";
import { go, link, mark } from "../router.js";
import { badge, bar, empty, entity, key, load, problem, relation, toast, waiting } from "../ui.js";
import { prefetch, why } from "../why.js";

const REASONS = ["wrong head", "wrong tail", "wrong relation", "not stated by the mention", "no longer true", "duplicate", "other"];
const ALTERNATIVES = 6, AHEAD = 3, STATISTICS = 10;
const DONE = { accept: "Accepted", reject: "Rejected", unsure: "Unsure about", replace: "Replaced" };

const keys = [["a", "accept: the belief is true"], ["x", "reject: it is false; then a reason, or x again"], ["Space", "unsure"],
  ["1 … 6", "another tail is right"], ["Backspace", "undo the last decision"], ["e", "show the evidence of the model"]];

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
    return h("div", { class: "notice" }, h("p", {}, "This server serves a model folder, which is read-only. To review, serve a knowledge base:"),
      h("pre", {}, "doxa kb init kb.db\ndoxa kb import kb.db beliefs.tsv\ndoxa complete MODEL --into kb.db\ndoxa serve kb.db"));
  }
  if (role === "curator" || role === "admin") return null;
  return h("div", { class: "notice" }, h("p", {}, role ? `${name === "visitor" ? "Visitors" : "Readers"} may look but not decide. To review, open the address with the token that ` : "To review, open the address with the token that ", h("code", {}, "doxa serve"), " printed, or the one of your account."));
}

class ReviewView {
  keys = keys;

  constructor(root, desk, page) {
    Object.assign(this, { desk, page, ready: false, rejecting: false, shown: undefined, alternatives: [] });
    this.card = h("div", { class: "card", tabindex: "-1" });
    this.status = h("div", { class: "sitting" });
    this.side = h("div", { class: "review-side" });
    put(root, h("div", { class: "view-head" }, h("h1", {}, "Review"), this.orders()), this.status, h("div", { class: "review-grid" }, this.card, this.side));
    desk.changed = () => this.draw();
    desk.failed = (fault) => toast(`Not saved: ${fault.message}`, { kind: "bad" });
    this.leaving = (event) => { if (desk.unsaved) event.preventDefault(); };
    addEventListener("beforeunload", this.leaving);
  }

  close() {
    this.desk.changed = () => {};
    removeEventListener("beforeunload", this.leaving);
  }

  orders() {
    const orders = [["credence", "most credible first"], ["uncertainty", "most uncertain first"]];
    return h("label", { class: "select" }, h("span", { class: "hidden" }, "Order"), h("select", { onchange: (event) => go("review", { order: event.target.value === "credence" ? "" : event.target.value }) },
      orders.map(([value, text]) => h("option", { value, selected: value === this.desk.order ? true : null }, text))));
  }

  draw() {
    this.drawStatus();
    const card = this.ready ? this.desk.current : null;
    const state = !this.ready ? "filling" : card ? card.id : this.desk.fault ? this.desk.fault.message : this.desk.filling ? "filling" : "empty";
    if (this.shown === state) return;
    this.shown = state;
    this.rejecting = false;
    if (!card) return void this.drawNothing();
    mark("review", { id: card.id, order: this.desk.order === "credence" ? "" : this.desk.order });
    put(this.card, this.face(card));
    put(this.side, this.other(card), this.evidence(card));
    for (const next of this.desk.cards.slice(1, AHEAD)) {
      prefetch(question(next));
      recall("ask", asked(next)).catch(() => null);
    }
  }

  drawNothing() {
    put(this.side);
    if (this.ready && this.desk.fault) return void put(this.card, problem(this.desk.fault), h("button", { type: "button", class: "primary", onclick: () => this.desk.fill() }, "Try again"));
    if (!this.ready || this.desk.filling) return void put(this.card, waiting("Fetching proposals …"));
    mark("review", { order: this.desk.order === "credence" ? "" : this.desk.order });
    put(this.card, empty(h("p", { class: "lead" }, "Nothing to review."), h("p", {}, "All proposals are decided, or in the hands of others."), this.search(),
      h("button", { type: "button", onclick: () => this.desk.fill() }, "Look again")));
  }

  search() {
    if (this.page.me.role !== "admin") return h("p", { class: "small" }, "An admin can search for more: ", h("code", {}, "doxa complete MODEL --into kb.db"));
    const start = async (kind) => {
      try {
        await post("jobs", { kind });
        toast("The search runs; the Model view shows how far it is.", { action: { label: "Show", run: () => go("model") } });
      } catch (fault) {
        toast(fault.message, { kind: "bad" });
      }
    };
    return h("p", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: () => start("complete") }, "Search for missing beliefs"), h("button", { type: "button", onclick: () => start("audit") }, "Search for wrong ones"));
  }

  face(card) {
    const missing = card.kind === "missing";
    return [
      h("div", { class: "card-top" }, badge(missing ? "probably missing" : "looks wrong", missing ? "good" : "warn"), h("a", { class: "small", href: link("review", { id: card.id }) }, `#${card.id}`)),
      h("div", { class: "statement" }, h("div", { class: "end" }, entity(card.head)), h("div", { class: "link-line" }, relation(card.relation)), h("div", { class: "end" }, entity(card.tail))),
      h("div", { class: "credence" }, h("span", {}, "credence"), bar(card.credence)),
      this.quotes(card),
      h("div", { class: "actions", id: "actions" }, this.buttons()),
    ];
  }

  buttons() {
    const action = (text, name, kind, run) => h("button", { type: "button", class: kind, onclick: () => { run(); this.card.focus({ preventScroll: true }); } }, h("span", {}, text), key(name));
    return [action("Accept", "a", "accept", () => this.decide("accept")), action("Reject", "x", "reject", () => this.reject()),
      action("Unsure", "Space", "unsure", () => this.decide("unsure")), action("Undo", "⌫", "undo", () => this.undo())];
  }

  reasons() {
    return h("div", { class: "reasons", role: "group", "aria-label": "Reason" }, h("p", { class: "small" }, "Why is it false?"),
      REASONS.map((reason, index) => h("button", { type: "button", onclick: () => this.decide("reject", { reason }) }, key(index + 1), reason)),
      h("button", { type: "button", class: "reject", onclick: () => this.decide("reject") }, key("x"), "no reason"),
      h("button", { type: "button", onclick: () => this.keep() }, key("Esc"), "cancel"));
  }

  quotes(card) {
    const quoted = card.mentions.filter((one) => one.mention);
    const reason = card.evidence.reason;
    const { head_rank: heads, tail_rank: tails } = card.evidence;
    const rank = heads && tails ? `Rank ${whole(tails)} among all tails and ${whole(heads)} among all heads.` : null;
    if (!quoted.length && !reason && !rank) return null;
    return h("div", { class: "quotes" }, reason ? h("p", {}, String(reason)) : null, rank ? h("p", {}, rank) : null,
      quoted.map((one) => h("blockquote", {}, h("bdi", {}, one.mention), h("cite", {}, h("bdi", {}, one.uri), one.confidence !== null ? ` · confidence ${percent(one.confidence)}` : ""))));
  }

  other(card) {
    const place = h("div", {});
    this.alternatives = [];
    load(place, recall("ask", asked(card)), ({ answers }) => {
      const rows = answers.filter((one) => one.name !== card.tail).slice(0, ALTERNATIVES);
      if (this.desk.current === card) this.alternatives = rows.map((one) => one.name);
      return h("ol", { class: "alternatives" }, rows.map((one, index) => h("li", {},
        h("button", { type: "button", class: "pick", "aria-label": `Another tail is right: ${one.name.slice(0, 80)}`, onclick: () => this.replace(index) }, key(index + 1)),
        entity(one.name), one.known ? badge("known", "known") : one.name === card.suggestion ? badge("suggested", "good") : null, bar(one.probability, { kind: "thin" }))));
    });
    return h("section", { class: "panel" }, h("div", { class: "head" }, h("h2", {}, "Other tails"), h("span", { class: "note" }, "press a number if one of them is right instead")), place);
  }

  evidence(card) {
    return h("details", { class: "panel model-evidence", open: matchMedia("(min-width: 700px)").matches ? true : null }, h("summary", {}, h("h2", {}, "What the model knows")), why(question(card), { summary: false }));
  }

  drawStatus() {
    const { desk } = this, queue = desk.queue, stats = this.stats;
    const total = queue ? queue.decided + queue.open : 0;
    const figure = (value, label) => h("span", { class: "stat" }, h("strong", {}, value), ` ${label}`);
    put(this.status, queue ? h("progress", { max: Math.max(total, 1), value: queue.decided, "aria-label": "Decided proposals" }) : null,
      h("div", { class: "stats" }, queue ? figure(whole(queue.decided), `of ${whole(total)} decided`) : null,
        figure(whole(desk.history.length), "this sitting"), desk.speed ? figure(desk.speed.toFixed(0), "a minute") : null,
        stats?.precision != null ? figure(percent(stats.precision), "accepted") : null,
        stats?.agreement?.share != null ? figure(percent(stats.agreement.share), `agreement on ${plural(stats.agreement.pairs, "pair")}`) : null,
        h("span", { class: `saving ${desk.unsaved ? "busy" : ""}` }, desk.unsaved ? `saving ${desk.unsaved}` : "saved")));
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

  undo() {
    const entry = this.desk.undo();
    toast(entry ? `Undone: ${DONE[entry.verdict].toLowerCase()} ${entry.card.head.slice(0, 30)} · ${entry.card.relation.slice(0, 30)} · ${entry.card.tail.slice(0, 30)}` : "There is nothing to undo.");
  }

  pressed(event) {
    const focused = event.target.closest?.("button, a, summary");
    if (focused && (event.key === " " || event.key === "Enter")) return;
    const digit = Number(event.key);
    const done = () => event.preventDefault();
    if (event.repeat) return void done();
    if (event.key === "Backspace") return void (done(), this.undo());
    if (!this.desk.current) return;
    if (this.rejecting && event.key === "Escape") return void (done(), this.keep());
    if (this.rejecting && digit >= 1 && digit <= REASONS.length) return void (done(), this.decide("reject", { reason: REASONS[digit - 1] }));
    if (event.key === "a") this.decide("accept");
    else if (event.key === "x") this.reject();
    else if (event.key === " ") this.decide("unsure");
    else if (event.key === "e") this.side.querySelector("details")?.toggleAttribute("open");
    else if (!this.rejecting && digit >= 1 && digit <= ALTERNATIVES) this.replace(digit - 1);
    else return;
    done();
  }
}

const question = (card) => ({ head: card.head, relation: card.relation, tail: card.tail });
const asked = (card) => ({ head: card.head, relation: card.relation, top: ALTERNATIVES + 1 });
