// Two runs, sample by sample.
import { $, badge, chip, count, drawSentence, h, known, langOf, named, pairs, say, t } from "./samples.js";

const ROW = 64;
const SIGNS = { positive: "+", negative: "−", neutral: "○", mixed: "±", other: "?" };
const state = { a: 0, b: 1, rows: [], shown: [], only: "tuples", open: -1 };
let about = null;
let server = null;
let turn = 0;

const tuples = (row) => (row.f || []).map(([term, polarity]) => `${term}\u0000${polarity}`).sort().join("\u0001");
const isRight = (row) => row.o === "fix" || row.o === "keep";
const FILTERS = {
  tuples: ["Tuples differ", ({ a, b }) => tuples(a) !== tuples(b)],
  label: ["Labels differ", ({ a, b }) => a.b !== b.b],
  better: ["Only the second is right", ({ a, b }) => a.o && b.o && !isRight(a) && isRight(b)],
  worse: ["Only the first is right", ({ a, b }) => a.o && b.o && isRight(a) && !isRight(b)],
  all: ["All", () => true],
};

export async function compareRuns(given, from) {
  about = given;
  server = from;
  const wanted = new URLSearchParams(location.hash.split("?")[1] || "");
  if (wanted.has("a")) state.a = Number(wanted.get("a")) || 0;
  if (wanted.has("b")) state.b = Number(wanted.get("b")) || 0;
  if (about.runs.length < 2) {
    $("compare").replaceChildren(h("main", {}, h("div", { class: "title" }, h("h1", {}, t("Compare")), h("p", { class: "facts" }, t("Two runs are needed here: absa view RUN RUN")))));
    return;
  }
  state.a = Math.min(state.a, about.runs.length - 1);
  state.b = Math.min(state.b, about.runs.length - 1);
  await load();
}

async function load() {
  const mine = ++turn;
  const [first, second] = await Promise.all([server.rowsOf(state.a), server.rowsOf(state.b)]);
  if (mine !== turn) return;
  const key = (row) => `${row.s}\u0000${row.u}`;
  const others = new Map(second.map((row) => [key(row), row]));
  state.rows = first.flatMap((a) => (others.has(key(a)) ? [{ a, b: others.get(key(a)) }] : []));
  state.open = -1;
  draw();
}

function chooser(side, title) {
  return h("label", { class: "choice" }, h("span", {}, t(title)), h("select", { "data-side": side, on: { change: (event) => {
    state[side] = Number(event.target.value);
    history.replaceState(null, "", `#/compare?a=${state.a}&b=${state.b}`);
    load();
  } } }, about.runs.map((run, n) => h("option", { value: n, selected: n === state[side] }, run.name))));
}

function draw() {
  const size = Object.fromEntries(Object.entries(FILTERS).map(([name, [, test]]) => [name, state.rows.filter(test).length]));
  if (!size[state.only]) state.only = size.tuples ? "tuples" : "all";
  state.shown = state.rows.filter(FILTERS[state.only][1]);
  const list = h("div", { class: "list pair-list", role: "listbox", tabindex: 0, "aria-label": t("Samples"), on: { scroll: () => requestAnimationFrame(() => drawList(list)), keydown: onKey } }, h("div", { class: "pair-sizer" }));
  $("compare").replaceChildren(h("div", { class: "panes compare-panes" },
    h("div", { class: "pane list-pane" },
      h("div", { class: "tools" },
        h("div", { class: "two-choices" }, chooser("a", "First run"), chooser("b", "Second run")),
        h("div", { class: "toggles", role: "group" }, Object.entries(FILTERS).map(([name, [title]]) => h("button", {
          type: "button", class: "toggle", "data-only": name, "aria-pressed": String(name === state.only), disabled: !size[name],
          on: { click: () => { state.only = name; state.open = -1; draw(); } },
        }, t(title), h("span", {}, count(size[name]))))),
        h("div", { class: "found" }, say("{part} of {n} samples", { part: count(state.shown.length), n: count(state.rows.length) }))),
      list),
    h("article", { class: "pane detail-pane", id: "pair", tabindex: -1 })));
  drawList(list);
  if (state.open < 0) $("pair").replaceChildren(h("div", { class: "empty" }, h("h2", {}, t("Pick a sample")), h("p", {}, t("Both results stand side by side."))));
}

