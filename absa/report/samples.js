// Samples of runs, to browse: the report and `absa view` share this. Data is hostile: it becomes
// text nodes, never markup. The page's policy (trusted types) makes the browser refuse everything else.

export const $ = (id) => document.getElementById(id);

// What the page knows about its runs, and `{ index(run), story(run, n) }`, where rows and stories come from.
let about = { runs: [], gate: {}, adopt: {}, outcomes: {}, gate_order: [] };
let source = null;

// Words of the page in another language, by the English ones.
export const words = {};
export const t = (text) => (Object.hasOwn(words, text) ? words[text] : text);
// A sentence with its {parts} filled in.
export const say = (text, values) => t(text).replace(/\{(\w+)\}/g, (_, key) => (Object.hasOwn(values, key) ? values[key] : "?"));
export const count = (value) => value.toLocaleString("en");

const SIGNS = { positive: "+", negative: "−", neutral: "○", mixed: "±" };
const SHORT = { positive: "pos", negative: "neg", neutral: "neu", mixed: "mix" };
const ROW = 96;
const SPARE = 6;

// ---- building elements -------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(node, child);
    else node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export const number = (value, digits = 3) => {
  const text = Number(value).toFixed(digits);
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, ".0") : text;
};
export const known = (word) => (Object.hasOwn(SIGNS, word) ? word : "other");
export const langOf = (code) => (/^[a-z]{2,3}$/.test(code || "") ? code : null);
export const plain = (code) => String(code).replaceAll("_", " ");
export const named = (names, code) => (Object.hasOwn(names, code) ? t(names[code]) : plain(code));

export function chip(polarity, ...more) {
  const kind = known(polarity);
  return h("span", { class: `chip ${kind}` },
    h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[kind] || "?"),
    h("span", { class: "long" }, kind === "other" ? polarity : t(polarity)),
    h("span", { class: "short" }, t(SHORT[kind] || polarity)), more);
}

export const quote = (text, lang) => h("q", { lang: langOf(lang) }, text);

// ---- data ----------------------------------------------------------------------------------

const indexes = new Map();

function indexOf(run) {
  if (!indexes.has(run)) indexes.set(run, source.index(run).then((rows) => rows.map(searchable)));
  return indexes.get(run);
}

function searchable(row, n) {
  row.n = n;
  row.find = [row.u, row.t || "", ...(row.f || []).map((pair) => pair[0])]
    .join("\n").normalize("NFC").toLowerCase();
  return row;
}

// ---- state ---------------------------------------------------------------------------------

const state = { run: 0, rows: [], shown: [], open: null, filters: {}, query: "" };

const TOGGLES = [
  ["changed", "Changed", (row) => row.ch, "Label or tuples differ from Stage 1"],
  ["fixed", "Fixed", (row) => row.o === "fix", "Tuples wrong in Stage 1, right in the end"],
  ["broke", "Broke", (row) => row.o === "break", "Tuples right in Stage 1, wrong in the end"],
  ["conflict", "Conflict", (row) => row.x, "Positive and negative in one text"],
  ["disputed", "Disputed", (row) => row.d, "The speakers gave one aspect both polarities"],
  ["failed", "Failed", (row) => row.e, "Could not be analyzed"],
];
const SELECTS = [
  ["gate", "Gate", (row) => row.g || [], (code) => named(about.gate, code), () => about.gate_order],
  ["adopt", "Adoption", (row) => (row.a ? [row.a] : []), (code) => named(about.adopt, code)],
  ["outcome", "Tuples against gold", (row) => (row.o ? [row.o] : []), (code) => named(about.outcomes, code)],
  ["label", "Label against gold", (row) => (row.lo ? [row.lo] : []), (code) => named(about.outcomes, code)],
  ["rule", "Moderator rule", (row) => row.r || [], (code) => code],
  ["topic", "What is judged", (row) => row.k || [], (code) => code],
  ["group", "Group", (row) => row.v || [], (code) => code],
  ["period", "Period", (row) => row.p || [], (code) => code],
  ["lang", "Language", (row) => (row.l ? [row.l] : []), (code) => code],
];

function passes(row) {
  const wanted = state.filters;
  return TOGGLES.every(([key, , test]) => !wanted[key] || test(row))
    && SELECTS.every(([key, , values]) => !wanted[key] || values(row).includes(wanted[key]))
    && state.query.every((word) => row.find.includes(word));
}

function readQuery() {
  state.query = $("search").value.normalize("NFC").toLowerCase().split(/\s+/).filter(Boolean);
}

function refilter() {
  readQuery();
  state.shown = state.rows.filter(passes);
  $("list").scrollTop = scrolled = 0;
  const size = state.rows.length;
  $("found").textContent = state.shown.length === size
    ? say("{n} samples", { n: count(size) })
    : say("{part} of {n} samples", { part: count(state.shown.length), n: count(size) });
  $("clear").hidden = !Object.keys(state.filters).length && !state.query.length;
  for (const button of $("toggles").children) {
    button.setAttribute("aria-pressed", String(Boolean(state.filters[button.dataset.key])));
  }
  let used = 0;
  for (const select of $("selects").querySelectorAll("select")) {
    if (select.dataset.key === "run") continue;
    select.value = state.filters[select.dataset.key] || "";
    used += Boolean(select.value);
  }
  $("more").firstElementChild.textContent = used ? say("More filters ({n} set)", { n: used }) : t("More filters");
  drawList(true);
}

