// What was decided since the model was trained: lists that come from the model mark it.

import { get } from "./api.js";
import { badge } from "./ui.js";
import { nameOf } from "./why.js";

/** The decided beliefs by name; none where a model folder is served. */
export async function changesSince(page, about = {}) {
  if (!page.me.writable) return new Map();
  const { changes } = await get("beliefs/changes", about);
  return new Map(changes.map((one) => [nameOf(one), one]));
}

/** What was decided about a belief of a list, as a badge. */
export function decided(changes, row) {
  const change = changes.get(nameOf(row));
  return change ? badge(change.holds ? "accepted" : "retracted", change.holds ? "good" : "bad") : null;
}