function onKey(event) {
  const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  const list = event.currentTarget;
  const place = Math.max(0, Math.min(state.shown.length - 1, state.open + by));
  if (place * ROW < list.scrollTop) list.scrollTop = place * ROW;
  if ((place + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (place + 1) * ROW - list.clientHeight;
  open(place, list);
}

const short = (row) => (row.f || []).map(([term, polarity]) => `${term ?? "–"} ${SIGNS[known(polarity)]}`).join(" · ") || "–";

function drawList(list) {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 6);
  const last = Math.min(state.shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 6);
  const sizer = list.firstChild;
  sizer.style.height = `${state.shown.length * ROW}px`;
  sizer.replaceChildren(...state.shown.slice(first, last).map(({ a, b }, n) => {
    const place = first + n;
    const node = h("div", { class: place === state.open ? "row pair-row open" : "row pair-row", role: "option", "aria-selected": String(place === state.open), on: { click: () => open(place, list) } },
      h("div", { class: "row-text", lang: langOf(a.l) }, a.t || a.u),
      h("div", { class: "row-badges quiet" }, h("span", {}, short(a)), tuples(a) === tuples(b) ? null : [h("b", {}, "→"), h("span", {}, short(b))]));
    node.style.transform = `translateY(${place * ROW}px)`;
    return node;
  }));
}

async function open(place, list) {
  state.open = place;
  drawList(list);
  const mine = ++turn;
  const { a, b } = state.shown[place];
  const stories = await Promise.all([[state.a, a], [state.b, b]].map(([run, row]) => server.get(`runs/${run}/samples/${row.n}`)));
  if (mine !== turn) return;
  const terms = [...new Set(stories.flatMap((story) => (story.rows || []).map(({ term }) => term)))];
  const of = (story, term, what) => (story.rows || []).filter((row) => row.term === term).flatMap((row) => row[what] || []);
  const cell = (list_) => h("td", {}, list_.length ? list_.map((word) => chip(word)) : h("span", { class: "quiet" }, "–"));
  const names = [about.runs[state.a].name, about.runs[state.b].name];
  const hasGold = stories[0].gold;
  $("pair").replaceChildren(
    h("header", { class: "story-head" }, h("button", { type: "button", class: "link back", on: { click: () => $("compare").classList.remove("reading") } }, t("← All samples")), h("div", { class: "story-title" }, h("h2", {}, a.u))),
    h("section", { class: "part" }, h("div", { class: "scroll" }, h("table", { class: "compare" },
      h("thead", {}, h("tr", {}, [t("Aspect"), ...(hasGold ? [t("Gold")] : []), ...names].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, terms.map((term) => {
        const [one, other] = stories.map((story) => of(story, term, "final"));
        return h("tr", { class: one.join() !== other.join() && "differs-row" }, h("th", { scope: "row", lang: langOf(a.l) }, term ?? t("(not named)")),
          hasGold && cell(of(stories[0], term, "gold")), cell(one), cell(other));
      }), h("tr", { class: a.b !== b.b ? "whole differs-row" : "whole" }, h("th", { scope: "row" }, t("Sentence")), hasGold && cell(stories[0].gold.label ? [stories[0].gold.label] : []), cell(a.b ? [a.b] : []), cell(b.b ? [b.b] : [])))))),
    h("div", { class: "two-stories" }, [a, b].map((row, n) => h("div", {},
      h("h3", {}, h("a", { href: hashOf(n === 0 ? state.a : state.b, row) }, names[n]), row.o && badge(isRight(row) ? "good" : "bad", t(isRight(row) ? "✓ right" : "✕ wrong"))),
      row.e ? h("p", { class: "failure" }, stories[n].error) : [drawSentence(row, stories[n]),
        h("ul", { class: "short-list" }, [...(stories[n].gate || []).map((record) => `${record.aspect}: ${named(about.gate, record.verdict)}`), row.a && named(about.adopt, row.a)].filter(Boolean).map((line) => h("li", {}, line)))]))));
  $("compare").classList.add("reading");
}

function hashOf(run, row) {
  return `#${encodeURIComponent(row.u)}${run ? `/r${run}` : ""}${about.runs[run].seeds > 1 ? `/s${row.s}` : ""}`;
}
