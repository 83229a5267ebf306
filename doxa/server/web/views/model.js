// Model: what is served, how good it is, how it learned, and what changed between versions.

import { events, get, post, recall } from "../api.js";
import { line, reliability } from "../charts.js";
import { h, percent, plural, put, whole } from "../dom.js";
import { go, link } from "../router.js";
import { badge, bar, belief, empty, load, relation, section, toast, waiting } from "../ui.js";

export const title = () => "Model";

const JOBS = [
  ["update", "Update the model"],
  ["complete", "Search for missing beliefs"],
  ["audit", "Search for wrong beliefs"],
  ["evaluate", "Evaluate on the test split"],
];

export async function show(root, params, page) {
  const about = await recall("models/live", {});
  const figures = h("div", {}), calibration = h("div", {}), relations = h("div", {}), streams = [];
  const name = h("bdi", {}, about.source.split("/").at(-1)), number = ` · version ${about.number ?? about.version}`;
  put(root,
    h("div", { class: "view-head" }, h("div", {}, h("h1", {}, "Model"), h("p", { class: "small" }, name, number))),
    tiles(about), figures,
    h("div", { class: "two" }, section("Calibration", "validation facts", calibration),
      section("Learning curve", curveNote(about), curve(about))),
    section("Results by relation", "click a column to sort", relations),
    versions(params, page), page.me.writable ? jobs(page, streams) : null, settings(about.info));
  validation(about, figures, calibration, relations, params);
  return { close: () => streams.forEach((stream) => stream.close()) };
}

function tiles({ info }) {
  const tile = (value, label) => h("div", { class: "tile" }, h("strong", {}, value), h("span", {}, label));
  const { seconds, epochs } = info.training;
  return h("div", { class: "tiles" },
    tile(whole(info.facts), "known facts"),
    tile(whole(info.entities), "entities"),
    tile(whole(info.relations), "relations"),
    tile(whole(info.words), "words"),
    tile(info.score, `${info.system}, ${info.settings.model.dimension} dimensions`),
    tile(seconds ? duration(seconds) : "–", plural(epochs ?? 0, "epoch")));
}

function duration(seconds) {
  if (seconds < 90) return `${seconds.toFixed(0)} s`;
  return seconds < 5400 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

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
  put(calibration, calibrated(report));
  put(relations, relationTable(about.relations, report, params));
}

function calibrated({ calibration, skipped }) {
  if (!calibration?.bins) return empty(Object.values(skipped ?? {})[0] ?? "There are no validation facts.");
  const error = calibration.ece.toFixed(3);
  return [reliability(calibration.bins, "Reliability diagram"), h("p", { class: "small" },
    `On the diagonal, a credence of 70 % is right 7 times out of 10. Expected calibration error ${error}.`)];
}

function results({ entity, relation: asked, classification, beliefs }) {
  const tile = (value, share, label) => h("div", { class: "tile" },
    h("strong", {}, value), bar(share, { kind: "thin", label: "" }), h("span", {}, label));
  const share = (value, label) => tile(percent(value), value, label);
  const rows = [];
  if (entity) {
    const { mrr, "hits@10": hits } = entity.filtered;
    rows.push(tile(mrr.toFixed(3), mrr, "mean reciprocal rank of entities"), share(hits, "right entity in the top 10"));
  }
  if (asked) rows.push(share(asked.filtered["hits@1"], "right relation first"));
  if (classification) rows.push(share(classification.accuracy, "true and false told apart"));
  return [h("div", { class: "tiles results" }, rows), h("p", { class: "small" },
    `On ${whole(beliefs)} validation facts, which also chose thresholds and calibration: a little too good.`)];
}

const isMeasured = (point) => point.metric !== undefined && point.metric !== null;

const curveNote = ({ curve: points }) => (points.some(isMeasured) ? "validation metric by epoch" : "loss by epoch");

function curve({ curve: points }) {
  const measured = points.filter(isMeasured), lost = points.filter((point) => point.loss !== undefined);
  const [what, rows] = measured.length > 1
    ? ["validation metric", measured.map((point) => [point.epoch, point.metric])]
    : ["loss", lost.map((point) => [point.epoch, point.loss])];
  if (rows.length < 2) return empty("The model keeps no learning curve.");
  const loss = (point) => point.loss?.toFixed(2) ?? "–";
  return [line(rows, { title: `Learning curve: ${what} by epoch`, across: "epoch", up: what }),
    h("p", { class: "small" }, `Loss ${loss(points[0])} at first, ${loss(points.at(-1))} at the end.`)];
}

