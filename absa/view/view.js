// The page of `absa view`. Everything the server sends is data: it becomes text, never markup.
import { $, addRows, badge, browse, chip, count, drawJudge, drawParts, drawSpeech, h, langOf, marked, number, pairs, part, plain, rowsOf, say, t, words } from "./samples.js";
import { Drawing, markDifferences } from "./graph.js";

const EXAMPLES = [
  "사용감은 좋지만 가격은 비싸요.",
  "음식은 맛있는데 직원이 불친절하고 주차도 힘들어요.",
  "The battery is great but the screen is terrible.",
  "Not the worst pizza, but I would not call the service friendly.",
];
const PROTOCOLS = { debate: "Debate", conflict_review: "Conflict review", selective: "Selective", single: "Single call", vote: "Vote" };
const FORMS = { patch: "edits (patch)", persona: "arguments (persona)" };
// Text sooner than this is too quick to watch.
const QUICK_MS = 1500;

// ---- asking the server -----------------------------------------------------------------------

function askForToken() {
  const dialog = $("token");
  return new Promise((go) => {
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("token", $("token-text").value.trim());
      go();
    }, { once: true });
    if (!dialog.open) dialog.showModal();
  });
}

async function ask(path, body) {
  const token = sessionStorage.getItem("token");
  const answer = await fetch(`api/${path}`, {
    method: body ? "POST" : "GET",
    headers: { ...(body && { "Content-Type": "application/json" }), ...(token && { Authorization: `Bearer ${token}` }) },
    body: body && JSON.stringify(body),
  });
  if (answer.status === 401) {
    await askForToken();
    return ask(path, body);
  }
  if (!answer.ok) {
    const reason = await answer.json().catch(() => ({ detail: answer.statusText }));
    throw new Error(reason.detail);
  }
  return answer;
}

async function read(answer) {
  const value = await answer.json();
  if (value.problem) throw new Error(value.problem);
  return value;
}

const get = async (path) => read(await ask(path));
const post = async (path, body) => read(await ask(path, body));

async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const line of parts) yield JSON.parse(line);
  }
}

// ---- language ----------------------------------------------------------------------------------

const language = localStorage.getItem("language") || (navigator.language.startsWith("ko") ? "ko" : "en");

async function speak() {
  document.documentElement.lang = language;
  for (const button of document.querySelectorAll("[data-lang]")) {
    button.setAttribute("aria-pressed", String(button.dataset.lang === language));
    button.addEventListener("click", () => {
      localStorage.setItem("language", button.dataset.lang);
      location.reload();
    });
  }
  if (language !== "ko") return;
  Object.assign(words, (await import("./korean.js")).default);
  // Only the page's own words stand in it now; none of a review's.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    if (text) walker.currentNode.data = walker.currentNode.data.replace(text, t(text));
  }
  for (const node of document.querySelectorAll("[placeholder], [aria-label], [title]")) {
    for (const name of ["placeholder", "aria-label", "title"]) if (node.hasAttribute(name)) node.setAttribute(name, t(node.getAttribute(name)));
  }
}

// ---- what is chosen ----------------------------------------------------------------------------

let about = null;
// The values of the server's settings, and those of the form.
let built = {};
let shown = {};
// The text at hand: what the server calls it, its story, its path and the values it was analyzed with.
let live = null;

// These follow from another control unless they are set by hand.
const FOLLOW = {
  override_profile: ["min_total", "min_margin", "min_target_conf", "ev_threshold", "l3_conservative"],
  debate_protocol: ["rounds"],
};

const base = () => (live ? live.values : built);
const isChanged = (name) => JSON.stringify(shown[name]) !== JSON.stringify(base()[name]);

// What the form says beyond some values.
function choiceOver(values) {
  const differing = about.controls.map(({ name }) => name).filter((name) => JSON.stringify(shown[name]) !== JSON.stringify(values[name]));
  return {
    protocol: shown.protocol === values.protocol ? null : shown.protocol,
    backend: shown.backend,
    context: Object.fromEntries(differing.map((name) => [name, shown[name]])),
  };
}

function setChoice(name, value) {
  const followers = (FOLLOW[name] || []).map((follower) => [follower, base()[follower]]);
  shown = { ...shown, ...Object.fromEntries(followers), [name]: value };
  drawControls();
  decideSoon();
}

function setValues(values) {
  shown = { ...values, backend: shown.backend };
  drawControls();
}

let wait = 0;
function decideSoon() {
  clearTimeout(wait);
  wait = setTimeout(live ? whatIf : redraw, 80);
}

let turn = 0;

