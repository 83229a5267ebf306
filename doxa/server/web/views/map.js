// Map: thousands of entities on a canvas, similar ones near each other.

import { recall } from "../api.js";
import { clip, color, h, plural, put, whole } from "../dom.js";
import { go, mark } from "../router.js";
import { nameField } from "../suggest.js";
import { entity, load } from "../ui.js";

const COLORS = 10, CELLS = 64, NEAR = 12, LISTED = 30;
const SIZES = [["tsne", 800], ["tsne", 2000], ["pca", 800], ["pca", 5000], ["pca", 20000]];

export const title = () => "Map";

const keys = [["+ -", "zoom"], ["← → ↑ ↓", "move"], ["0", "show everything"]];

export function show(root, params, page) {
  const wanted = { layout: params.get("layout") === "pca" ? "pca" : "tsne", most: Number(params.get("most")) || 800, relation: params.get("relation") ?? "" };
  const place = h("div", { class: "map-place" });
  const view = { keys, chart: null, pressed: (event) => view.chart?.pressed(event), close: () => view.chart?.close() };
  put(root, h("div", { class: "view-head" }, h("h1", {}, "Map"), controls(wanted, (name) => view.chart?.find(name))), place);
  load(place, recall("map", { ...wanted, groups: 8 }), (drawn) => {
    view.chart = new Chart(drawn, params, wanted);
    return view.chart.element;
  }, "Laying out the entities; the first time takes a while …");
  return view;
}

function controls(wanted, find) {
  const label = ([layout, most]) => `${whole(most)} entities, ${layout === "tsne" ? "t-SNE" : "PCA"}`;
  const size = h("select", { onchange: (event) => { const [layout, most] = SIZES[event.target.value]; go("map", { ...wanted, layout, most }); } },
    SIZES.map((one, index) => h("option", { value: index, selected: one[0] === wanted.layout && one[1] === wanted.most ? true : null }, label(one))));
  const name = nameField({ label: "Find an entity", hideLabel: true, placeholder: "find an entity", onchoose: find });
  const only = nameField({ label: "Relation", hideLabel: true, kind: "relation", value: wanted.relation, placeholder: "all relations", onchoose: (relation) => go("map", { ...wanted, relation }) });
  const submit = (event, run) => { event.preventDefault(); run(); };
  return h("div", { class: "controls" }, h("form", { class: "search", onsubmit: (event) => submit(event, () => find(name.input.value.trim())) }, name.box),
    h("form", { class: "search", onsubmit: (event) => submit(event, () => go("map", { ...wanted, relation: only.input.value.trim() })) }, only.box),
    h("label", { class: "select" }, h("span", { class: "hidden" }, "Size and layout"), size));
}

class Chart {
  constructor(drawn, params, wanted) {
    Object.assign(this, { drawn, wanted, hover: null, chosen: null, hidden: new Set(), pointers: new Map() });
    this.points = drawn.entities.map((one, index) => ({ ...one, index, group: drawn.groups.indexOf(one.group) }));
    this.zoom = Number(params.get("z")) || 1;
    this.center = { x: Number(params.get("x")) || 0.5, y: Number(params.get("y")) || 0.5 };
    this.canvas = h("canvas", { role: "img", "aria-label": `Map of ${whole(this.points.length)} entities` });
    this.tip = h("div", { class: "tip", hidden: true });
    this.nearby = h("ul", { class: "chips" });
    this.element = h("div", { class: "map" }, h("div", { class: "canvas-box" }, this.canvas, this.tip, this.buttons()),
      h("div", { class: "map-side" }, this.legend(), h("section", { class: "panel" }, h("div", { class: "head" }, h("h2", {}, "In view"), this.count = h("span", { class: "note" })), this.nearby)));
    this.index();
    this.listen();
  }

  buttons() {
    const button = (text, label, run) => h("button", { type: "button", "aria-label": label, onclick: run }, text);
    return h("div", { class: "zoom" }, button("+", "Zoom in", () => this.scale(1.6)), button("−", "Zoom out", () => this.scale(1 / 1.6)), button("⤢", "Show everything", () => this.reset()));
  }