const COLUMNS = [
  ["relation", "Relation", "ascending", (a, b) => a.relation.localeCompare(b.relation)],
  ["facts", "Facts", "descending", (a, b) => b.facts - a.facts],
  ["tested", "Tested", "descending", (a, b) => (b.tested ?? 0) - (a.tested ?? 0)],
  ["accuracy", "Accuracy", "ascending", (a, b) => (a.accuracy ?? 2) - (b.accuracy ?? 2)],
];

/** A table that scrolls, also by keyboard. */
const scrolled = (label, head, body) =>
  h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));

const numeric = (text) => h("td", { class: "number" }, text);

function relationTable(relations, report, params) {
  const rows = relations.map((row) => ({
    ...row,
    accuracy: report?.classification?.by_relation?.[row.relation] ?? null,
    tested: report?.beliefs_by_relation?.[row.relation] ?? null,
  }));
  const by = COLUMNS.find(([name]) => name === params.get("sort")) ?? COLUMNS[1];
  rows.sort(by[3]);
  const head = COLUMNS.map(([name, label, direction]) => {
    const href = link("model", { ...Object.fromEntries(params), sort: name }), sorted = by[0] === name;
    return h("th", { scope: "col", class: name, "aria-sort": sorted ? direction : null }, h("a", { href }, label));
  });
  return scrolled("Results by relation", head, rows.map(({ relation: name, facts, tested, accuracy }) => h("tr", {},
    h("th", { scope: "row" }, h("a", { href: link("ask", { relation: name }) }, relation(name))),
    numeric(whole(facts)), numeric(tested === null ? "–" : whole(tested)),
    h("td", {}, accuracy === null ? "–" : bar(accuracy, { kind: accuracy < 0.7 ? "against" : "" })))));
}

function versions(params, page) {
  const place = h("div", {});
  load(place, get("models"), ({ models }) => {
    const [a, b] = (params.get("compare") ?? "").split(",").map(Number);
    const changes = h("div", {});
    if (a && b) load(changes, get("models/compare", { a, b }), compared);
    const compare = models.length > 1 ? choice(models, a || models.at(-2).id, b || models.at(-1).id, params) : null;
    return [h("ul", { class: "versions" }, models.map((one) => version(one, page))), compare, changes];
  });
  return section("Versions", "", place);
}

/** Two versions to compare. */
function choice(models, from, to, params) {
  const option = (id, value) => h("option", { value: id, selected: id === value ? true : null }, `version ${id}`);
  const pick = (name, value) => h("label", { class: "select" }, h("span", { class: "hidden" }, name),
    h("select", { name }, models.map(({ id }) => option(id, value))));
  const compare = (event) => {
    event.preventDefault();
    const data = new FormData(event.target);
    go("model", { ...Object.fromEntries(params), compare: `${data.get("from")},${data.get("to")}` });
  };
  return h("form", { class: "compare", onsubmit: compare }, pick("from", from), " to ", pick("to", to),
    h("button", { type: "submit" }, "What changed"));
}

function version(one, page) {
  const figures = Object.entries(flatten(one.figures)).slice(0, 4).map(([name, value]) =>
    h("span", { class: "stat" }, h("strong", {}, Number(value).toPrecision(3)), ` ${name}`));
  const publish = async () => {
    try {
      await post(`models/${one.id}/publish`);
      toast(`Version ${one.id} is live.`);
      setTimeout(() => location.reload(), 600);
    } catch (fault) {
      toast(fault.message, { kind: "bad" });
    }
  };
  const may = page.me.role === "admin" && page.me.writable && one.state !== "live";
  return h("li", {}, h("strong", {}, `Version ${one.id}`), badge(one.state, one.state === "live" ? "good" : ""),
    one.created ? h("span", { class: "small" }, moment(one.created)) : null,
    one.reason ? h("span", { class: "small" }, one.reason) : null, h("span", { class: "stats" }, figures),
    may ? h("button", { type: "button", onclick: publish }, "Publish") : null);
}

const moment = (microseconds) =>
  new Date(microseconds / 1000).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });

