"""The overview of the report: scores, counts and settings, one column per run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

from absa.insights import Insights
from absa.report import words
from absa.report.charts import Bar, bars, percent, reliability
from absa.report.ledger import ledger
from absa.report.markup import Markup, card, el, items, quiet, row, scroll, table, tile
from absa.report.people import people
from absa.report.reading import ReportedRun
from absa.report.scores import Headline
from absa.report.tally import Tally
from absa.schemas.verdicts import OVERRIDES

OUTCOMES = ("fix", "break", "keep", "still_wrong")
_SHOWN_PROBLEMS = 20
_SWITCHES = (
    ("enable_validator", "validator"),
    ("enable_stage2", "Stage 2"),
    ("enable_debate", "debate"),
    ("enable_debate_override", "override gate"),
    ("enable_moderator", "Moderator"),
)


@dataclass
class RunSummary:
    """A run with its counts, and its samples as the page takes them."""

    number: int
    directory: ReportedRun
    headline: Headline | None
    tally: Tally = field(default_factory=Tally)
    insights: Insights = field(default_factory=Insights)
    drawing: str | None = None
    # The column that is compared on the first page.
    by: str | None = None
    # A short row for each sample, and the whole stories in compressed chunks.
    index: list[dict[str, Any]] = field(default_factory=list)
    chunks: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the run in the report."""
        return self.directory.name

    def settings(self, part: str) -> dict[str, Any]:
        """A part of the settings as the manifest has them, for example `pipeline`."""
        return (self.directory.manifest.get("settings") or {}).get(part) or {}

    @property
    def failed(self) -> list[dict[str, Any]]:
        """Samples that could not be analyzed."""
        return [error for error in self.directory.errors if error.get("uid") is not None]

    @property
    def bad_lines(self) -> list[dict[str, Any]]:
        """Lines of the data that could not be read."""
        return [error for error in self.directory.errors if error.get("uid") is None]

    @property
    def usage(self) -> dict[str, Any]:
        """Calls and tokens as the manifest counts them."""
        return self.directory.manifest.get("usage") or {}

    @property
    def cost(self) -> float | None:
        """The cost of the run in US dollars; None if a price is unknown."""
        cost = self.usage.get("cost_usd", self.tally.cost)
        return cost if isinstance(cost, int | float) else None

    def href(self, **filters: str) -> str:
        """A link to the samples of this run that pass these filters."""
        return "#/samples?" + urlencode({"run": self.number, **filters})


def overview(runs: Sequence[RunSummary]) -> Markup:
    """The whole overview."""
    if len(runs) == 1:
        run = runs[0]
        first = [
            None if run.tally.with_gold else people(run.insights, run.number, run.by),
            _tiles(run),
        ]
    else:
        first = [_headline_table(runs)]
    return el(
        "main",
        _title(runs),
        _problems(runs),
        first,
        [
            card(section.title, section.about, _columns(runs, section.part))
            for section in SECTIONS
            if any(map(section.is_needed, runs))
        ],
        _graphs(runs),
        _settings(runs),
        id="overview",
        data_page="home",
        tabindex="-1",
    )


def _columns(runs: Sequence[RunSummary], part: Callable[[RunSummary], Markup]) -> Markup:
    columns = [
        el("div", el("h3", run.name) if len(runs) > 1 else None, part(run), class_="column")
        for run in runs
    ]
    return el("div", columns, class_="columns")


def _title(runs: Sequence[RunSummary]) -> Markup:
    if len(runs) == 1:
        run = runs[0]
        return el("div", el("h1", run.name), el("p", _facts(run), class_="facts"), class_="title")
    return el(
        "div",
        el("h1", f"{len(runs)} runs side by side"),
        [el("p", el("strong", run.name), " ", _facts(run), class_="facts") for run in runs],
        class_="title",
    )


def _facts(run: RunSummary) -> str:
    manifest, languages = run.directory.manifest, run.tally.languages.most_common(4)
    protocol, backend = run.settings("pipeline").get("protocol"), run.settings("backend")
    parts = [
        f"{run.tally.samples:,} samples",
        ", ".join(f"{lang} {count:,}" for lang, count in languages),
        f"{protocol} protocol" if protocol else "",
        f"{backend.get('kind')} backend" if backend.get("kind") else "",
        str(backend.get("model") or ""),
        str(manifest.get("status") or ""),
        str(manifest.get("updated_at") or "")[:16].replace("T", " "),
    ]
    return " · ".join(part for part in parts if part)


