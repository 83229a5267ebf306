// The desk of a reviewer: proposals in hand, decisions saved in the background, undo. No decision waits for the network.

import { Problem, get, post } from "./api.js";

const IN_HAND = 8, FEW = 5;

/** Proposals of one order. `changed` is called when there is something new to draw, `failed` with what was not saved. */
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

  /** Put the proposal of a link on top. */
  async bring(number) {
    await this.fill();
    if (this.current?.id === number) return;
    const place = this.cards.findIndex((card) => card.id === number);
    if (place > 0) this.cards.unshift(...this.cards.splice(place, 1));
    else {
      const card = await get(`review/${number}`);
      if (card.state === undefined || card.state === "open") this.cards.unshift(card);
    }
    this.changed();
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

  /** Take the last decision back; its proposal is on top again. */
  undo() {
    const entry = this.history.pop();
    if (!entry) return null;
    this.times.pop();
    this.settled.delete(entry.card.id);
    this.cards.unshift(entry.card);
    if (entry.state === "waiting") {
      entry.state = "canceled";
      this.unsaved -= 1;
    } else this.#enqueue(() => this.#takeBack(entry));
    this.changed();
    return entry;
  }

  #enqueue(work) {
    this.line = this.line.then(work).catch((fault) => this.failed(fault)).then(() => this.changed());
  }

  async #save(entry) {
    if (entry.state === "canceled") return;
    entry.state = "sent";
    try {
      const { verdict, reason, replacement } = entry;
      const body = Object.fromEntries(Object.entries({ verdict, reason, replacement }).filter(([, value]) => value !== null));
      entry.decision = (await persistent(() => post(`review/${entry.card.id}/decide`, body, {}, { keepalive: true }))).decision;
      entry.state = "saved";
      if (this.queue) this.queue = { ...this.queue, open: Math.max(0, this.queue.open - 1), decided: this.queue.decided + 1 };
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
    if (this.queue) this.queue = { ...this.queue, open: this.queue.open + 1, decided: Math.max(0, this.queue.decided - 1) };
  }
}

/** Try again while the server cannot be reached or is busy; other refusals are final. */
async function persistent(work) {
  for (let pause = 500; ; pause = Math.min(2 * pause, 10000)) {
    try {
      return await work();
    } catch (fault) {
      if (!(fault instanceof Problem) || (fault.status !== 0 && fault.status !== 429 && fault.status < 500)) throw fault;
      await new Promise((resume) => setTimeout(resume, pause));
    }
  }
}
