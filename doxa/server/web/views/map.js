// Map: thousands of entities on a canvas, similar ones near each other.

import { recall } from "../api.js";
import { clip, color, h, plural, put, whole } from "../dom.js";
import { go, mark } from "../router.js";
import { nameField } from "../suggest.js";
import { entity, load, toast } from "../ui.js";

const COLORS = 10, CELLS = 64, NEAR = 12, LISTED = 30;
const SIZES = [["tsne", 800], ["tsne", 2000], ["pca", 800], ["pca", 5000], ["pca", 20000]];

export const title = () => "Map";

const keys = [["+ -", "zoom"], ["← → ↑ ↓", "move"], ["0", "show everything"]];

export function show(root, params) {
  const wanted = {
    layout: params.get("layout") === "pca" ? "pca" : "tsne",
    most: Number(params.get("most")) || 800,
    relation: params.get("relation") ?? "",
  };
  const place = h("div", { class: "map-place" });
  const view = { keys, chart: null, pressed: (event) => view.chart?.pressed(event), close: () => view.chart?.close() };
  const tools = controls(wanted, (name) => view.chart?.find(name));
  put(root, h("div", { class: "view-head" }, h("h1", {}, "Map"), tools), place);
  load(place, recall("map", { ...wanted, groups: 8 }), (drawn) => {
    view.chart = new Chart(drawn, params, wanted);
    return view.chart.element;
  }, "Laying out the entities; the first time takes a while …");
  return view;
}

function controls(wanted, find) {
  const label = ([layout, most]) => `${whole(most)} entities, ${layout === "tsne" ? "t-SNE" : "PCA"}`;
  const resize = (event) => {
    const [layout, most] = SIZES[event.target.value];
    go("map", { ...wanted, layout, most });
  };
  const size = h("select", { onchange: resize }, SIZES.map(([layout, most], index) => {
    const selected = layout === wanted.layout && most === wanted.most;
    return h("option", { value: index, selected: selected ? true : null }, label([layout, most]));
  }));
  const name = nameField({ label: "Find an entity", hideLabel: true, placeholder: "find an entity", onchoose: find });
  const restrict = (relation) => go("map", { ...wanted, relation });
  const only = nameField({
    label: "Relation", hideLabel: true, kind: "relation", value: wanted.relation, placeholder: "all relations",
    onchoose: restrict,
  });
  const form = ({ box, input }, run) => h("form", { class: "search", onsubmit: (event) => {
    event.preventDefault();
    run(input.value.trim());
  } }, box);
  return h("div", { class: "controls" }, form(name, find), form(only, restrict),
    h("label", { class: "select" }, h("span", { class: "hidden" }, "Size and layout"), size));
}

class Chart {
  constructor(drawn, params, wanted) {
    Object.assign(this, { drawn, wanted, hover: null, chosen: null, pointers: new Map() });
    this.points = drawn.entities.map((one, index) => ({ ...one, index, group: drawn.groups.indexOf(one.group) }));
    const hidden = params.getAll("hide");
    this.hidden = new Set([...drawn.groups.keys()].filter((index) => hidden.includes(drawn.groups[index])));
    this.zoom = Number(params.get("z")) || 1;
    this.center = { x: Number(params.get("x")) || 0.5, y: Number(params.get("y")) || 0.5 };
    this.canvas = h("canvas", { role: "img", "aria-label": `Map of ${whole(this.points.length)} entities` });
    this.tip = h("div", { class: "tip", hidden: true });
    this.nearby = h("ul", { class: "chips" });
    this.count = h("span", { class: "note" });
    const list = h("section", { class: "panel" },
      h("div", { class: "head" }, h("h2", {}, "In view"), this.count), this.nearby);
    this.element = h("div", { class: "map" },
      h("div", { class: "canvas-box" }, this.canvas, this.tip, this.buttons()),
      h("div", { class: "map-side" }, this.legend(), list));
    this.index();
    this.listen();
  }

  buttons() {
    const button = (text, label, run) => h("button", { type: "button", "aria-label": label, onclick: run }, text);
    return h("div", { class: "zoom" },
      button("+", "Zoom in", () => this.scale(1.6)),
      button("−", "Zoom out", () => this.scale(1 / 1.6)),
      button("⤢", "Show everything", () => this.reset()));
  }

