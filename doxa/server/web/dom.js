// Elements without markup: every text becomes a text node, so that no name can become code.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, options, children) {
  for (const [name, value] of Object.entries(options ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars") {
      for (const [key, one] of Object.entries(value)) element.style.setProperty(`--${key}`, one);
    } else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...flat(children));
  return element;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** An HTML element: h("p", {class: "note", onclick: f, vars: {p: 0.5}}, "text", child). */
export const h = (tag, options, ...children) => fill(document.createElement(tag), options, children);

/** An SVG element. */
export const s = (tag, options, ...children) => fill(document.createElementNS(SVG, tag), options, children);

/** Put children in the place of everything in an element. */
export function put(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

/** A color of the stylesheet as the browser resolves it, for a canvas. */
export function color(name) {
  const probe = h("i", { hidden: true });
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

export const whole = (number) => Number(number).toLocaleString("en");

export function percent(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  if (share > 0.9995 && share < 1) return "> 99.9 %";
  if (share < 0.0005 && share > 0) return "< 0.1 %";
  const digits = share === 0 || share === 1 || (share >= 0.1 && share < 0.995) ? 0 : 1;
  return `${(100 * share).toFixed(digits)} %`;
}

export const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;

/** Call a function once its caller has been quiet for a while. */
export function debounced(work, milliseconds) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...values), milliseconds);
  };
}