def _problems(runs: Sequence[RunSummary]) -> Markup | None:
    lines = []
    for run in runs:
        problems = run.directory.problems + [
            f"line {bad.get('line', '?')} of the data: {bad.get('reason', 'unreadable')}"
            for bad in run.bad_lines
        ]
        lines += [f"{run.name}: {each}" if len(runs) > 1 else each for each in problems]
    if not lines:
        return None
    shown = lines[:_SHOWN_PROBLEMS]
    if more := len(lines) - len(shown):
        shown.append(f"and {more:,} more")
    return el("section", el("h2", "What could not be read"), items(shown), class_="card warning")


# The first numbers ------------------------------------------------------------------------------


def _tiles(run: RunSummary) -> Markup:
    tally = run.tally
    tiles = []
    for score in run.headline.scores if run.headline else ():
        if score.name in ("Pair F1", "Label accuracy"):
            note = [f"Stage 1 {score.stage1:.3f} · ", el("b", _signed(score.difference))]
            if score.interval:
                note.append(" · 95 % interval {:.3f} to {:.3f}".format(*score.interval))
            tiles.append(tile(score.name, f"{score.final:.3f}", note))
    changed = (
        f"{percent(tally.changed, tally.samples)} of the samples · "
        f"tuples {tally.tuples_changed:,}, label {tally.label_changed:,}"
    )
    lines = "unreadable line" if len(run.bad_lines) == 1 else "unreadable lines"
    failed = f"{len(run.failed):,} failed · {len(run.bad_lines):,} {lines}"
    tiles += [
        tile("Net gain, samples", *_gain(run)),
        tile("Changed", f"{tally.changed:,}", changed, run.href(changed="1")),
        tile(
            "Analyzed",
            f"{tally.samples:,}",
            failed,
            run.href(failed="1") if run.failed else run.href(),
        ),
    ]
    if tally.unnamed:
        unnamed = f"of {tally.tuples:,} tuples name no aspect: scored by category, not in pair F1"
        tiles.append(tile("Unnamed", f"{tally.unnamed:,}", unnamed))
    tiles.append(tile("Cost", _dollars(run.cost), _spent(run)))
    hint = None
    if run.headline is None:
        hint = el(
            "p",
            "No scores yet: run ",
            el("code", f"absa evaluate {run.directory.path.name}"),
            " first, then this report shows F1 and accuracy with intervals.",
            class_="hint",
        )
    return el("div", el("div", tiles, class_="tiles"), hint, class_="headline")


def _headline_table(runs: Sequence[RunSummary]) -> Markup:
    names = dict.fromkeys(s.name for run in runs if run.headline for s in run.headline.scores)
    rows: dict[str, list[tuple[str, str]]] = {
        **{name: [_score(name, run) for run in runs] for name in names},
        "Net gain, samples": [_gain(run) for run in runs],
        "Changed": [
            (f"{run.tally.changed:,}", percent(run.tally.changed, run.tally.samples))
            for run in runs
        ],
        "Analyzed": [(f"{run.tally.samples:,}", f"{len(run.failed):,} failed") for run in runs],
        "Cost": [(_dollars(run.cost), _spent(run)) for run in runs],
    }
    missing = [run.name for run in runs if run.headline is None]
    hint = el(
        "p",
        f"No scores yet for {', '.join(missing)}: run ",
        el("code", "absa evaluate"),
        " on it first.",
        class_="hint",
    )
    lines = [
        row(name, [(el("b", value), el("small", note)) for value, note in values])
        for name, values in rows.items()
    ]
    numbers = table(["", *(run.name for run in runs)], lines, "side")
    return card("At a glance", None, scroll(numbers), hint if missing else None)


def _score(name: str, run: RunSummary) -> tuple[str, str]:
    """A final score, and the score of Stage 1 with the difference."""
    scores = run.headline.scores if run.headline else ()
    score = next((s for s in scores if s.name == name), None)
    if score is None:
        return "–", ""
    return f"{score.final:.3f}", f"Stage 1 {score.stage1:.3f} · {_signed(score.difference)}"


def _gain(run: RunSummary) -> tuple[str, str]:
    """The net gain, and the counts behind it."""
    fixed, broke = run.tally.pairs["fix"], run.tally.pairs["break"]
    if not run.tally.pairs:
        return "–", "no gold annotations"
    note = f"{fixed:,} fixed, {broke:,} broke"
    gain = run.headline.gain if run.headline else None
    if gain is None:
        return _signed(fixed - broke, 0), note
    interval = f"95 % interval {_signed(gain.low, 0)} to {_signed(gain.high, 0)}"
    return _signed(gain.value, 0), f"{note} · {interval}"