  legend() {
    const item = (name, index) => {
      const button = h("button", {
        type: "button", class: `swatch c${index % COLORS}`, "aria-pressed": String(!this.hidden.has(index)),
        onclick: () => {
          if (!this.hidden.delete(index)) this.hidden.add(index);
          button.setAttribute("aria-pressed", String(!this.hidden.has(index)));
          this.draw();
        },
      }, h("i", { "aria-hidden": "true" }), h("span", {}, h("bdi", {}, name)));
      return h("li", {}, button);
    };
    return h("section", { class: "panel" },
      h("div", { class: "head" }, h("h2", {}, "Groups"), h("span", { class: "note" }, "click to hide")),
      h("ul", { class: "legend" }, this.drawn.groups.map(item)));
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
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.scale(Math.exp(-event.deltaY * 0.0015), this.at(event));
    }, { passive: false });
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
    canvas.addEventListener("pointerleave", () => {
      this.hover = null;
      this.tip.hidden = true;
      this.draw();
    });
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
    const { width, height, center, side } = this;
    return { x: width / 2 + (point.x - center.x) * side, y: height / 2 - (point.y - center.y) * side };
  }

  at(event) {
    const { width, height, center, side } = this;
    return { x: center.x + (event.offsetX - width / 2) / side, y: center.y - (event.offsetY - height / 2) / side };
  }

  scale(factor, around = this.center) {
    const zoom = Math.max(0.5, Math.min(60, this.zoom * factor)), ratio = this.zoom / zoom;
    const { x, y } = this.center;
    this.center = { x: around.x + (x - around.x) * ratio, y: around.y + (y - around.y) * ratio };
    this.zoom = zoom;
    this.draw();
  }

  reset() {
    Object.assign(this, { zoom: 1, center: { x: 0.5, y: 0.5 }, chosen: null });
    this.draw();
  }

  find(name) {
    const point = this.points.find((one) => one.name === name);
    if (!name) return;
    if (!point || this.hidden.has(point.group)) {
      const why = point ? "its group is hidden" : "it shows the entities with most facts";
      return void toast(`The map does not show ${clip(name, 60)}: ${why}.`);
    }
    Object.assign(this, { chosen: point, zoom: Math.max(this.zoom, 6), center: { x: point.x, y: point.y } });
    this.draw();
  }

  pressed(event) {
    const step = 0.1 / this.zoom;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
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
    this.colors ??= {
      groups: Array.from({ length: COLORS }, (_, index) => color(`c${index}`)), ink: color("ink"), halo: color("panel"),
    };
    const context = this.canvas.getContext("2d"), { colors } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const radius = Math.max(1.6, Math.min(6, (this.points.length > 3000 ? 1.8 : 2.8) * Math.sqrt(this.zoom)));
    const inside = ({ x, y }) => x > -20 && y > -20 && x < this.width + 20 && y < this.height + 20;
    const shown = this.points.filter((point) => !this.hidden.has(point.group))
      .map((point) => ({ point, ...this.screen(point) })).filter(inside);
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
    const rest = shown.filter((one) => !first.includes(one.point)).slice(0, 400);
    for (const one of [...shown.filter((other) => first.includes(other.point)), ...rest]) {
      const text = clip(one.point.name, 24), width = context.measureText(text).width, gap = radius + 3;
      const left = one.x + gap + width > this.width ? one.x - gap - width : one.x + gap;
      const box = [left, one.y - 8, left + width, one.y + 8];
      const special = first.includes(one.point);
      if (!special && (taken.length > 40 || taken.some((other) => overlap(box, other)))) continue;
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
      mark("map", {
        layout: layout === "tsne" ? "" : layout, most: most === 800 ? "" : most, relation,
        hide: [...this.hidden].map((index) => this.drawn.groups[index]),
        ...(moved ? { x: this.center.x.toFixed(4), y: this.center.y.toFixed(4), z: this.zoom.toFixed(2) } : {}),
      });
    }, 200);
  }

  close() {
    this.watch.disconnect();
    clearTimeout(this.listing);
    cancelAnimationFrame(this.frame);
    removeEventListener("themechange", this.repaint);
  }
}

/** Whether two boxes [left, top, right, bottom] have something in common. */
const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

const cellOf = (x, y) => Math.floor(x * CELLS) * 4096 + Math.floor(y * CELLS);