async function redraw() {
  const mine = ++turn;
  try {
    const { drawing, values } = await post("graph", { choice: choiceOver(built) });
    if (mine !== turn) return;
    setValues(values);
    showDrawings([["", new Drawing(drawing)]]);
    tell("");
  } catch (error) {
    if (mine === turn) tell(error.message);
  }
}

function tell(text, kind = "bad") {
  $("notice").textContent = text;
  $("notice").className = `notice ${kind}`;
  $("notice").hidden = !text;
}

function select(name, title, options, value, titles = {}) {
  return h("label", { class: isChanged(name) ? "choice changed" : "choice" }, h("span", {}, t(title)),
    h("select", { "data-name": name, on: { change: (event) => setChoice(name, event.target.value) } },
      options.map((option) => h("option", { value: option, selected: option === value }, t(titles[option] || option)))));
}

function toggle(control) {
  return h("button", {
    type: "button", class: isChanged(control.name) ? "switch changed" : "switch", role: "switch", "data-name": control.name,
    "aria-checked": String(Boolean(shown[control.name])), title: t(control.about),
    on: { click: () => setChoice(control.name, !shown[control.name]) },
  }, h("span", { class: "knob", "aria-hidden": "true" }), t(control.title));
}

function slider(control) {
  const value = shown[control.name];
  const isWhole = control.kind === "whole";
  const most = control.max ?? (isWhole ? 5 : 4);
  const label = h("b", { class: "num" }, number(value, isWhole ? 0 : 2));
  return h("label", { class: isChanged(control.name) ? "slide changed" : "slide", title: t(control.about) },
    h("span", {}, t(control.title), label),
    h("input", {
      type: "range", min: control.min ?? 0, max: most, step: isWhole ? 1 : 0.05, value, "data-name": control.name,
      on: { input: (event) => { label.textContent = number(event.target.value, isWhole ? 0 : 2); },
        change: (event) => setChoice(control.name, Number(event.target.value)) },
    }));
}

function several(control) {
  const chosen = shown[control.name];
  return h("div", { class: isChanged(control.name) ? "several changed" : "several", role: "group", "aria-label": t(control.title), title: t(control.about) },
    h("span", {}, t(control.title)),
    control.options.map((option) => h("button", {
      type: "button", class: "toggle", "aria-pressed": String(chosen.includes(option)),
      on: { click: () => setChoice(control.name, control.options.filter((o) => (o === option) !== chosen.includes(o))) },
    }, option)));
}

let areNumbersOpen = false;

function drawControls() {
  const focus = document.activeElement?.dataset?.name;
  const isDebate = shown.protocol === "debate";
  const of = (...kinds) => about.controls.filter(({ kind }) => kinds.includes(kind));
  const switches = of("switch").filter(({ name }) => name.startsWith("enable_"));
  const numbers = about.controls.filter((control) => !switches.includes(control) && control.name !== "debate_protocol");
  const backends = about.backend.kind === "offline" ? [] : ["configured", "offline"];
  const draw = { switch: toggle, number: slider, whole: slider, several, one: (c) => select(c.name, c.title, c.options, shown[c.name]) };
  $("controls").replaceChildren(
    h("div", { class: "row-of-parts" },
      select("protocol", "Protocol", about.protocols, shown.protocol, PROTOCOLS),
      isDebate && select("debate_protocol", "Debate form", Object.keys(FORMS), shown.debate_protocol, FORMS),
      backends.length ? select("backend", "Answers from", backends, shown.backend, { configured: about.backend.model || about.backend.kind, offline: "the offline analyzer" }) : "",
      isDebate ? switches.map(toggle) : "",
      isDebate ? h("details", { class: "numbers", open: areNumbersOpen, on: { toggle: (event) => { areNumbersOpen = event.target.open; } } },
        h("summary", {}, t("Thresholds and rules")),
        h("div", { class: "number-grid" }, numbers.map((control) => draw[control.kind](control)))) : ""));
  if (focus) $("controls").querySelector(`[data-name="${focus}"]`)?.focus();
}

// ---- the drawings and the story ----------------------------------------------------------------

function showDrawings(drawings) {
  $("stage").classList.toggle("two", drawings.length > 1);
  $("drawings").replaceChildren(...drawings.map(([title, drawing, note]) => h("figure", { class: "card drawing-card" },
    (title || note) && h("figcaption", {}, h("b", {}, title), note && h("span", { class: "quiet" }, note)),
    h("div", { class: "drawing-box", tabindex: 0, role: "group", "aria-label": t("The graph") }, drawing.svg))));
}

