// Suspects: known beliefs that look wrong, the most suspect first.

import { post, recall } from "../api.js";
import { h, plural, put } from "../dom.js";
import { go } from "../router.js";
import { nameField } from "../suggest.js";
import { empty, load, toast } from "../ui.js";
import { moved } from "../why.js";
import { explained, reasons, suspicion } from "./entity.js";

export const title = (params) => params.get("relation") ? `Suspects: ${params.get("relation")}` : "Suspects";

const keys = [["↓ ↑", "next, previous suspect"], ["Enter", "why; again to close"]];

export function show(root, params, page) {
  const name = params.get("relation") ?? "", top = Number(params.get("top")) || 50;
  const field = nameField({ label: "Relation", kind: "relation", value: name, placeholder: "all relations", onchoose: (chosen) => go("suspects", { relation: chosen }) });
  const result = h("div", {});
  put(root, h("div", { class: "view-head" }, h("div", {}, h("h1", {}, "Suspects"), h("p", { class: "small" }, "Known beliefs that do not fit what the model has learned. The longer the bar, the more suspect.")),
    h("form", { class: "search", onsubmit: (event) => { event.preventDefault(); go("suspects", { relation: field.input.value.trim() }); } }, field.box)), result);
  load(result, recall("audit", { relation: name, top }), (found) => table(found, page, { relation: name, top }), "Auditing every known belief; the first time takes a while …");
  return { keys, pressed: (event) => moved(event, result) };
}

function table({ suspects, expected_wrong: wrong }, page, now) {
  if (!suspects.length) return empty("There is no belief to audit.");
  const note = wrong !== null && wrong !== undefined ? `About ${wrong < 10 ? wrong.toFixed(1) : Math.round(wrong)} of these ${suspects.length} are expected to be wrong.` : plural(suspects.length, "belief");
  return [h("p", { class: "small spaced" }, note), h("ul", { class: "rows panel" }, suspects.map((row) => item(row, page))),
    suspects.length === now.top && now.top < 1000 ? h("button", { type: "button", onclick: () => go("suspects", { ...now, top: Math.min(1000, now.top * 4) }) }, "Show more") : null];
}

function item(row, page) {
  const line = explained(row, suspicion(row), reasons(row));
  const role = page.me.role;
  if (page.me.writable && (role === "curator" || role === "admin")) line.querySelector(".row").append(retractButton(row, line));
  return line;
}

function retractButton(row, line) {
  const button = h("button", { type: "button", class: "retract", onclick: retract }, "Retract");
  const triple = { head: row.head, relation: row.relation, tail: row.tail };
  async function retract() {
    button.disabled = true;
    try {
      const { decision } = await post("beliefs/retract", triple);
      line.classList.add("done");
      button.textContent = "Retracted";
      toast("Retracted; the next update of the model learns it.", { action: { label: "Undo", run: () => restore(decision) } });
    } catch (fault) {
      if (fault.status === 404) Object.assign(button, { textContent: "Retracted" });
      else button.disabled = false;
      toast(fault.message, { kind: "bad" });
    }
  }
  async function restore(decision) {
    try {
      await post("beliefs/undo", { decision });
      line.classList.remove("done");
      Object.assign(button, { textContent: "Retract", disabled: false });
    } catch (fault) {
      toast(fault.message, { kind: "bad" });
    }
  }
  return button;
}