def _signed(value: float, digits: int = 3) -> str:
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if text.strip("+-0.") else text[1:]


def _dollars(cost: float | None) -> str:
    if cost is None:
        return "unknown"
    return f"${cost:,.2f}" if cost >= 1 or not cost else f"${cost:.4f}"


def _spent(run: RunSummary) -> str:
    calls = run.usage.get("calls", sum(n.calls for n in run.tally.calls.values()))
    tokens = sum(run.usage.get(k, 0) for k in ("prompt_tokens", "completion_tokens"))
    cached = run.usage.get("cached_calls", 0)
    return f"{calls:,} calls · {tokens:,} tokens" + (f" · {cached:,} cached" if cached else "")


# The sections, each for one run -----------------------------------------------------------------


def _fix_break(run: RunSummary) -> Markup:
    if not run.tally.with_gold:
        return quiet("The data has no gold annotations.")
    heads = ["", *(words.OUTCOMES[name] for name in OUTCOMES), "Net gain"]
    rows = [
        _outcomes("Tuples", "outcome", run.tally.pairs, run),
        _outcomes("Label", "label", run.tally.labels, run),
    ]
    return scroll(table(heads, rows, "counts"))


def _outcomes(name: str, key: str, counts: Counter[str], run: RunSummary) -> Markup:
    if not counts:
        return el("tr", el("th", name, scope="row"), el("td", "no gold annotations", colspan=5))
    cells = [
        (
            el("a", f"{counts[code]:,}", href=run.href(**{key: code})) if counts[code] else "0",
            el("small", percent(counts[code], counts.total())),
        )
        for code in OUTCOMES
    ]
    return row(name, [*cells, el("b", _signed(counts["fix"] - counts["break"], 0))])


def _conflict(run: RunSummary) -> Markup:
    tally = run.tally
    if not _is_conflict_review(run):
        return quiet("This run held no conflict review.")
    steps = [
        Bar("Samples analyzed", "samples", tally.samples),
        Bar("Samples with a tuple in doubt", "in doubt", tally.in_doubt, strong=True),
    ]
    rows = _bars(words.ARBITER, tally.cases, strong="majority")
    reviewed = f"{tally.reviewed_tuples:,} tuples reviewed, {tally.changed_tuples:,} changed"
    return el(
        "div",
        bars(steps, tally.samples),
        el("h4", reviewed),
        bars(rows, tally.reviewed_tuples) if rows else None,
    )


def _is_conflict_review(run: RunSummary) -> bool:
    return run.settings("pipeline").get("protocol") == "conflict_review"


def _bars(
    names: dict[str, str], counts: Counter[str], strong: str = "", *, zeros: bool = False
) -> list[Bar]:
    """A bar for each code, in the order of the names."""
    return [
        Bar(name, code, counts[code], code == strong)
        for code, name in names.items()
        if counts[code] or zeros
    ]


