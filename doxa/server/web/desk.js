// The desk of a reviewer: proposals in hand, decisions saved in the background, undo. No decision waits for a server.

import { Problem, get, post } from "./api.js";

const IN_HAND = 8, FEW = 5;

/**
 * Proposals of one order. `changed` is called when there is something new to draw, `failed` with what was not saved,
 * `undone` with the proposal whose decision was undone, or with null where there is nothing to undo.
 */
export class Desk {
  constructor(order) {
    this.order = order;
    this.cards = [];
    this.history = [];
    this.times = [];
    this.queue = null;
    this.stats = null;
    this.fault = null;
    this.unsaved = 0;
    this.filling = null;
    this.exhausted = false;
    this.changed = () => {};
    this.failed = () => {};
    this.undone = () => {};
    this.line = Promise.resolve();
    this.settled = new Set();
  }

  get current() {
    return this.cards[0] ?? null;
  }

  /** Decisions per minute of the last ones of this sitting. */
  get speed() {
    const times = this.times.slice(-20);
    return times.length < 2 ? null : ((times.length - 1) * 60000) / Math.max(times.at(-1) - times[0], 1);
  }

  /** Put the proposal of a link on top; one that is decided is refused. */
  async bring(number) {
    await this.fill();
    const inHand = this.cards.find((card) => card.id === number);
    const card = inHand ?? (await get(`review/${number}`));
    if (card.state !== "open" || this.settled.has(number)) {
      const state = card.state === "open" ? "decided" : card.state;
      throw new Problem(409, `Proposal ${number} is already ${state}.`);
    }
    this.#putOnTop(card);
    this.changed();
  }

  #putOnTop(card) {
    this.settled.delete(card.id);
    this.cards = [card, ...this.cards.filter((one) => one.id !== card.id)];
  }

  /** Get more proposals before they are needed. */
  fill() {
    this.filling ??= this.#fetch().finally(() => { this.filling = null; });
    return this.filling;
  }

  async #fetch() {
    try {
      const count = Math.min(50, IN_HAND + this.unsaved);
      const { proposals, queue } = await post("review/next", undefined, { count, order: this.order });
      const present = new Set(this.cards.map((card) => card.id));
      const fresh = proposals.filter((card) => !present.has(card.id) && !this.settled.has(card.id));
      this.cards.push(...fresh);
      this.queue = queue;
      this.exhausted = fresh.length === 0 && this.cards.length === 0;
      this.fault = null;
    } catch (fault) {
      this.fault = fault;
    }
    this.changed();
  }

  /** Decide the proposal on top; the next one is there at once. */
  decide(verdict, { reason = null, replacement = null } = {}) {
    const card = this.cards.shift();
    if (!card) return null;
    const entry = { card, verdict, reason, replacement, state: "waiting", decision: null };
    this.settled.add(card.id);
    this.history.push(entry);
    this.times.push(performance.now());
    this.unsaved += 1;
    this.#enqueue(() => this.#save(entry));
    if (this.cards.length < FEW) this.fill();
    this.changed();
    return entry;
  }

  /** Take the last decision back, of this sitting or of an earlier one; its proposal is on top again. */
  undo() {
    const entry = this.history.pop();
    if (!entry) return void this.#enqueue(() => this.#undoEarlier());
    this.times.pop();
    this.#putOnTop(entry.card);
    if (entry.state === "waiting") {
      entry.state = "canceled";
      this.unsaved -= 1;
    } else this.#enqueue(() => this.#takeBack(entry));
    this.changed();
    this.undone(entry.card);
  }

  #enqueue(work) {
    this.line = this.line.then(work).catch((fault) => this.failed(fault)).then(() => this.changed());
  }

  async #save(entry) {
    if (entry.state === "canceled") return;
    entry.state = "sent";
    try {
      const { verdict, reason, replacement } = entry, all = Object.entries({ verdict, reason, replacement });
      const body = Object.fromEntries(all.filter(([, value]) => value !== null));
      const path = `review/${entry.card.id}/decide`;
      entry.decision = (await persistent(() => post(path, body, {}, { keepalive: true }))).decision;
      entry.state = "saved";
      this.#count(1);
    } catch (fault) {
      entry.state = "failed";
      this.history = this.history.filter((one) => one !== entry);
      throw fault;
    } finally {
      this.unsaved -= 1;
    }
  }

  async #takeBack(entry) {
    if (entry.state !== "saved") return;
    await persistent(() => post("review/undo", { decision: entry.decision }));
    entry.state = "undone";
    this.#count(-1);
  }

  /** Undo the reviewer's last decision before this sitting. Sent once: sent again, it would undo the one before. */
  async #undoEarlier() {
    let undone;
    try {
      undone = await post("review/undo", {});
    } catch (fault) {
      if (fault.status !== 422) throw fault;
      return void this.undone(null);
    }
    const card = await get(`review/${undone.proposal}`);
    this.#putOnTop(card);
    this.#count(-1);
    this.undone(card);
  }

  /** Move proposals from open to decided in the figures of the queue. */
  #count(decided) {
    if (!this.queue) return;
    const { open, decided: before } = this.queue;
    this.queue = { ...this.queue, open: Math.max(0, open - decided), decided: Math.max(0, before + decided) };
  }
}

/** Try again while the server cannot be reached or is busy; other refusals are final. */
async function persistent(work) {
  for (let pause = 500; ; pause = Math.min(2 * pause, 10000)) {
    try {
      return await work();
    } catch (fault) {
      const passing = fault instanceof Problem && (fault.status === 0 || fault.status === 429 || fault.status >= 500);
      if (!passing) throw fault;
      await new Promise((resume) => setTimeout(resume, pause));
    }
  }
}
