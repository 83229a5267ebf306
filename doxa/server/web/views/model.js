// Model: what is served, how good it is, how it learned, and what changed between versions.

import { events, get, post, recall } from "../api.js";
import { line, reliability } from "../charts.js";
import { h, percent, plural, put, whole } from "../dom.js";
import { go, link } from "../router.js";
import { badge, bar, belief, empty, load, relation, section, toast, waiting } from "../ui.js";

export const title = () => "Model";

const JOBS = [["update", "Update the model"], ["complete", "Search for missing beliefs"], ["audit", "Search for wrong beliefs"], ["evaluate", "Evaluate on the test split"]];

export async function show(root, params, page) {
  const about = await recall("models/live", {});
  const figures = h("div", {}), calibration = h("div", {}), relations = h("div", {}), streams = [];
  put(root, h("div", { class: "view-head" }, h("div", {}, h("h1", {}, "Model"), h("p", { class: "small" }, h("bdi", {}, about.source.split("/").at(-1)), ` · version ${about.number ?? about.version}`))),
    tiles(about), figures,
    h("div", { class: "two" }, section("Calibration", "validation facts", calibration), section("Learning curve", curveNote(about), curve(about))),
    section("Results by relation", "click a column to sort", relations),
    versions(params, page), page.me.writable ? jobs(page, streams) : null, settings(about.info));
  validation(about, figures, calibration, relations, params);
  return { close: () => streams.forEach((stream) => stream.close()) };
}

function tiles({ info }) {
  const tile = (value, label) => h("div", { class: "tile" }, h("strong", {}, value), h("span", {}, label));
  const minutes = info.training.seconds;
  return h("div", { class: "tiles" }, tile(whole(info.facts), "known facts"), tile(whole(info.entities), "entities"), tile(whole(info.relations), "relations"),
    tile(whole(info.words), "words"), tile(info.score, `${info.system}, ${info.settings.model.dimension} dimensions`),
    tile(minutes ? duration(minutes) : "–", plural(info.training.epochs ?? 0, "epoch")));
}