def _commonest(names: dict[str, str], counts: Counter[str]) -> list[tuple[str, str, int]]:
    """Name, code and count, the highest count first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(names.get(code, code), code, count) for code, count in ordered]


def _second_opinion(run: RunSummary) -> Markup:
    tally = run.tally
    asked = tally.second_opinion.total()
    if not asked:
        return quiet("This run did not use the protocol selective.")
    calls = sum(number * texts for number, texts in tally.calls_made.items())
    names = {"agreed": "Agreed", "contested": "Contested", "reader_alone": "Analyzer alone"}
    rows = _bars(names, tally.second_opinion, zeros=True)
    return el("div", bars(rows, asked), el("h4", f"{calls / asked:.2f} calls per text"))


def _contest(run: RunSummary) -> Markup:
    tally = run.tally
    if not tally.compared:
        return quiet("This run debated every text.")
    return bars(_bars(words.CONTEST, tally.contest, zeros=True), tally.compared)


def _turns(run: RunSummary) -> Markup:
    turns, whole = run.tally.turns, run.tally.turns.total()
    if not whole:
        return quiet("No turn proposed an edit.")
    why = _bars(words.UNMAPPED, run.tally.unmapped)
    return el(
        "div",
        bars(_bars(words.MAPPED, turns, zeros=True), whole),
        [el("h4", "Why not"), bars(why, whole)] if why else None,
    )


def _moves(run: RunSummary) -> Markup:
    tally = run.tally
    why = [Bar(*row) for row in _commonest(words.IGNORED, tally.ignored)]
    head = f"{tally.flagged:,} samples with a risk, {tally.ignored.total():,} of them not changed"
    return el(
        "div",
        bars(_bars(words.MOVES, tally.moves, strong="guided", zeros=True), tally.samples),
        el("h4", head) if tally.flagged else None,
        bars(why, tally.flagged) if why else None,
    )


def _gate(run: RunSummary) -> Markup:
    tally = run.tally
    if not tally.judged:
        return quiet("The gate judged no aspect.")
    overrides = sum(tally.verdicts[code] for code in OVERRIDES)
    steps = [
        Bar("Samples analyzed", "samples", tally.samples),
        Bar("Samples with an aspect at the gate", "judged", tally.reached_gate),
        Bar("Samples with an override", "applied", tally.gated, strong=True),
        Bar("Samples with a confirmed aspect", "confirmed", tally.confirmed),
    ]
    rows = [
        Bar(name, code, count, code in OVERRIDES, run.href(gate=code))
        for name, code, count in _commonest(words.GATE, tally.verdicts)
    ]
    counts = f"{tally.judged:,} aspects judged, {overrides:,} overridden"
    return el(
        "div",
        bars(steps, tally.samples),
        el("h4", counts, el("small", _near(run))),
        bars(rows, tally.judged),
    )


def _near(run: RunSummary) -> str:
    near = run.directory.gate_summary.get("near_threshold")
    if not isinstance(near, dict) or not near.get("denominator"):
        return ""
    count, within = near.get("numerator"), near.get("within")
    return f"{count:,} within {within} of a threshold" if isinstance(count, int) else ""


def _adoption(run: RunSummary) -> Markup:
    tally = run.tally
    if not tally.stage2:
        return quiet("This run had no Stage 2.")
    rows = [
        Bar(
            words.adoption_name(decision, reason),
            f"{decision}: {reason}",
            count,
            decision == "adopted",
            run.href(adopt=f"{decision}:{reason}"),
        )
        for (decision, reason), count in tally.adoption.most_common()
    ]
    adopted = f"{tally.adopted:,} of {tally.stage2:,} adopted"
    return el("div", el("h4", adopted), bars(rows, tally.stage2))


def _rules(run: RunSummary) -> Markup:
    tally = run.tally
    rows = [
        Bar(f"{rule}: {does}", rule, tally.rules[rule], href=run.href(rule=rule))
        for rule, does in words.RULES.items()
        if tally.rules[rule]
    ]
    return bars(rows, tally.samples) if rows else quiet("No rule acted on a label.")


def _calibration(run: RunSummary) -> Markup:
    if not run.tally.with_gold:
        return quiet("The data has no gold annotations.")
    plots = [
        reliability("Aspects and their polarity", run.tally.aspect_reliability),
        reliability("Sentence label", run.tally.label_reliability),
    ]
    return el("div", plots, class_="plots")


def _alarms(run: RunSummary) -> Markup:
    alarms = run.headline.alarms if run.headline else ()
    return items(alarms, "short-list") if alarms else quiet("Nothing.")


class Section(NamedTuple):
    """A section of the overview; it is left out unless a run needs it."""

    title: str
    about: str
    part: Callable[[RunSummary], Markup]
    is_needed: Callable[[RunSummary], object] = lambda run: True


SECTIONS = (
    Section(
        "Fixed and broken",
        "Each sample's tuples, and its label, before and after the debate. Fixed: wrong in Stage 1 "
        "and right in the final result. Broke: right in Stage 1 and wrong in the final result. "
        "Tuples are right if they are exactly those of the gold.",
        _fix_break,
    ),
    Section(
        "The conflict review",
        "Tuples of the three perspectives that contradict or overlap each other, or that a rule "
        "doubts, go to three reviewers. The arbiter does what at least two of them ask for.",
        _conflict,
        _is_conflict_review,
    ),
    Section(
        "The second opinion",
        "The first call is compared with the embedded analyzer. Where they agree, no further call "
        "is made. If the model agrees too rarely over the run, the analyzer decides alone.",
        _second_opinion,
        lambda run: run.tally.second_opinion,
    ),
    Section(
        "Contested texts",
        "Stage 1 is compared with the embedded analyzer. Without a reason for a debate, the debate "
        "and Stage 2 are skipped. A text may have several reasons.",
        _contest,
        lambda run: run.tally.compared,
    ),
    Section(
        "The debate's turns",
        "Whether a speaker's edit could be mapped to an aspect of Stage 1. A turn without edits "
        "agrees with Stage 1 and is not counted.",
        _turns,
        lambda run: run.tally.turns.total(),
    ),
    Section(
        "Changes and ignored risks",
        "What changed a result since Stage 1, and why a flagged risk changed nothing.",
        _moves,
    ),
    Section(
        "The override gate",
        "The gate judges each aspect that the debate spoke of. The first condition that holds "
        "decides. A bar leads to its samples.",
        _gate,
    ),
    Section(
        "Adopting Stage 2",
        "Whether the result of Stage 2, after reviews and overrides, replaced that of Stage 1, and "
        "why.",
        _adoption,
    ),
    Section(
        "The Moderator's rules", "How often each rule acted on the label of a sentence.", _rules
    ),
    Section(
        "Calibration",
        "How often answers with a given confidence are correct. On the diagonal the confidence "
        "equals the accuracy; below it the confidence is too high. Larger dots hold more answers.",
        _calibration,
    ),
    Section(
        "Cost by node and model",
        "All recorded calls. Attempts are requests sent: a cached answer has none, a call that was "
        "retried or repaired has several. Latency is per call. ? means that a price is unknown.",
        lambda run: ledger(run.tally.calls, run.usage, run.cost),
    ),
    Section(
        "What to keep in mind",
        "Warnings of the evaluation, and rules that never fired although they were reached.",
        _alarms,
        lambda run: run.headline and run.headline.alarms,
    ),
)


# Graph and settings -----------------------------------------------------------------------------


def _graphs(runs: Sequence[RunSummary]) -> Markup:
    names: dict[str, list[str]] = {}
    for run in runs:
        if run.drawing:
            names.setdefault(run.drawing, []).append(run.name)
    figures = [
        el(
            "figure",
            el("figcaption", ", ".join(of_drawing)) if len(runs) > 1 else None,
            # The style sheet of the drawing has rules for `text` and `.box`. In a shadow tree they
            # do not apply to the rest of the page.
            el("div", el("template", Markup(svg), shadowrootmode="open"), class_="drawing"),
            class_="graph",
        )
        for svg, of_drawing in names.items()
    ]
    content = figures or quiet("The settings of the run cannot be drawn.")
    about = "The nodes and edges under the settings of the run."
    return card("The graph", about, el("div", content, class_="graphs"))


def _settings(runs: Sequence[RunSummary]) -> Markup:
    facts = [_run_facts(run) for run in runs]
    rows = []
    for name in dict.fromkeys(name for facts_of_run in facts for name in facts_of_run):
        values = [facts_of_run.get(name, "–") for facts_of_run in facts]
        rows.append(row(name, values, "differs" if len(set(values)) > 1 else None))
    heads = ["", *(run.name for run in runs)]
    return card("Settings and origin", None, scroll(table(heads, rows, "side plain")))


def _run_facts(run: RunSummary) -> dict[str, str]:
    manifest, pipeline, backend = (
        run.directory.manifest,
        run.settings("pipeline"),
        run.settings("backend"),
    )
    debate, override = pipeline.get("debate") or {}, pipeline.get("debate_override") or {}
    data = manifest.get("data") or {}
    switched_off = [name for key, name in _SWITCHES if pipeline.get(key) is False]
    order = ", ".join(map(str, debate.get("order") or []))
    facts = {
        "Protocol": pipeline.get("protocol"),
        "Switched off": ", ".join(switched_off) or "nothing",
        "Debate": f"{debate.get('protocol')}, rounds: {debate.get('rounds')}, order: {order}"
        if pipeline.get("enable_debate")
        else "none",
        "Gate": ", ".join(
            f"{k} {str(v).lower()}" for k, v in override.items() if not isinstance(v, dict)
        ),
        "Moderator": ", ".join((pipeline.get("moderator") or {}).get("rules") or []),
        "Backend": " ".join(str(backend[k]) for k in ("kind", "model") if backend.get(k)),
        "Temperature": backend.get("temperature"),
        "Seeds": ", ".join(map(str, manifest.get("seeds") or [])),
        # Only the name of the file: its folder is private.
        "Data": str(data.get("path") or "").replace("\\", "/").rpartition("/")[2],
        "Data SHA-256": str(data.get("sha256") or "")[:16],
        "Run": manifest.get("run_id"),
        "Versions": ", ".join(f"{k} {v}" for k, v in (manifest.get("versions") or {}).items()),
    }
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}
