// Addresses: every state of the page is #/view?name=value, so that it can be linked, reloaded and gone back to.

/** The view and the parameters of the present address. */
export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: path || "ask", params: new URLSearchParams(query) };
}

/** The address of a view with parameters; empty ones are left out, and a list is a repeated parameter. */
export function link(view, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, one);
    }
  }
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

/** Go to a view. `replace` leaves no entry in the history. */
export function go(view, params = {}, { replace = false } = {}) {
  const target = link(view, params);
  if (target === location.hash) return;
  if (replace) {
    history.replaceState(null, "", target);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = target;
}

/** Change the address without showing anything new. */
export const mark = (view, params) => history.replaceState(null, "", link(view, params));

/** The values of a repeated parameter of the present view; the address follows when one is set or taken out. */
export function repeated(name) {
  const values = new Set(here().params.getAll(name));
  function set(value, present) {
    if (present) values.add(value);
    else values.delete(value);
    const { view, params } = here();
    params.delete(name);
    for (const one of values) params.append(name, one);
    const query = params.toString();
    history.replaceState(null, "", `#/${view}${query ? `?${query}` : ""}`);
  }
  return { has: (value) => values.has(value), set };
}