function setFilter(key, value) {
  if (value) state.filters[key] = value;
  else delete state.filters[key];
  refilter();
  if (state.open === null) history.replaceState(null, "", listHash());
}

function listHash() {
  const wanted = new URLSearchParams(state.filters);
  if (state.run) wanted.set("run", state.run);
  const text = wanted.toString();
  return text ? `#/samples?${text}` : "#/samples";
}

function drawFilters() {
  $("toggles").replaceChildren(...TOGGLES.map(([key, name, test, title]) => {
    const found = state.rows.filter(test).length;
    return h("button", {
      type: "button", class: "toggle", "data-key": key, "aria-pressed": "false", title: t(title),
      disabled: !found,
      on: { click: () => setFilter(key, state.filters[key] ? "" : "1") },
    }, t(name), h("span", {}, count(found)));
  }));
  const selects = [];
  if (about.runs.length > 1) {
    selects.push(h("label", {}, t("Run"), h("select", {
      "data-key": "run", on: { change: (event) => { setRun(Number(event.target.value)); } },
    }, about.runs.map((run, n) => h("option", { value: n, selected: n === state.run }, run.name)))));
  }
  for (const [key, name, values, title, order] of SELECTS) {
    const counts = new Map();
    for (const row of state.rows) for (const v of values(row)) counts.set(v, (counts.get(v) || 0) + 1);
    if (!counts.size) continue;
    const place = (code) => (order && order().includes(code) ? order().indexOf(code) : 99);
    const codes = [...counts.keys()].sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
    selects.push(h("label", {}, t(name), h("select", {
      "data-key": key, on: { change: (event) => setFilter(key, event.target.value) },
    }, h("option", { value: "" }, t("any")),
    codes.map((code) => h("option", { value: code }, `${title(code)} (${count(counts.get(code))})`)))));
  }
  $("selects").replaceChildren(...selects);
}

let wantedRun = -1;

async function setRun(run, { keep = false } = {}) {
  if (!(run in about.runs)) run = 0;
  wantedRun = run;
  const rows = await indexOf(run);
  if (wantedRun !== run || state.rows === rows) return;
  state.run = run;
  state.rows = rows;
  drawFilters();
  refilter();
  if (!keep && state.open === null) history.replaceState(null, "", listHash());
}

// ---- the list: only the rows in sight are in the document ----------------------------------

export function badge(kind, text) {
  return h("span", { class: `badge ${kind}` }, text);
}

function drawRow(row, place) {
  const isOpen = state.open === row.n;
  const node = h("div", {
    class: isOpen ? "row open" : "row", role: "option", id: `row-${place}`,
    "aria-selected": String(isOpen), "aria-posinset": place + 1, "aria-setsize": state.shown.length,
    on: { click: () => go(place, true) },
  },
  h("div", { class: "row-head" },
    h("span", { class: "uid" }, row.u),
    about.runs[state.run].seeds > 1 && h("span", { class: "seed" }, say("seed {n}", { n: row.s })),
    row.b && chip(row.b)),
  h("div", { class: "row-text", lang: langOf(row.l) }, row.e ? t("could not be analyzed") : row.t),
  h("div", { class: "row-badges" },
    row.e && badge("bad", t("✕ failed")),
    row.o === "fix" && badge("good", t("✓ fixed")),
    row.o === "break" && badge("bad", t("✕ broke")),
    row.ch && badge("", t("Δ changed")),
    (row.f || []).length ? h("span", { class: "quiet" },
      row.f.map(([term, polarity]) => `${term} ${SIGNS[known(polarity)] || "?"}`).join(" · ")) : null));
  node.style.transform = `translateY(${place * ROW}px)`;
  return node;
}

let drawn = "";
// Where the list stands: on a phone it is out of the page while a sample is read.
let scrolled = 0;

function drawList(force = false) {
  const list = $("list");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - SPARE);
  const last = Math.min(state.shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + SPARE);
  const now = `${first}-${last}`;
  if (!force && now === drawn) return;
  drawn = now;
  const sizer = $("sizer");
  sizer.style.height = `${state.shown.length * ROW}px`;
  sizer.replaceChildren(...state.shown.slice(first, last).map((row, n) => drawRow(row, first + n)));
  if (!state.shown.length) sizer.replaceChildren(h("p", { class: "nothing" }, t("No sample is like this.")));
  const place = placeOf();
  if (place >= first && place < last) list.setAttribute("aria-activedescendant", `row-${place}`);
  else list.removeAttribute("aria-activedescendant");
}

const placeOf = () => state.shown.findIndex((row) => row.n === state.open);

function reveal(place) {
  const list = $("list");
  const top = place * ROW;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
}

function go(place, isStep) {
  const row = state.shown[Math.max(0, Math.min(state.shown.length - 1, place))];
  if (!row) return;
  const target = hashOf(state.run, row);
  // Stepping through samples would fill the history.
  if (isStep && state.open !== null) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
  route();
}

