// Suspects: known beliefs that look wrong, the most suspect first.

import { post, recall } from "../api.js";
import { changesSince } from "../changes.js";
import { h, plural, put } from "../dom.js";
import { go, repeated } from "../router.js";
import { nameField } from "../suggest.js";
import { empty, load, toast } from "../ui.js";
import { moved, nameOf } from "../why.js";
import { suspect } from "./entity.js";

const ABOUT = "Known beliefs that do not fit what the model has learned. The longer the bar, the more suspect.";
const SLOW = "Auditing every known belief; the first time takes a while …";

export const title = (params) => params.get("relation") ? `Suspects: ${params.get("relation")}` : "Suspects";

const keys = [["↓ ↑", "next, previous suspect"], ["Enter", "why; again to close"]];

export function show(root, params, page) {
  const name = params.get("relation") ?? "", top = Number(params.get("top")) || 50, open = repeated("why");
  const field = nameField({
    label: "Relation", kind: "relation", value: name, placeholder: "all relations",
    onchoose: (chosen) => go("suspects", { relation: chosen }),
  });
  const search = (event) => {
    event.preventDefault();
    go("suspects", { relation: field.input.value.trim() });
  };
  const result = h("div", {});
  put(root, h("div", { class: "view-head" },
    h("div", {}, h("h1", {}, "Suspects"), h("p", { class: "small" }, ABOUT)),
    h("form", { class: "search", onsubmit: search }, field.box)), result);
  const both = Promise.all([recall("audit", { relation: name, top }), changesSince(page)]);
  load(result, both, ([audit, changes]) => table(audit, { page, changes, open, relation: name, top }), SLOW);
  return { keys, pressed: (event) => moved(event, result) };
}

function table({ suspects, expected_wrong: wrong }, now) {
  if (!suspects.length) return empty("There is no belief to audit.");
  const expected = wrong < 10 ? wrong?.toFixed(1) : Math.round(wrong);
  const note = wrong === null || wrong === undefined ? plural(suspects.length, "belief")
    : `About ${expected} of these ${suspects.length} are expected to be wrong.`;
  const { relation, top } = now, more = () => go("suspects", { relation, top: Math.min(1000, top * 4) });
  return [
    h("p", { class: "small spaced" }, note),
    h("ul", { class: "rows panel" }, suspects.map((row) => item(row, now))),
    suspects.length === top && top < 1000 ? h("button", { type: "button", onclick: more }, "Show more") : null,
  ];
}

function item(row, now) {
  const { page, changes, open } = now, { role, writable } = page.me;
  const line = suspect(row, open, changes);
  if (!writable || (role !== "curator" && role !== "admin")) return line;
  const undo = changes.get(nameOf(row))?.holds === false;
  const button = h("button", { type: "button", class: "retract", onclick: decide }, undo ? "Undo" : "Retract");
  line.querySelector(".row").append(button);
  async function decide() {
    button.disabled = true;
    try {
      await (undo ? restored(row, changes) : retracted(row, changes));
    } catch (fault) {
      toast(fault.message, { kind: "bad" });
    }
    const drawn = item(row, now);
    line.replaceWith(drawn);
    drawn.querySelector(".retract").focus();
  }
  return line;
}

async function retracted(row, changes) {
  const { head, relation, tail } = row;
  const { decision } = await post("beliefs/retract", { head, relation, tail });
  changes.set(nameOf(row), { head, relation, tail, holds: false, decision });
  toast("Retracted; the next update of the model learns it.");
}

async function restored(row, changes) {
  await post("beliefs/undo", { decision: changes.get(nameOf(row)).decision });
  changes.delete(nameOf(row));
}