/** The numbers of nested figures under names such as "entity mrr". */
function flatten(figures, prefix = "") {
  const rows = {};
  for (const [name, value] of Object.entries(figures ?? {})) {
    if (typeof value === "number") rows[`${prefix}${name}`] = value;
    else if (value && typeof value === "object" && !Array.isArray(value)) {
      Object.assign(rows, flatten(value, `${prefix}${name} `));
    }
  }
  return rows;
}

const VERDICTS = { accept: "good", add: "good", reject: "bad", retract: "bad" };

function compared({ a, b, decisions }) {
  const from = flatten(a.figures), to = flatten(b.figures);
  const names = [...new Set([...Object.keys(from), ...Object.keys(to)])].slice(0, 30);
  const shown = (value) => (value === undefined ? "–" : Number(value).toPrecision(3));
  const change = (name) => {
    if (!(name in from && name in to)) return "–";
    const difference = to[name] - from[name];
    return `${difference >= 0 ? "+" : "−"}${Math.abs(difference).toPrecision(2)}`;
  };
  const titles = ["Figure", `Version ${a.id}`, `Version ${b.id}`, "Change"];
  const head = titles.map((text) => h("th", { scope: "col" }, text));
  const rows = names.map((name) => h("tr", {}, h("th", { scope: "row" }, name),
    numeric(shown(from[name])), numeric(shown(to[name])), numeric(change(name))));
  return [
    rows.length ? scrolled("Figures of both versions", head, rows)
      : h("p", { class: "small" }, "These versions have no figures."),
    h("h3", {}, `${plural(decisions.length, "decision")} between them`),
    h("ul", { class: "log" }, decisions.slice(-50).reverse().map((one) => h("li", {},
      badge(one.verdict, VERDICTS[one.verdict] ?? ""),
      one.head ? belief(one.head, one.relation, one.tail) : null, h("small", {}, h("bdi", {}, one.curator))))),
  ];
}

const GOES_ON = ["running", "waiting"];
const STATES = { done: "good", failed: "bad", running: "warn" };

function jobs(page, streams) {
  const place = h("div", {}), list = h("ul", { class: "versions" }), isAdmin = page.me.role === "admin";
  const start = async (kind) => {
    try {
      list.prepend(job(await post("jobs", { kind }), isAdmin, streams));
    } catch (fault) {
      toast(fault.message, { kind: "bad" });
    }
  };
  const buttons = JOBS.map(([kind, text]) => h("button", { type: "button", onclick: () => start(kind) }, text));
  load(place, get("jobs"), ({ jobs: all }) => {
    put(list, all.slice(-8).reverse().map((one) => job(one, isAdmin, streams)));
    return [isAdmin ? h("p", { class: "actions" }, buttons) : null, list];
  });
  return section("Jobs", "run in the background, one after the other", place);
}

/** A job that is drawn again whenever it gets on. */
function job(first, isAdmin, streams) {
  const item = h("li", {});
  const cancel = () => post(`jobs/${first.id}/cancel`).then(draw, (fault) => toast(fault.message, { kind: "bad" }));
  function draw({ kind, state, progress, message }) {
    put(item, h("strong", {}, JOBS.find(([name]) => name === kind)?.[1] ?? kind), badge(state, STATES[state] ?? ""),
      state === "running" ? h("progress", { max: 1, value: progress ?? null, "aria-label": "Progress" }) : null,
      message ? h("span", { class: "small" }, message) : null,
      isAdmin && GOES_ON.includes(state) ? h("button", { type: "button", onclick: cancel }, "Cancel") : null);
  }
  draw(first);
  if (GOES_ON.includes(first.state)) {
    const stream = events(`jobs/${first.id}/events`);
    streams.push(stream);
    stream.addEventListener("progress", (event) => draw(JSON.parse(event.data)));
    stream.addEventListener("end", (event) => {
      stream.close();
      draw(JSON.parse(event.data));
    });
  }
  return item;
}

function settings(info) {
  const row = ([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))];
  const groups = Object.entries(info.settings).map(([group, values]) =>
    [h("h3", {}, group), h("dl", { class: "settings" }, Object.entries(values).map(row))]);
  return h("details", { class: "panel" }, h("summary", {}, h("h2", {}, "Settings")), groups);
}