const step = (by) => go(placeOf() < 0 ? (by > 0 ? 0 : state.shown.length - 1) : placeOf() + by, true);

// ---- routes: #/ overview, #/samples?…, #uid, #uid/r1 (run), #uid/s3 (seed) -----------------

function hashOf(run, row) {
  const seeds = about.runs[run].seeds > 1;
  return `#${encodeURIComponent(row.u)}${run ? `/r${run}` : ""}${seeds ? `/s${row.s}` : ""}`;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

let turn = 0;

// "#/" is the first page, "#/name?…" another one, and what is no path is the id of a sample.
function pageOf(hash) {
  if (hash && !hash.startsWith("/")) return "samples";
  return hash.slice(1).split("?")[0] || "home";
}

async function route() {
  const mine = ++turn;
  const hash = location.hash.slice(1);
  const wasElsewhere = $("samples").hidden;
  const page = pageOf(hash);
  for (const part of document.querySelectorAll("[data-page]")) part.hidden = part.dataset.page !== page;
  for (const link of document.querySelectorAll("[data-to]")) {
    if (link.dataset.to === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  dispatchEvent(new CustomEvent("page", { detail: page }));
  if (page !== "samples") {
    close();
    return;
  }
  if (hash.startsWith("/")) {
    const wanted = new URLSearchParams(hash.split("?")[1] || "");
    const keys = [...TOGGLES, ...SELECTS].map(([key]) => key);
    const before = JSON.stringify(state.filters);
    state.filters = Object.fromEntries([...wanted].filter(([key]) => keys.includes(key)));
    if (wasElsewhere && wanted.size) $("search").value = "";
    close();
    await setRun(Number(wanted.get("run")) || 0, { keep: true });
    if (mine !== turn) return;
    if (SELECTS.some(([key]) => state.filters[key])) $("more").open = true;
    if (wasElsewhere || before !== JSON.stringify(state.filters)) refilter();
    else {
      $("list").scrollTop = scrolled;
      drawList(true);
    }
    return;
  }
  const [uid, ...rest] = hash.split("/").map(decode);
  const at = (letter) => rest.find((part) => new RegExp(`^${letter}\\d+$`).test(part));
  const seed = at("s") ? Number(at("s").slice(1)) : null;
  await setRun(at("r") ? Number(at("r").slice(1)) : 0, { keep: true });
  const row = state.rows.find((r) => r.u === uid && (seed === null || r.s === seed));
  if (mine !== turn) return;
  if (!row) {
    close();
    show(h("div", { class: "empty" }, h("h2", {}, t("No such sample")), h("p", {}, t("There is no such sample:"), " ", h("code", {}, uid))));
    $("panes").classList.add("reading");
    return;
  }
  const story = await source.story(state.run, row.n);
  if (mine !== turn) return;
  const alike = await others(row.u);
  if (mine !== turn) return;
  state.open = row.n;
  if (placeOf() >= 0) reveal(placeOf());
  drawList(true);
  const more = source.more ? await source.more(state.run, row, story) : [];
  if (mine !== turn) return;
  show(...drawStory(row, story, alike, more));
  $("panes").classList.add("reading");
  document.title = `${row.u} – ${title}`;
}

const title = document.title;

function close() {
  document.title = title;
  $("panes").classList.remove("reading");
  if (state.open !== null || !$("detail").firstChild) {
    state.open = null;
    drawList(true);
  }
  show(h("div", { class: "empty" },
    h("h2", {}, t("Pick a sample")),
    h("p", {}, t("Its text with aspects and evidence, the debate turn by turn, what the gate and the Moderator decided, and what it cost."))));
}

function show(...parts) {
  $("detail").replaceChildren(...parts);
  $("detail").scrollTop = 0;
  if (matchMedia("(max-width: 860px)").matches) scrollTo(0, 0);
}

async function others(uid) {
  const found = [];
  if (about.runs.length === 1 && about.runs[0].seeds < 2) return found;
  for (const [run] of about.runs.entries()) {
    if (source.isLarge && !indexes.has(run)) continue;
    for (const row of await indexOf(run)) if (row.u === uid) found.push([run, row]);
  }
  return found;
}

// ---- one sample ----------------------------------------------------------------------------

export function part(name, note, ...children) {
  return h("section", { class: "part" }, h("h3", {}, t(name), note && h("small", {}, note)), children);
}

function drawStory(row, story, alike, more) {
  const place = placeOf();
  const head = h("header", { class: "story-head" },
    h("button", { type: "button", class: "link back", on: { click: back } }, t("← All samples")),
    h("div", { class: "story-title" },
      h("h2", {}, row.u),
      h("span", { class: "steps" },
        h("button", { type: "button", title: t("Previous (k)"), "aria-label": t("Previous sample"), disabled: place <= 0, on: { click: () => step(-1) } }, "↑"),
        h("button", { type: "button", title: t("Next (j)"), "aria-label": t("Next sample"), disabled: place < 0 || place >= state.shown.length - 1, on: { click: () => step(1) } }, "↓"))),
    h("p", { class: "facts" },
      [row.l, story.domain, about.runs.length > 1 && about.runs[state.run].name,
        about.runs[state.run].seeds > 1 && say("seed {n}", { n: row.s })].filter(Boolean).join(" · ")));
  if (row.e) return [head, drawFailure(story)];
  return [head, ...more, ...drawParts(row, story, alike)];
}

// What there is to say about one text, part by part.
export function drawParts(row, story, alike = []) {
  return [
    h("div", { class: "verdict" },
      h("div", {}, h("span", { class: "quiet" }, t("Label")), chip(row.b), h("b", { class: "num" }, number(row.c))),
      row.o === "fix" && badge("good", t("✓ tuples fixed")),
      row.o === "break" && badge("bad", t("✕ tuples broken")),
      row.lo === "fix" && badge("good", t("✓ label fixed")),
      row.lo === "break" && badge("bad", t("✕ label broken")),
      row.ch && badge("", t("Δ changed"))),
    drawSentence(row, story),
    alike.length > 1 && drawAlike(row, alike),
    drawInShort(row, story),
    drawComparison(row, story),
    story.debate && drawDebate(story.debate, row.l),
    story.gate && drawGate(story.gate, row.l, story.steps || about.runs[state.run].steps),
    story.log && drawLog(story.log),
    story.moderator && drawModerator(story),
    drawRisks(story.risks || []),
    story.extras && drawExtras(story.extras),
    story.calls && drawCalls(story.calls),
  ].filter(Boolean);
}

// The server's sentences are English; in another language the same facts are put together here.
function inWords(row, story) {
  const changes = (story.rows || []).flatMap(({ term, stage1 = [], final = [] }) => {
    const [aspect, before, after] = [term ?? t("(not named)"), stage1.map(t).join(", "), final.map(t).join(", ")];
    if (before === after) return [];
    if (!before) return [say("{aspect} was added as {after}", { aspect, after })];
    if (!after) return [say("{aspect} was dropped", { aspect })];
    return [say("{aspect} changed from {before} to {after}", { aspect, before, after })];
  });
  const label = say("the label is {label}", { label: t(row.b) });
  const gate = (story.gate || []).map((record) => `${record.aspect}: ${named(about.gate, record.verdict)}`);
  const adoption = row.a ? [named(about.adopt, row.a)] : [];
  return [label, ...(changes.length ? changes : [t("nothing changed after Stage 1")]), ...gate, ...adoption];
}

const drawInShort = (row, story) => part("In short", null, h("ul", { class: "short-list" },
  (Object.keys(words).length ? inWords(row, story) : [story.adoption, ...(story.outcome || []), story.why])
    .map((text) => h("li", {}, sentence(text))),
  (story.violations || []).map((text) => h("li", {}, `${t("Discarded:")} ${text}`))));

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

function drawFailure(story) {
  return part("Why it failed", story.node && say("at {node}", { node: story.node }),
    h("p", { class: "failure" }, story.error),
    story.attempts && h("p", { class: "quiet" }, say("{n} attempts", { n: story.attempts })),
    story.raw && h("pre", {}, story.raw));
}

export function drawSentence(row, story) {
  const holder = h("p", { class: "sentence", lang: langOf(row.l) });
  const fillIn = (places) => holder.replaceChildren(...marked(row.t, places));
  fillIn(story.places || []);
  let choice = null;
  if (story.gold_places) {
    const options = [["Final", story.places || []], ["Gold", story.gold_places]];
    const buttons = options.map(([name, places], n) => h("button", {
      type: "button", "aria-pressed": String(n === 0),
      on: { click: (event) => {
        fillIn(places);
        for (const button of buttons) button.setAttribute("aria-pressed", String(button === event.currentTarget));
      } },
    }, t(name)));
    choice = h("div", { class: "segments", role: "group", "aria-label": t("Which result to mark") }, buttons);
  }
  return h("section", { class: "part sentence-part" }, holder,
    h("div", { class: "legend" },
      h("span", {}, h("mark", { class: "a neutral" }, t("boxed")), t(" aspect")),
      h("span", {}, h("mark", { class: "e neutral" }, t("underlined")), t(" evidence")),
      h("span", {}, t("+ positive")), h("span", {}, t("− negative")), h("span", {}, t("○ neutral")),
      h("span", {}, t("numbers: confidence, 0 to 1")), choice));
}

// Offsets count characters, not the halves that JavaScript's strings are made of.
export function marked(text, places) {
  const letters = Array.from(text);
  const ends = new Set([0, letters.length]);
  for (const [, , , start, end] of places) ends.add(start).add(end);
  const cuts = [...ends].filter((n) => n >= 0 && n <= letters.length).sort((a, b) => a - b);
  const parts = [];
  for (let n = 0; n + 1 < cuts.length; n++) {
    const piece = letters.slice(cuts[n], cuts[n + 1]).join("");
    const over = places.filter(([, , , start, end]) => start <= cuts[n] && end >= cuts[n + 1]);
    if (!over.length) {
      parts.push(piece);
      continue;
    }
    const aspects = over.filter((place) => place[1] === "a");
    const polarities = new Set((aspects.length ? aspects : over).map((place) => place[2]));
    const kind = polarities.size > 1 ? "mixed" : known([...polarities][0]);
    const isAspect = aspects.length > 0;
    const isEvidence = over.length > aspects.length;
    const names = over.map(([row, what, polarity]) => `${t(what === "a" ? "aspect" : "evidence")} ${row}, ${t(polarity)}`);
    parts.push(h("mark", { class: `${isAspect ? "a " : ""}${isEvidence ? "e " : ""}${kind}`, title: names.join("; ") }, piece,
      over.filter((place) => place[4] === cuts[n + 1]).map(([row, what, polarity]) =>
        h("sup", { class: known(polarity) }, `${row}${what === "a" ? SIGNS[known(polarity)] || "?" : ""}`))));
  }
  return parts;
}

function drawAlike(row, alike) {
  return part("The same text elsewhere", say("{n} records", { n: alike.length }), h("div", { class: "scroll" }, h("table", { class: "side" },
    h("thead", {}, h("tr", {}, ["Run", "Label", "Final tuples"].map((name) => h("th", { scope: "col" }, t(name))))),
    h("tbody", {}, alike.map(([run, other]) => {
      const isThis = run === state.run && other.n === row.n;
      const name = about.runs[run].name + (about.runs[run].seeds > 1 ? `, ${say("seed {n}", { n: other.s })}` : "");
      return h("tr", { class: isThis && "here" },
        h("th", { scope: "row" }, isThis ? `${name} ${t("(shown)")}` : h("a", { href: hashOf(run, other) }, name)),
        h("td", {}, other.e ? t("failed") : chip(other.b)),
        h("td", {}, pairs(other.f || [])));
    })))));
}

export const pairs = (found) => (found.length
  ? h("span", { class: "pairs" }, found.map(([term, polarity]) => h("span", { class: "pair" }, term, " ", chip(polarity))))
  : h("span", { class: "quiet" }, t("none")));

function drawComparison(row, story) {
  const decides = story.gold && story.gold.decides;
  const cell = (found, gold) => h("td", {}, (found || []).length
    ? found.map((polarity) => chip(polarity, gold && tick(gold.includes(polarity))))
    : h("span", { class: "quiet" }, "–"));
  const tick = (isRight) => h("span", { class: isRight ? "tick" : "cross", title: isRight ? t("as in the gold") : t("not in the gold") }, isRight ? " ✓" : " ✕");
  const label = story.gold && story.gold.label;
  const labelled = (word, sure) => h("td", {}, word
    ? [chip(word, label && tick(word === label)), sure !== undefined && h("small", { class: "num" }, number(sure))]
    : h("span", { class: "quiet" }, "–"));
  const rows = (story.rows || []).map((found) => h("tr", {},
    h("th", { scope: "row", lang: langOf(row.l) }, found.term ?? t("(not named)"), found.note && h("small", {}, found.note)),
    story.gold && h("td", {}, (found.gold || []).length ? found.gold.map((polarity) => chip(polarity)) : h("span", { class: "quiet" }, "–")),
    cell(found.stage1, decides && (found.gold || [])),
    cell(found.final, decides && (found.gold || []))));
  const table = h("table", { class: "compare" },
    h("thead", {}, h("tr", {}, ["Aspect", story.gold && "Gold", "Stage 1", "Final"].filter(Boolean).map((name) => h("th", { scope: "col" }, t(name))))),
    h("tbody", {}, rows,
      h("tr", { class: "whole" }, h("th", { scope: "row" }, t("Sentence")),
        story.gold && h("td", {}, label ? chip(label) : h("span", { class: "quiet" }, t("no gold"))),
        labelled(story.stage1.label, story.stage1.confidence), labelled(row.b, row.c))));
  const aspects = (story.aspects || []).map((aspect) => h("li", {},
    h("span", { lang: langOf(row.l), class: "term" }, aspect.term), " ", chip(aspect.polarity),
    h("span", { class: "num" }, number(aspect.confidence)),
    aspect.evidence ? [" ", quote(aspect.evidence, row.l), !aspect.grounded && badge("bad", t("✕ not in the text"))] : h("span", { class: "quiet" }, t(" no evidence")),
    aspect.implicit && badge("", t("implicit")),
    h("span", { class: "quiet" }, say(" from {origin}", { origin: aspect.origin }))));
  return part(story.gold ? "Gold, Stage 1, final" : "Stage 1 and final", null, h("div", { class: "scroll" }, table),
    aspects.length ? h("ol", { class: "aspects" }, aspects) : h("p", { class: "quiet" }, t("The final result has no aspect.")));
}

const SAYS = {
  confirm_tuple: (edit) => ["confirms ", edit.aspect],
  set_polarity: (edit) => ["sets ", edit.aspect],
  drop_tuple: (edit) => ["drops ", edit.aspect],
  set_aspect_ref: (edit) => ["renames ", edit.aspect],
  merge_tuples: (edit) => ["merges ", edit.aspect],
};

function drawEdit(edit, lang) {
  const says = Object.hasOwn(SAYS, edit.op) ? SAYS[edit.op](edit) : [`${plain(edit.op)} `, edit.aspect];
  const target = edit.op === "set_polarity" ? edit.value : edit.polarity;
  const isName = edit.op === "set_aspect_ref" || edit.op === "merge_tuples";
  return h("li", {}, t(says[0]), h("strong", { lang: langOf(lang) }, says[1] ?? t("(no aspect)")),
    isName && edit.value && [t(" to "), h("strong", {}, edit.value)],
    !isName && target && [t(edit.op === "set_polarity" ? " to " : " as "), chip(target)],
    edit.evidence && [" ", quote(edit.evidence, lang)],
    edit.confidence !== undefined && h("span", { class: "num quiet" }, ` ${number(edit.confidence)}`));
}

function drawTurn(key, name, role, ...content) {
  return h("li", { class: "turn" },
    h("span", { class: "avatar", "aria-hidden": "true" }, (name || key).slice(0, 2).toUpperCase()),
    h("div", {}, h("p", { class: "speaker" }, h("b", {}, name || key), role && h("span", { class: "quiet" }, ` ${t(role)}`)), content));
}

const spoken = (said, keys) => keys.filter((key) => said[key]).map((key) =>
  h("p", { class: "spoken" }, h("span", { class: "quiet" }, `${t(plain(key))}: `), said[key]));

const drawEdits = (edits, lang) => ((edits || []).length
  ? h("ul", { class: "edits" }, edits.map((edit) => drawEdit(edit, lang))) : null);

// One turn of the debate.
export function drawSpeech(turn, personas, lang) {
  const [name, role] = Object.hasOwn(personas, turn.speaker) ? personas[turn.speaker] : [turn.speaker, ""];
  const prose = spoken(turn, ["stance", "message", "key_points", "planning", "reflection"]);
  return drawTurn(turn.speaker, name, role, prose,
    drawEdits(turn.edits, lang) || (!prose.length && h("p", { class: "quiet" }, t("proposes nothing"))));
}

function drawDebate(debate, lang) {
  const rounds = debate.rounds.map((turns, n) => [
    debate.rounds.length > 1 && h("h4", {}, say("Round {n}", { n: n + 1 })),
    h("ol", { class: "turns" }, turns.map((turn) => drawSpeech(turn, debate.personas, lang)))]);
  return part("The debate", say("{n} turns and the judge", { n: debate.rounds.flat().length }), rounds,
    h("ol", { class: "turns" }, drawJudge(debate.judge, lang)),
    drawContext(debate.context, lang));
}

// The offline judge's rationale repeats its tuples and its label in English.
function rationale({ tuples, polarity, rationale: text }) {
  const listed = (tuples || []).slice(0, 10);
  const inWords = (none, word) => listed.map(([term, polarity_]) => `${term} ${word(polarity_)}`).join(", ") || none;
  return text === `${inWords("no aspect", String)}; as a whole ${polarity}`
    ? say("{aspects}; as a whole {label}", { aspects: inWords(t("no aspect"), t), label: t(polarity) }) : text;
}

export const drawJudge = (judge, lang) => drawTurn("judge", t("Judge"), "decides",
  drawEdits(judge.patch, lang),
  (judge.tuples || judge.patch) && h("p", {}, h("span", { class: "quiet" }, t("tuples ")), pairs(judge.tuples || [])),
  judge.polarity && h("p", {}, h("span", { class: "quiet" }, t("sentence ")), chip(judge.polarity),
    (judge.spans || []).map((span) => [" ", quote(span, lang)])),
  spoken({ ...judge, rationale: rationale(judge) }, ["winner", "consensus", "key_agreements", "key_disagreements", "rationale"]),
  (judge.unresolved || []).length ? h("p", { class: "spoken" }, h("span", { class: "quiet" }, t("unresolved: ")), judge.unresolved.join("; ")) : null);

const drawHint = ({ speaker, op, weight, polarity_hint: polarity }) =>
  h("li", {}, h("b", {}, speaker), ` ${t(plain(op))} `, polarity ? chip(polarity) : "", h("span", { class: "num quiet" }, ` ${t("weight")} ${number(weight)}`));

function drawContext({ hints, points }, lang) {
  if (!hints.length && !points.length) return null;
  return h("details", { class: "context" }, h("summary", {}, t("What the reviewers saw of the debate")),
    hints.map(([aspect, ofAspect]) => [h("p", {}, h("strong", { lang: langOf(lang) }, aspect)), h("ul", { class: "hints" }, ofAspect.map(drawHint))]),
    points.length ? h("ul", { class: "hints" }, points.map((point) => [
      drawHint({ ...point, op: point.stance }), point.key_points.map((line) => h("li", { class: "spoken" }, line))])) : null);
}

function meter(name, value, limit) {
  const most = Math.max(value, limit, 0.1) * 1.15;
  const width = (x) => `${(100 * x) / most}%`;
  const reached = value >= limit - 1e-9;
  return h("div", { class: `meter ${reached ? "reached" : "short-of"}` },
    h("span", {}, name), h("b", { class: "num" }, number(value)),
    h("span", { class: "quiet num" }, `${reached ? "≥" : "<"} ${number(limit)}`),
    s("svg", { "aria-hidden": "true" },
      s("rect", { class: "track", width: "100%", y: 4, height: 8, rx: 4 }),
      s("rect", { class: "value", width: width(value), y: 4, height: 8, rx: 4 }),
      s("line", { class: "limit", x1: width(limit), x2: width(limit), y1: 0, y2: 16 })));
}

function drawConditions(record, steps) {
  const numbers = { ...record.thresholds, total: record.total, margin: record.margin, drop: record.drop_score };
  const same = steps.map(([code], n) => [code, n]).filter(([code]) => code === record.verdict).map(([, n]) => n);
  const decided = record.early ? same[0] : same[same.length - 1];
  return h("ol", { class: "conditions" }, steps.map(([code, text], n) => {
    const words = t(text).replace(/\{(\w+)\}/g, (_, key) => (Object.hasOwn(numbers, key) ? number(numbers[key]) : "?"));
    if (n < decided) return h("li", { class: "passed" }, h("span", { class: "at" }, "✓"), words, h("code", {}, code));
    if (n === decided) return h("li", { class: "decided" }, h("span", { class: "at" }, record.applied ? "●" : record.verdict === "confirm" ? "○" : "■"), h("b", {}, reason(record)), h("code", {}, code));
    return h("li", { class: "unasked" }, h("span", { class: "at" }, "–"), t("not asked"), h("code", {}, code));
  }));
}

// The reason with its numbers; in another language the name of the verdict.
const reason = (record) => (Object.keys(words).length ? named(about.gate, record.verdict) : record.why);

export function drawGate(records, lang, steps) {
  return part("The override gate", say(records.length === 1 ? "{n} aspect judged" : "{n} aspects judged", { n: records.length }), records.map((record) =>
    h("div", { class: record.applied ? "judged applied" : "judged" },
      h("p", { class: "judged-head" }, h("strong", { lang: langOf(lang) }, record.aspect),
        record.target && [h("span", { class: "quiet" }, t(" the debate wants ")), chip(record.target)],
        badge(record.applied ? "accent" : "", named(about.gate, record.verdict))),
      h("p", {}, sentence(reason(record))),
      h("div", { class: "meters" },
        meter(t("Total"), record.total, record.thresholds.min_total ?? 0),
        meter(t("Margin"), record.margin, record.thresholds.min_margin ?? 0)),
      h("p", { class: "quiet num" },
        `${t("positive")} ${number(record.pos_score)} · ${t("negative")} ${number(record.neg_score)}`,
        record.drop_score > 0 && ` · ${t("drop")} ${number(record.drop_score)}`,
        record.evidence && [` · ${t("evidence")} `, quote(record.evidence, lang), record.sentence_evidence && " (the sentence's)"]),
      h("details", { open: records.length < 3 }, h("summary", {}, t("Conditions, in order")), drawConditions(record, steps)),
      (record.hints || []).length ? h("details", {}, h("summary", {}, say("{n} hints from the debate", { n: record.hints.length })),
        h("ul", { class: "hints" }, record.hints.map(drawHint))) : null)));
}

function drawLog(log) {
  return part("Corrections", say("{n} applied, {refused} refused", { n: log.filter((entry) => entry.applied).length, refused: log.filter((entry) => !entry.applied).length }),
    h("ul", { class: "log" }, log.map((entry) => h("li", { class: entry.applied ? "applied" : "refused" },
      h("span", { class: "at", "aria-hidden": "true" }, entry.applied ? "✓" : "✕"),
      h("div", {}, h("p", {}, h("span", { class: "sr" }, entry.applied ? t("Applied: ") : t("Refused: ")), entry.aspect && [h("strong", {}, entry.aspect), ": "], entry.text),
        h("p", { class: "quiet" }, [entry.source, entry.proposal_type, entry.provenance].filter(Boolean).join(" · ")))))));
}

function drawModerator(story) {
  const decision = story.moderator;
  return part("The Moderator", t(decision.stage === "stage2" ? "takes Stage 2" : "takes Stage 1"),
    (decision.rules || []).length
      ? h("ol", { class: "rules" }, decision.rules.map(([rule, what, said]) => h("li", {}, h("code", {}, rule), h("div", {}, h("p", {}, t(what)), said && h("p", { class: "quiet" }, said)))))
      : h("p", {}, t("No rule acted: Stage 1's label stands.")),
    decision.guard && h("p", {}, t("Drop guard: Stage 2 was less confident by 0.2 or more, so Stage 1 is kept.")),
    decision.block && h("p", { class: "quiet" }, `${t("RuleE did not act:")} ${t(decision.block)}.`),
    story.ev && h("p", { class: "quiet num" }, say("Evidence value {score}, threshold {limit}: ", { score: number(story.ev.score), limit: number(story.ev.threshold) }),
      Object.entries(story.ev.components).map(([name, value]) => `${t(plain(name))} ${number(value)}`).join(", ")));
}

function drawRisks([before, after]) {
  if (!(before || []).length && !(after || []).length) return null;
  const list = (found) => (found.length ? h("ul", {}, found.map((issue) => h("li", {}, plain(issue.toLowerCase())))) : h("p", { class: "quiet" }, t("none")));
  return part("Risks the Validator saw", null, h("div", { class: "two" },
    h("div", {}, h("h4", {}, t("Stage 1")), list(before || [])),
    h("div", {}, h("h4", {}, t("Stage 2")), after ? list(after) : h("p", { class: "quiet" }, t("not asked")))));
}

function drawExtras(extras) {
  return part("More", null, Object.entries(extras).map(([name, value]) =>
    h("details", { open: JSON.stringify(value).length < 1500 }, h("summary", {}, t(plain(name))), h("pre", {}, JSON.stringify(value, null, 1)))));
}

function drawCalls(calls) {
  const total = calls.reduce((sum, call) => sum + call.latency_ms, 0);
  return part("Calls", say("{n} calls, {ms} ms", { n: calls.length, ms: total.toLocaleString("en", { maximumFractionDigits: 1 }) }), h("div", { class: "scroll" }, h("table", { class: "counts calls" },
    h("thead", {}, h("tr", {}, ["Node", "Model", "ms", "Tokens in", "out", "Attempts"].map((name) => h("th", { scope: "col" }, t(name))))),
    h("tbody", {}, calls.map((call) => [h("tr", {},
      h("th", { scope: "row" }, call.node, call.turn > 0 && h("small", {}, say("turn {n}", { n: call.turn })), call.error && badge("bad", t("✕ error"))),
      h("td", {}, call.model || call.backend, call.cached && h("small", {}, t("cached"))),
      h("td", {}, call.latency_ms.toLocaleString("en", { minimumFractionDigits: 1 })), h("td", {}, call.usage?.prompt_tokens ?? "–"), h("td", {}, call.usage?.completion_tokens ?? "–"), h("td", {}, call.attempts)),
    (call.answer || call.notes || call.error) && h("tr", { class: "answer" }, h("td", { colspan: 6 },
      call.error && h("p", { class: "failure" }, call.error),
      (call.notes || []).map((note) => h("p", { class: "quiet" }, note)),
      call.answer && h("details", {}, h("summary", {}, t("answer")), h("pre", {}, JSON.stringify(call.answer, null, 1)))))])))));
}

// ---- events --------------------------------------------------------------------------------

function back() {
  history.pushState(null, "", listHash());
  route();
  $("list").focus({ preventScroll: true });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = event.target;
  const isTyping = target.matches("input, select, textarea");
  if (isTyping) {
    if (event.key === "Escape") {
      if (target.id === "search" && target.value) {
        target.value = "";
        refilter();
      } else target.blur();
      event.preventDefault();
    } else if (target.id === "search" && (event.key === "ArrowDown" || event.key === "Enter")) {
      $("list").focus();
      if (state.open === null || placeOf() < 0) go(0, true);
      event.preventDefault();
    }
    return;
  }
  if (event.key === "/") {
    if ($("samples").hidden) {
      history.pushState(null, "", listHash());
      route();
    }
    if (matchMedia("(max-width: 860px)").matches && state.open !== null) back();
    $("search").focus();
    $("search").select();
    event.preventDefault();
    return;
  }
  if ($("samples").hidden) return;
  const inList = target === $("list") || target === document.body;
  const page = Math.max(1, Math.floor($("list").clientHeight / ROW) - 1);
  const moves = { j: 1, k: -1, ...(inList ? { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page } : {}) };
  if (Object.hasOwn(moves, event.key)) step(moves[event.key]);
  else if (inList && event.key === "Home") go(0, true);
  else if (inList && event.key === "End") go(state.shown.length - 1, true);
  else if (event.key === "Enter" && target === $("list") && state.open !== null) $("detail").focus();
  else if (event.key === "Escape" && (state.open !== null || $("panes").classList.contains("reading"))) back();
  else return;
  event.preventDefault();
}

// Rows that a run has got since it was indexed.
export async function addRows(run, rows) {
  const known = await indexOf(run);
  known.push(...rows.map((row, n) => searchable(row, known.length + n)));
  if (state.run !== run || state.rows !== known) return;
  const top = $("list").scrollTop;
  drawFilters();
  refilter();
  $("list").scrollTop = scrolled = top;
  drawList(true);
}

export const rowsOf = indexOf;

// Start the page: `given` is what it knows of its runs, `from` is where their samples come from.
export async function browse(given, from) {
  about = given;
  source = from;
  $("list").addEventListener("scroll", () => {
    if ($("list").clientHeight) scrolled = $("list").scrollTop;
    requestAnimationFrame(() => drawList());
  }, { passive: true });
  addEventListener("resize", () => drawList(true));
  let wait = 0;
  $("search").addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(refilter, 80);
  });
  $("clear").addEventListener("click", () => {
    state.filters = {};
    $("search").value = "";
    refilter();
    if (state.open === null) history.replaceState(null, "", listHash());
    $("search").focus();
  });
  $("skip").addEventListener("click", (event) => {
    event.preventDefault();
    ($("samples").hidden ? document.querySelector("[data-page]:not([hidden])") : $("list")).focus();
  });
  addEventListener("keydown", onKey);
  addEventListener("hashchange", route);
  await route();
}
