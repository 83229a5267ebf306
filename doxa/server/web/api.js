// The HTTP API: requests, problems, streams, and answers kept for as long as the model version lives.

const BASE = new URL("api/v1/", document.baseURI);
const KEPT = 300;

const kept = new Map();
let version = null;

/** What the server refused and why: `message` and `hints` are the library's. */
export class Problem extends Error {
  constructor(status, detail, hints = []) {
    super(detail);
    this.status = status;
    this.hints = hints;
  }
}

function address(path, params = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") url.searchParams.append(name, one);
    }
  }
  return url;
}

async function send(url, options) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...options });
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw new Problem(0, "the server cannot be reached", ["check that `doxa serve` is running"]);
  }
  if (response.ok) return response;
  let body = {};
  try { body = await response.json(); } catch { /* the answer of a proxy */ }
  throw new Problem(response.status, body.detail ?? `the server answered ${response.status}`, body.hints ?? []);
}

function note(response) {
  const tag = response.headers.get("etag");
  if (tag && tag !== version) {
    if (version !== null) kept.clear();
    version = tag;
  }
}

/** The answer to a GET; not kept if it depends on more than the model. */
export async function get(path, params, { signal } = {}) {
  const response = await send(address(path, params), { signal });
  note(response);
  return response.json();
}

/** The answer to a GET that depends on the model alone: asked for once. */
export function recall(path, params) {
  const key = address(path, params).href;
  if (!kept.has(key)) {
    if (kept.size >= KEPT) kept.delete(kept.keys().next().value);
    const answer = get(path, params);
    kept.set(key, answer);
    answer.catch(() => kept.get(key) === answer && kept.delete(key));
  }
  return kept.get(key);
}

/** The answer to a POST with a JSON body. */
export async function post(path, body, params, { keepalive = false } = {}) {
  const options = { method: "POST", keepalive };
  if (body !== undefined) {
    Object.assign(options, { body: JSON.stringify(body), headers: { "content-type": "application/json" } });
  }
  return (await send(address(path, params), options)).json();
}

/** The lines of a streamed answer, each as data. */
export async function* lines(path, params, { signal } = {}) {
  const response = await send(address(path, params), { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    rest += value ?? "";
    const parts = rest.split("\n");
    rest = done ? "" : parts.pop();
    for (const part of parts) if (part.trim()) yield JSON.parse(part);
    if (done) return;
  }
}

/** The address of a stream of server-sent events. */
export const events = (path) => new EventSource(address(path), { withCredentials: true });

/** The path of an entity; names may hold any character. */
export const entityPath = (name) => `entities/${encodeURIComponent(name)}`;