const duration = (seconds) => (seconds < 90 ? `${seconds.toFixed(0)} s` : seconds < 5400 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`);

async function validation(about, figures, calibration, relations, params) {
  put(figures, waiting("Evaluating on the validation facts; the first time takes a while …"));
  put(calibration, waiting());
  put(relations, relationTable(about.relations, null, params));
  let report;
  try {
    report = await recall("models/live/validation", {});
  } catch (fault) {
    put(figures);
    return void put(calibration, h("p", { class: "small" }, fault.message));
  }
  put(figures, report.beliefs ? results(report) : null);
  const bins = report.calibration?.bins;
  put(calibration, bins ? [reliability(bins, "Reliability diagram"), h("p", { class: "small" }, `On the diagonal, a credence of 70 % is right 7 times out of 10. Expected calibration error ${report.calibration.ece.toFixed(3)}.`)]
    : empty(Object.values(report.skipped ?? {})[0] ?? "There are no validation facts."));
  put(relations, relationTable(about.relations, report, params));
}

function results(report) {
  const tile = (value, label, share) => h("div", { class: "tile" }, h("strong", {}, value), bar(share, { kind: "thin", label: "" }), h("span", {}, label));
  const rows = [];
  if (report.entity) rows.push(tile(report.entity.filtered.mrr.toFixed(3), "mean reciprocal rank of entities", report.entity.filtered.mrr), tile(percent(report.entity.filtered["hits@10"]), "right entity in the top 10", report.entity.filtered["hits@10"]));
  if (report.relation) rows.push(tile(percent(report.relation.filtered["hits@1"]), "right relation first", report.relation.filtered["hits@1"]));
  if (report.classification) rows.push(tile(percent(report.classification.accuracy), "true and false told apart", report.classification.accuracy));
  return [h("div", { class: "tiles results" }, rows), h("p", { class: "small" }, `On ${whole(report.beliefs)} validation facts, which also chose thresholds and calibration: a little too good.`)];
}

const curveNote = (about) => about.curve.some((point) => point.metric !== undefined && point.metric !== null) ? "validation metric by epoch" : "loss by epoch";

function curve({ curve: points }) {
  const measured = points.filter((point) => point.metric !== undefined && point.metric !== null);
  const rows = measured.length > 1 ? measured.map((point) => [point.epoch, point.metric]) : points.filter((point) => point.loss !== undefined).map((point) => [point.epoch, point.loss]);
  if (rows.length < 2) return empty("The model keeps no learning curve.");
  const what = measured.length > 1 ? "validation metric" : "loss";
  return [line(rows, { title: `Learning curve: ${what} by epoch`, across: "epoch", up: what }), h("p", { class: "small" }, `Loss ${points[0].loss?.toFixed(2) ?? "–"} at first, ${points.at(-1).loss?.toFixed(2) ?? "–"} at the end.`)];
}

const COLUMNS = [["relation", "Relation", (a, b) => a.relation.localeCompare(b.relation)], ["facts", "Facts", (a, b) => b.facts - a.facts], ["tested", "Tested", (a, b) => (b.tested ?? 0) - (a.tested ?? 0)], ["accuracy", "Accuracy", (a, b) => (a.accuracy ?? 2) - (b.accuracy ?? 2)]];

function relationTable(relations, report, params) {
  const rows = relations.map((row) => ({ ...row, accuracy: report?.classification?.by_relation?.[row.relation] ?? null, tested: report?.beliefs_by_relation?.[row.relation] ?? null }));
  const by = COLUMNS.find(([name]) => name === params.get("sort")) ?? COLUMNS[1];
  rows.sort(by[2]);
  const sorted = (name) => link("model", { ...Object.fromEntries(params), sort: name });
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Results by relation" }, h("table", {}, h("thead", {}, h("tr", {}, COLUMNS.map(([name, label]) => h("th", { scope: "col", class: name, "aria-sort": by[0] === name ? "descending" : null }, h("a", { href: sorted(name) }, label))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: link("ask", { relation: row.relation }) }, relation(row.relation))), h("td", { class: "number" }, whole(row.facts)), h("td", { class: "number" }, row.tested === null ? "–" : whole(row.tested)), h("td", {}, row.accuracy === null ? "–" : bar(row.accuracy, { kind: row.accuracy < 0.7 ? "against" : "" })))))));
}

function versions(params, page) {
  const place = h("div", {});
  load(place, get("models"), ({ models }) => {
    const [a, b] = (params.get("compare") ?? "").split(",").map(Number);
    const pick = (name, value) => h("label", { class: "select" }, h("span", { class: "hidden" }, name), h("select", { name }, models.map((one) => h("option", { value: one.id, selected: one.id === value ? true : null }, `version ${one.id}`))));
    const compare = models.length > 1 ? h("form", { class: "compare", onsubmit: (event) => {
      event.preventDefault();
      const data = new FormData(event.target);
      go("model", { ...Object.fromEntries(params), compare: `${data.get("from")},${data.get("to")}` });
    } }, pick("from", a || models.at(-2).id), " to ", pick("to", b || models.at(-1).id), h("button", { type: "submit" }, "What changed")) : null;
    const changes = h("div", {});
    if (a && b) load(changes, get("models/compare", { a, b }), compared);
    return [h("ul", { class: "versions" }, models.map((one) => version(one, page))), compare, changes];
  });
  return section("Versions", "", place);
}

function version(one, page) {
  const figures = Object.entries(flatten(one.figures)).slice(0, 4).map(([name, value]) => h("span", { class: "stat" }, h("strong", {}, Number(value).toPrecision(3)), ` ${name}`));
  const publish = page.me.role === "admin" && page.me.writable && one.state !== "live" ? h("button", { type: "button", onclick: async () => {
    try {
      await post(`models/${one.id}/publish`);
      toast(`Version ${one.id} is live.`);
      setTimeout(() => location.reload(), 600);
    } catch (fault) {
      toast(fault.message, { kind: "bad" });
    }
  } }, "Publish") : null;
  return h("li", {}, h("strong", {}, `Version ${one.id}`), badge(one.state, one.state === "live" ? "good" : ""), one.created ? h("span", { class: "small" }, moment(one.created)) : null,
    one.reason ? h("span", { class: "small" }, one.reason) : null, h("span", { class: "stats" }, figures), publish);
}

const moment = (microseconds) => new Date(microseconds / 1000).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });

/** The numbers of nested figures under names such as "entity mrr". */
function flatten(figures, prefix = "") {
  const rows = {};
  for (const [name, value] of Object.entries(figures ?? {})) {
    if (typeof value === "number") rows[`${prefix}${name}`] = value;
    else if (value && typeof value === "object" && !Array.isArray(value)) Object.assign(rows, flatten(value, `${prefix}${name} `));
  }
  return rows;
}

function compared({ a, b, decisions }) {
  const from = flatten(a.figures), to = flatten(b.figures), names = [...new Set([...Object.keys(from), ...Object.keys(to)])].slice(0, 30);
  const change = (name) => name in from && name in to ? to[name] - from[name] : null;
  const shown = (value) => (value === undefined ? "–" : Number(value).toPrecision(3));
  return [
    names.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Figures of both versions" }, h("table", {}, h("thead", {}, h("tr", {}, ["Figure", `Version ${a.id}`, `Version ${b.id}`, "Change"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, names.map((name) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "number" }, shown(from[name])), h("td", { class: "number" }, shown(to[name])), h("td", { class: "number" }, change(name) === null ? "–" : `${change(name) >= 0 ? "+" : "−"}${Math.abs(change(name)).toPrecision(2)}`)))))) : h("p", { class: "small" }, "These versions have no figures."),
    h("h3", {}, `${plural(decisions.length, "decision")} between them`),
    h("ul", { class: "log" }, decisions.slice(-50).reverse().map((one) => h("li", {}, badge(one.verdict, one.verdict === "accept" || one.verdict === "add" ? "good" : one.verdict === "reject" || one.verdict === "retract" ? "bad" : ""), one.head ? belief(one.head, one.relation, one.tail) : null, h("small", {}, h("bdi", {}, one.curator))))),
  ];
}

function jobs(page, streams) {
  const place = h("div", {}), list = h("ul", { class: "versions" });
  const draw = (job) => {
    const item = h("li", {});
    const update = (now) => put(item, h("strong", {}, JOBS.find(([kind]) => kind === now.kind)?.[1] ?? now.kind), badge(now.state, { done: "good", failed: "bad", running: "warn" }[now.state] ?? ""),
      now.state === "running" ? h("progress", { max: 1, value: now.progress ?? null, "aria-label": "Progress" }) : null, now.message ? h("span", { class: "small" }, now.message) : null,
      page.me.role === "admin" && ["running", "waiting"].includes(now.state) ? h("button", { type: "button", onclick: () => post(`jobs/${now.id}/cancel`).then(update, (fault) => toast(fault.message, { kind: "bad" })) }, "Cancel") : null);
    update(job);
    if (["running", "waiting"].includes(job.state)) {
      const stream = events(`jobs/${job.id}/events`);
      streams.push(stream);
      stream.addEventListener("progress", (event) => update(JSON.parse(event.data)));
      stream.addEventListener("end", (event) => { stream.close(); update(JSON.parse(event.data)); });
    }
    return item;
  };
  const start = async (kind) => {
    try {
      list.prepend(draw(await post("jobs", { kind })));
    } catch (fault) {
      toast(fault.message, { kind: "bad" });
    }
  };
  load(place, get("jobs"), ({ jobs: all }) => {
    put(list, all.slice(-8).reverse().map(draw));
    return [page.me.role === "admin" ? h("p", { class: "actions" }, JOBS.map(([kind, text]) => h("button", { type: "button", onclick: () => start(kind) }, text))) : null, list];
  });
  return section("Jobs", "run in the background, one after the other", place);
}

function settings(info) {
  const groups = Object.entries(info.settings).map(([group, values]) => [h("h3", {}, group), h("dl", { class: "settings" }, Object.entries(values).map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]))]);
  return h("details", { class: "panel" }, h("summary", {}, h("h2", {}, "Settings")), groups);
}