function invite() {
  $("telling").replaceChildren(h("section", { class: "part invitation" },
    h("h2", {}, t("Watch the agents at work")),
    h("ol", {}, ["Type a sentence. Each agent lights up in the graph as its answer arrives.",
      "Read the debate, the evidence and what the gate decided.",
      "Then switch a part off or move a threshold: the same answers are decided again at once, without a model."].map((line) => h("li", {}, t(line))))));
}

let watched = [];

async function analyze(text) {
  const mine = ++turn;
  clearTimeout(wait);
  const chosen = choiceOver(built);
  live = null;
  watched = [];
  $("what-if").hidden = true;
  $("go").disabled = true;
  document.documentElement.dataset.state = "busy";
  tell("");
  let drawing = null;
  const holder = h("p", { class: "sentence" }, text);
  const turns = h("ol", { class: "turns" });
  const now = h("p", { class: "quiet now", "aria-live": "polite" });
  const debate = part("The debate", null, turns);
  debate.hidden = true;
  $("telling").replaceChildren(h("section", { class: "part sentence-part" }, holder, now), debate);
  try {
    const answer = await ask("analyze", { text, choice: chosen });
    if (answer.headers.get("Content-Type") === "application/json") await read(answer);
    for await (const event of lines(answer)) {
      if (mine !== turn) return;
      watched.push(event);
      if (event.event === "graph") {
        drawing = new Drawing(event.drawing);
        setValues(event.values);
        showDrawings([["", drawing]]);
      } else if (event.event === "begin") {
        drawing.begin(event.node);
        now.textContent = say("{node} is at work", { node: plain(event.node) });
      } else if (event.event === "end") {
        drawing.end(event.node);
        if (event.marks) holder.replaceChildren(...marked(text, event.marks));
        for (const speech of event.turns || []) turns.append(drawSpeech(speech, {}, null));
        if (event.judge) turns.append(drawJudge(event.judge, null));
        debate.hidden = !turns.children.length;
      } else if (event.event === "failed") {
        drawing.fail(event.node);
        tell(event.reason);
        now.textContent = "";
      } else if (event.event === "output") {
        drawing.finish();
        const path = watched.filter(({ event: kind }) => kind === "begin").map(({ node }) => node);
        adopt({ ...event, values: watched[0].values, path, drawing: watched[0].drawing }, drawing);
        if (event.at < QUICK_MS && !matchMedia("(prefers-reduced-motion: reduce)").matches) drawing.glow(path, 45);
      }
    }
  } catch (error) {
    if (mine === turn) tell(error.message);
  } finally {
    $("go").disabled = false;
    document.documentElement.dataset.state = "ready";
  }
}

// The text at hand, with its drawing.
function adopt(event, drawing) {
  live = event;
  $("text").value = event.row.t;
  setValues(event.values);
  const again = h("button", { type: "button", class: "link", on: { click: () => watchAgain(drawing) } }, t("▶ Watch again"));
  showDrawings([["", drawing, again]]);
  showStory(event, event.at);
}

function showStory({ row, story }, ms) {
  const calls = (story.calls || []).length;
  const note = ms === undefined ? "" : say("{n} answers in {ms} ms", { n: calls, ms: count(Math.round(ms)) });
  $("telling").replaceChildren(h("p", { class: "facts" }, note), ...drawParts(row, story));
}

async function watchAgain(drawing) {
  const mine = ++turn;
  drawing.reset();
  for (const name of live.path) {
    drawing.begin(name);
    await new Promise((go) => setTimeout(go, 380));
    if (mine !== turn) return drawing.follow(live.path);
    drawing.end(name);
  }
  drawing.finish();
}

// ---- what if -----------------------------------------------------------------------------------

async function whatIf() {
  const mine = ++turn;
  const choice = { ...choiceOver(live.values), backend: "configured" };
  if (!choice.protocol && !Object.keys(choice.context).length) {
    takeBack();
    return;
  }
  try {
    const decided = await post("what-if", { id: live.id, choice });
    if (mine !== turn) return;
    tell("");
    setValues(decided.values);
    showWhatIf(decided);
  } catch (error) {
    if (mine === turn) await explain(error, mine);
  }
}

// Without a recorded answer there is only the other drawing to show.
async function explain(error, mine) {
  $("what-if").hidden = true;
  const { drawing } = await post("graph", { choice: choiceOver(built) }).catch(() => ({}));
  if (mine !== turn) return;
  if (drawing) {
    const [before, after] = [new Drawing(live.drawing), new Drawing(drawing)];
    markDifferences(before, after);
    showDrawings([[t("As analyzed"), before], [t("What if"), after]]);
    before.follow(live.path);
  }
  tell(error.message, "note");
  $("notice").append(" ", againButton(), " ", backButton());
}

