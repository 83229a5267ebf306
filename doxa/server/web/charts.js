// Small charts in SVG: a line over steps, and a reliability diagram.

import { percent, s, whole } from "./dom.js";

const WIDTH = 460, HEIGHT = 240, LEFT = 56, BOTTOM = 38, TOP = 14, RIGHT = 14;

function frame(title, across, up) {
  const middle = (TOP + HEIGHT - BOTTOM) / 2, turned = `rotate(-90 12 ${middle})`;
  return s("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title },
    s("text", { class: "axis", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, across),
    s("text", { class: "axis", x: 12, y: middle, "text-anchor": "middle", transform: turned }, up));
}

const place = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

function ticks(svg, x, y, across, up, format) {
  for (const value of across) {
    const label = format[0](value);
    svg.append(s("text", { class: "tick", x: x(value), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, label));
  }
  for (const value of up) {
    svg.append(s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      s("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format[1](value)));
  }
}

/** Points as the text of a polyline. */
const through = (points, x, y) => points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");

/** Round numbers that cut a range into about `count` parts. */
export function steps(low, high, count = 4) {
  const rough = (high - low || 1) / count, scale = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * scale >= rough) * scale;
  const values = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) {
    values.push(Number(value.toPrecision(12)));
  }
  return values;
}

/** A line through points [[x, y], …] with the axes' names. */
export function line(points, { title, across, up }) {
  const svg = frame(title, across, up);
  const xs = points.map((point) => point[0]), ys = points.map((point) => point[1]);
  const spread = Math.max(...ys) - Math.min(...ys) || Math.abs(ys[0]) || 1;
  const low = Math.min(...ys) - 0.08 * spread, high = Math.max(...ys) + 0.08 * spread;
  const x = place(Math.min(...xs), Math.max(...xs), LEFT, WIDTH - RIGHT), y = place(low, high, HEIGHT - BOTTOM, TOP);
  const decimals = spread < 0.02 ? 3 : spread < 0.2 ? 2 : 1;
  const marks = [steps(Math.min(...xs), Math.max(...xs), 5), steps(low, high)];
  ticks(svg, x, y, ...marks, [whole, (value) => value.toFixed(decimals)]);
  svg.append(s("polyline", { class: "line", points: through(points, x, y) }));
  const last = points.at(-1);
  svg.append(s("circle", { class: "dot", cx: x(last[0]), cy: y(last[1]), r: 4 }),
    s("text", { class: "value", x: x(last[0]), y: y(last[1]) - 9, "text-anchor": "end" }, last[1].toFixed(3)));
  return svg;
}

/** Credence against the share of true beliefs; a dot's area is its number of beliefs. */
export function reliability({ credence, truth, count }, title) {
  const svg = frame(title, "credence", "share of true beliefs");
  const x = place(0, 1, LEFT, WIDTH - RIGHT), y = place(0, 1, HEIGHT - BOTTOM, TOP);
  const marks = [0, 0.25, 0.5, 0.75, 1], format = (value) => `${Math.round(100 * value)}%`;
  ticks(svg, x, y, marks, marks, [format, format]);
  svg.append(s("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
  const most = Math.max(...count, 1);
  const points = credence.map((value, index) => [value, truth[index]]);
  svg.append(s("polyline", { class: "line thin", points: through(points, x, y) }));
  points.forEach(([value, share], index) => {
    const radius = 2.5 + 4 * Math.sqrt(count[index] / most);
    const text = `credence ${percent(value)}, ${percent(share)} true, ${whole(count[index])} beliefs`;
    svg.append(s("circle", { class: "dot", cx: x(value), cy: y(share), r: radius }, s("title", {}, text)));
  });
  return svg;
}
