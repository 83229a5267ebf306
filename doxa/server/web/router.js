// Addresses: every state of the page is #/view?name=value, so that it can be linked, reloaded and gone back to.

/** The view and the parameters of the present address. */
export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: path || "ask", params: new URLSearchParams(query) };
}

/** The address of a view with parameters; empty ones are left out. */
export function link(view, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.append(name, value);
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