  legend() {
    const item = (name, index) => h("li", {}, h("button", { type: "button", class: `swatch c${index % COLORS}`, "aria-pressed": "true", onclick: (event) => {
      const off = !this.hidden.delete(index) && this.hidden.add(index);
      event.currentTarget.setAttribute("aria-pressed", String(!off));
      this.draw();
    } }, h("i", { "aria-hidden": "true" }), h("span", {}, h("bdi", {}, name))));
    return h("section", { class: "panel" }, h("div", { class: "head" }, h("h2", {}, "Groups"), h("span", { class: "note" }, "click to hide")), h("ul", { class: "legend" }, this.drawn.groups.map(item)));
  }

  /** Points by cell, so that the one under the pointer is at hand. */
  index() {
    this.cells = new Map();
    for (const point of this.points) {
      const cell = cellOf(point.x, point.y);
      if (!this.cells.has(cell)) this.cells.set(cell, []);
      this.cells.get(cell).push(point);
    }
  }

  listen() {
    const { canvas } = this;
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(canvas);
    this.repaint = () => { this.colors = null; this.draw(); };
    addEventListener("themechange", this.repaint);
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.scale(Math.exp(-event.deltaY * 0.0015), this.at(event)); }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      this.moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => this.pointer(event));
    canvas.addEventListener("pointerup", (event) => {
      this.pointers.delete(event.pointerId);
      if (this.moved < 5) {
        this.point(event);
        if (this.hover) go("entity", { name: this.hover.name });
      }
    });
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => { this.hover = null; this.tip.hidden = true; this.draw(); });
  }

  pointer(event) {
    const before = this.pointers.get(event.pointerId), now = { x: event.offsetX, y: event.offsetY };
    if (!before) return void this.point(event);
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, one]) => one);
    this.pointers.set(event.pointerId, now);
    this.moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (others.length) {
      const span = (one) => Math.max(Math.hypot(one.x - others[0].x, one.y - others[0].y), 1);
      this.scale(span(now) / span(before), this.at(event));
    } else {
      this.center.x -= (now.x - before.x) / this.side;
      this.center.y += (now.y - before.y) / this.side;
      this.draw();
    }
  }

  point(event) {
    const spot = this.at(event), reach = NEAR / this.side;
    let best = null, least = reach ** 2;
    const steps = Math.min(CELLS, Math.ceil(reach * CELLS));
    for (let dx = -steps; dx <= steps; dx += 1) {
      for (let dy = -steps; dy <= steps; dy += 1) {
        for (const point of this.cells.get(cellOf(spot.x + dx / CELLS, spot.y + dy / CELLS)) ?? []) {
          const distance = (point.x - spot.x) ** 2 + (point.y - spot.y) ** 2;
          if (distance < least && !this.hidden.has(point.group)) [best, least] = [point, distance];
        }
      }
    }
    if (best !== this.hover) {
      this.hover = best;
      this.draw();
    }
    this.tip.hidden = !best;
    this.canvas.classList.toggle("pointing", Boolean(best));
    if (best) {
      put(this.tip, h("strong", {}, h("bdi", {}, clip(best.name, 80))), h("small", {}, this.drawn.groups[best.group]));
      const { x, y } = this.screen(best), right = x > this.width / 2;
      this.tip.style.left = right ? "auto" : `${x + 12}px`;
      this.tip.style.right = right ? `${this.width - x + 12}px` : "auto";
      this.tip.style.top = `${Math.min(y + 8, this.height - 60)}px`;
    }
  }

  get side() {
    return Math.min(this.width, this.height) * 0.94 * this.zoom;
  }

  screen(point) {
    return { x: this.width / 2 + (point.x - this.center.x) * this.side, y: this.height / 2 - (point.y - this.center.y) * this.side };
  }

  at(event) {
    return { x: this.center.x + (event.offsetX - this.width / 2) / this.side, y: this.center.y - (event.offsetY - this.height / 2) / this.side };
  }

  scale(factor, around = this.center) {
    const zoom = Math.max(0.5, Math.min(60, this.zoom * factor)), ratio = this.zoom / zoom;
    this.center = { x: around.x + (this.center.x - around.x) * ratio, y: around.y + (this.center.y - around.y) * ratio };
    this.zoom = zoom;
    this.draw();
  }

  reset() {
    Object.assign(this, { zoom: 1, center: { x: 0.5, y: 0.5 }, chosen: null });
    this.draw();
  }

  find(name) {
    const point = this.points.find((one) => one.name === name);
    if (!point) return;
    Object.assign(this, { chosen: point, zoom: Math.max(this.zoom, 6), center: { x: point.x, y: point.y } });
    this.draw();
  }

  pressed(event) {
    const step = 0.1 / this.zoom, moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (event.key in moves) {
      this.center.x += moves[event.key][0];
      this.center.y += moves[event.key][1];
      this.draw();
    } else if (event.key === "+" || event.key === "=") this.scale(1.4);
    else if (event.key === "-") this.scale(1 / 1.4);
    else if (event.key === "0") this.reset();
    else return;
    event.preventDefault();
  }

  resize() {
    const { width, height } = this.canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
    if (!width) return;
    Object.assign(this, { width, height, ratio });
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.draw();
  }

  /** Draw once before the next frame, however many events there were. */
  draw() {
    if (!this.width || this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.paint(); });
  }

  paint() {
    this.colors ??= { groups: Array.from({ length: COLORS }, (_, index) => color(`c${index}`)), ink: color("ink"), halo: color("panel") };
    const context = this.canvas.getContext("2d"), { colors } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const radius = Math.max(1.6, Math.min(6, (this.points.length > 3000 ? 1.8 : 2.8) * Math.sqrt(this.zoom)));
    const shown = this.points.map((point) => ({ point, ...this.screen(point) }))
      .filter((one) => one.x > -20 && one.y > -20 && one.x < this.width + 20 && one.y < this.height + 20 && !this.hidden.has(one.point.group));
    context.globalAlpha = 0.85;
    for (let group = 0; group < this.drawn.groups.length; group += 1) {
      context.fillStyle = colors.groups[group % COLORS];
      context.beginPath();
      for (const one of shown) {
        if (one.point.group !== group) continue;
        context.moveTo(one.x + radius, one.y);
        context.arc(one.x, one.y, radius, 0, 7);
      }
      context.fill();
    }
    context.globalAlpha = 1;
    this.labels(context, shown, radius);
    this.list(shown);
  }

  /** Names of the entities with most facts, where there is room. */
  labels(context, shown, radius) {
    context.font = "12px system-ui, sans-serif";
    context.lineWidth = 3;
    const taken = [], first = [this.chosen, this.hover].filter(Boolean);
    const order = [...shown.filter((one) => first.includes(one.point)), ...shown.filter((one) => !first.includes(one.point)).slice(0, 400)];
    for (const one of order) {
      const text = clip(one.point.name, 24), width = context.measureText(text).width;
      const left = one.x + radius + 3 + width > this.width ? one.x - radius - 3 - width : one.x + radius + 3, box = [left, one.y - 8, left + width, one.y + 8];
      const special = first.includes(one.point);
      if (!special && (taken.length > 40 || taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]))) continue;
      taken.push(box);
      context.strokeStyle = this.colors.halo;
      context.fillStyle = this.colors.ink;
      if (special) {
        context.beginPath();
        context.arc(one.x, one.y, radius + 2, 0, 7);
        context.fill();
      }
      context.strokeText(text, box[0], one.y + 4);
      context.fillText(text, box[0], one.y + 4);
    }
  }

  /** The same as text: what is in view, and the place in the address. */
  list(shown) {
    clearTimeout(this.listing);
    this.listing = setTimeout(() => {
      if (!this.element.isConnected) return;
      put(this.nearby, shown.slice(0, LISTED).map(({ point }) => h("li", {}, entity(point.name))));
      put(this.count, plural(shown.length, "entity").replace("entitys", "entities"));
      const moved = this.zoom !== 1 || this.center.x !== 0.5 || this.center.y !== 0.5;
      const { layout, most, relation } = this.wanted;
      mark("map", { layout: layout === "tsne" ? "" : layout, most: most === 800 ? "" : most, relation,
        ...(moved ? { x: this.center.x.toFixed(4), y: this.center.y.toFixed(4), z: this.zoom.toFixed(2) } : {}) });
    }, 200);
  }

  close() {
    this.watch.disconnect();
    clearTimeout(this.listing);
    cancelAnimationFrame(this.frame);
    removeEventListener("themechange", this.repaint);
  }
}

const cellOf = (x, y) => Math.floor(x * CELLS) * 4096 + Math.floor(y * CELLS);
