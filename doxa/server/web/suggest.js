// A text field that suggests names while somebody types: the combobox of the ARIA patterns.

import { get } from "./api.js";
import { debounced, h, put, whole } from "./dom.js";

let fields = 0;

/** A labeled field for the name of an entity or a relation; `onchoose` is called with a chosen name. */
export function nameField(options) {
  const { label, kind = "entity", value = "", placeholder = "", onchoose = () => {}, hideLabel = false } = options;
  const id = `names-${(fields += 1)}`;
  const input = h("input", {
    type: "text", id, value, placeholder, autocomplete: "off", spellcheck: "false", autocapitalize: "off",
    role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": `${id}-list`, dir: "auto",
  });
  const list = h("ul", {
    class: "suggestions", id: `${id}-list`, role: "listbox", "aria-label": `${label}: suggestions`, hidden: true,
  });
  const caption = h("label", { for: id, class: hideLabel ? "hidden" : "" }, label);
  const box = h("div", { class: "field" }, caption, input, list);
  let names = [], active = -1, request = null;

  function close() {
    request?.abort();
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function choose(name) {
    input.value = name;
    close();
    onchoose(name);
  }

  function highlight(index) {
    active = index;
    [...list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === active)));
    if (active >= 0) {
      input.setAttribute("aria-activedescendant", list.children[active].id);
      list.children[active].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  }

  function option(match, index) {
    const count = match.match === "similar" ? "similar" : whole(match.facts);
    return h("li", {
      role: "option", id: `${id}-${index}`, "aria-selected": "false",
      onmousedown: (event) => { event.preventDefault(); choose(match.name); },
    }, h("bdi", {}, match.name), h("span", { class: "count" }, count));
  }

  async function search() {
    request?.abort();
    request = new AbortController();
    try {
      ({ names } = await get("names", { q: input.value.slice(0, 1000), kind, limit: 8 }, { signal: request.signal }));
    } catch {
      return;
    }
    if (document.activeElement !== input) return;
    put(list, names.map(option));
    list.hidden = names.length === 0 || (names.length === 1 && names[0].name === input.value);
    input.setAttribute("aria-expanded", String(!list.hidden));
    active = -1;
  }

  input.addEventListener("input", debounced(search, 70));
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const count = names.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) return void search();
      highlight((active + (event.key === "ArrowDown" ? 1 : active < 0 ? 0 : -1) + count) % count);
    } else if (event.key === "Enter" && !list.hidden && active >= 0) {
      event.preventDefault();
      choose(names[active].name);
    } else if (event.key === "Enter") close();
    else if (event.key === "Escape" && !list.hidden) {
      event.stopPropagation();
      close();
    } else if (event.key === "Tab" && !list.hidden && active >= 0) choose(names[active].name);
  });
  return { box, input };
}