const againButton = () => h("button", { type: "button", class: "link", id: "again", on: { click: () => analyze(live.row.t) } }, t("Analyze again with these parts"));
const backButton = () => h("button", { type: "button", class: "link", id: "back", on: { click: takeBack } }, t("Take it back"));

function takeBack() {
  turn++;
  tell("");
  $("what-if").hidden = true;
  const drawing = new Drawing(live.drawing);
  drawing.follow(live.path);
  adopt(live, drawing);
}

function showWhatIf(decided) {
  const [before, after] = [new Drawing(live.drawing), new Drawing(decided.drawing)];
  const swapped = markDifferences(before, after);
  showDrawings([
    [t("As analyzed"), before, swapped ? t("dotted red: what is left out") : ""],
    [t("What if"), after, swapped ? t("green: what is put in") : ""],
  ]);
  before.follow(live.path);
  after.follow(decided.path);
  const [old, now] = [live.story.rows || [], decided.story.rows || []];
  const terms = [...new Set([...old, ...now].map(({ term }) => term))];
  const polarities = (rows, term) => rows.filter((row) => row.term === term).flatMap((row) => row.final || []);
  const cell = (list) => h("td", {}, list.length ? list.map((word) => chip(word)) : h("span", { class: "quiet" }, "–"));
  const changes = [];
  const rows = terms.map((term) => {
    const [was, is] = [polarities(old, term), polarities(now, term)];
    const differs = was.join() !== is.join();
    const [aspect, before_, after_] = [term ?? t("(not named)"), was.map(t).join(", "), is.map(t).join(", ")];
    if (differs && was.length && is.length) changes.push(say("{aspect} would be {after}, not {before}", { aspect, before: before_, after: after_ }));
    else if (differs && is.length) changes.push(say("{aspect} would be added as {after}", { aspect, after: after_ }));
    else if (differs) changes.push(say("{aspect} would be gone", { aspect }));
    return h("tr", { class: differs && "differs-row" }, h("th", { scope: "row", lang: langOf(live.row.l) }, aspect), cell(was), cell(is));
  });
  const isRelabelled = live.row.b !== decided.row.b;
  if (isRelabelled) changes.push(say("the label would be {after}, not {before}", { before: t(live.row.b), after: t(decided.row.b) }));
  const verdicts = (story) => Object.fromEntries((story.gate || []).map((record) => [record.aspect, record.verdict]));
  const gate = [];
  const [oldGate, newGate] = [verdicts(live.story), verdicts(decided.story)];
  for (const [aspect, verdict] of Object.entries(newGate)) {
    if (oldGate[aspect] !== verdict) gate.push(say("{aspect} at the gate: {verdict}", { aspect, verdict: t(about.gate[verdict] || plain(verdict)) }));
  }
  const changed = [...(changes.length ? changes : [t("tuples and label would stay the same")]), ...gate];
  const [was, is] = decided.calls;
  $("what-if").replaceChildren(
    h("div", { class: "what-if-head" }, h("h2", {}, t("What if")),
      h("p", { class: "quiet", id: "by-replay" }, say("decided again by the same answers in {ms} ms · 0 model calls", { ms: number(decided.ms, 1) })),
      h("p", { class: "actions" }, againButton(), backButton())),
    h("div", { class: "what-if-body" },
      h("ul", { class: "changes" }, changed.map((line) => h("li", {}, line)),
        was !== is && h("li", { class: "quiet" }, say("a new run would make {is} calls, this one made {was}", { is, was })),
        decided.asked_otherwise.length ? h("li", { class: "quiet" }, say("a new run would ask these agents something else: {nodes}", { nodes: decided.asked_otherwise.map(plain).join(", ") })) : ""),
      h("div", { class: "scroll" }, h("table", { class: "compare" },
        h("thead", {}, h("tr", {}, ["Aspect", "As analyzed", "What if"].map((name) => h("th", { scope: "col" }, t(name))))),
        h("tbody", {}, rows, h("tr", { class: isRelabelled ? "whole differs-row" : "whole" }, h("th", { scope: "row" }, t("Sentence")), cell([live.row.b]), cell([decided.row.b])))))));
  $("what-if").hidden = false;
  showStory(decided);
  $("telling").prepend(h("h2", { class: "of-what-if" }, t("The text as these parts decide it")));
}

// ---- runs --------------------------------------------------------------------------------------

const indexed = new Map();

const source = {
  isLarge: true,
  async index(run) {
    if (!about.runs.length) return [];
    const { rows, complete } = await get(`runs/${run}/rows?from=0`);
    indexed.set(run, { next: rows.length, complete });
    pollSoon();
    return rows;
  },
  story: (run, n) => get(`runs/${run}/samples/${n}`),
  async more(run, row, story) {
    if (row.e) return [];
    const { drawReview } = await import("./review.js");
    const open = h("button", { type: "button", class: "primary quiet-button", on: { click: () => openSample(run, row.n) } }, t("What if…"));
    const isFinished = about.runs[run].can_review;
    const holder = h("div", { class: "more-tools" }, open);
    if (isFinished) holder.append(drawReview(`runs/${run}/samples/${row.n}/review`, row, { get, post }));
    return [holder];
  },
};

async function openSample(run, n) {
  try {
    const opened = await post(`runs/${run}/samples/${n}/open`, {});
    const drawing = new Drawing(opened.drawing);
    drawing.follow(opened.path);
    history.pushState(null, "", "#/");
    dispatchEvent(new HashChangeEvent("hashchange"));
    $("what-if").hidden = true;
    adopt(opened, drawing);
    tell("");
    scrollTo(0, 0);
  } catch (error) {
    $("detail").prepend(h("p", { class: "notice bad" }, error.message));
  }
}

let polling = 0;
function pollSoon() {
  clearTimeout(polling);
  const isGrowing = [...indexed.values()].some(({ complete }) => !complete);
  const goesOn = about.runs.some(({ state }) => state === "running" || state === "starting");
  polling = setTimeout(poll, isGrowing ? 120 : goesOn ? 1000 : 5000);
}

async function poll() {
  try {
    for (const [run, at] of indexed) {
      if (at.complete) continue;
      const { rows, complete } = await get(`runs/${run}/rows?from=${at.next}`);
      indexed.set(run, { next: at.next + rows.length, complete });
      if (rows.length) await addRows(run, rows);
      about.runs[run].count = at.next + rows.length;
    }
    if (!document.hidden) {
      const runs = await get("runs");
      about.runs.splice(0, about.runs.length, ...runs);
      if (!$("runs").hidden) drawRuns();
    }
  } catch {
    // The server is gone or busy: it is asked again.
  }
  pollSoon();
}

const STATES = { running: "running", starting: "starting", finished: "finished", stopped: "stopped", unfinished: "not finished" };

function drawRuns() {
  const list = about.runs.map((run, n) => {
    const total = run.total || run.count;
    const done = run.done ?? run.count;
    return h("li", { class: "card run-card" },
      h("div", { class: "run-head" }, h("h2", {}, h("a", { href: `#/samples?run=${n}` }, run.name)),
        badge(run.state === "finished" ? "good" : run.state === "running" ? "accent" : "", t(STATES[run.state] || run.state))),
      h("p", { class: "quiet num" }, say("{done} of {total} samples", { done: count(done), total: count(total || 0) })),
      h("progress", { max: total || 1, value: done, "aria-label": t("Progress") }),
      h("p", {}, h("a", { href: `#/samples?run=${n}` }, t("Browse the samples")),
        about.runs.length > 1 && [" · ", h("a", { href: `#/compare?a=${n === 0 ? 1 : 0}&b=${n}` }, t("Compare with another run"))]));
  });
  $("runs").replaceChildren(
    h("div", { class: "title" }, h("h1", {}, t("Runs")),
      h("p", { class: "facts" }, about.runs.length ? t("Finished runs, and those that are still going on.") : t("There is no run here yet. Start one, or name its folder:"))),
    about.runs.length ? h("ul", { class: "run-list" }, list) : h("pre", {}, "absa run reviews.jsonl --out runs/first\nabsa view runs"));
}

// ---- the beginning -----------------------------------------------------------------------------

function onPage({ detail: page }) {
  if (page === "runs") drawRuns();
  if (page === "compare") import("./compare.js").then(({ compareRuns }) => compareRuns(about, { rowsOf, get }));
}

async function begin() {
  await speak();
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = $("text").value;
    if (text.trim()) analyze(text);
  });
  $("text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    $("ask").requestSubmit();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !$("what-if").hidden && !$("home").hidden) takeBack();
  });
  $("examples").replaceChildren(...EXAMPLES.map((text) => h("button", {
    type: "button", class: "example", lang: /[가-힣]/.test(text) ? "ko" : "en",
    on: { click: () => { $("text").value = text; $("ask").requestSubmit(); } },
  }, text)));
  invite();
  about = await get("about");
  built = about.values;
  shown = { ...built, backend: "configured" };
  drawControls();
  addEventListener("page", onPage);
  await browse(about, source);
  await redraw();
  pollSoon();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

begin().catch((error) => tell(error.message));
