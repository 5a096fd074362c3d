"""The overview: what the runs did and what it brought, each run a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from absa.insights import Insights
from absa.report import words
from absa.report.charts import Bar, bars, percent, reliability
from absa.report.ledger import ledger
from absa.report.markup import Markup, el
from absa.report.people import people
from absa.report.reading import ReportedRun
from absa.report.scores import Headline, Score
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
class Shown:
    """A run with what was counted about it."""

    number: int
    directory: ReportedRun
    headline: Headline | None
    tally: Tally = field(default_factory=Tally)
    drawing: str | None = None
    insights: Insights = field(default_factory=Insights)
    # The column that is compared on the first page.
    by: str | None = None

    @property
    def name(self) -> str:
        """What the run is called in the report."""
        return self.directory.name

    @property
    def is_conflict_review(self) -> bool:
        """Whether the run held a conflict review."""
        settings = self.directory.manifest.get("settings") or {}
        return (settings.get("pipeline") or {}).get("protocol") == "conflict_review"

    @property
    def failed(self) -> int:
        """Samples that could not be analysed."""
        return sum(e.get("uid") is not None for e in self.directory.errors)

    @property
    def bad_lines(self) -> list[dict[str, Any]]:
        """Lines of the data that could not be read."""
        return [e for e in self.directory.errors if e.get("uid") is None]

    @property
    def cost(self) -> float | None:
        """What the run cost in US dollars, None if a price is not known."""
        usage = self.directory.manifest.get("usage") or {}
        cost = usage.get("cost_usd", self.tally.cost)
        return cost if isinstance(cost, int | float) else None

    def href(self, **wanted: str) -> str:
        """A link to the samples of this run that are like this."""
        return "#/samples?" + urlencode({"run": self.number, **wanted})


def overview(runs: Sequence[Shown]) -> Markup:
    """The whole overview."""
    return el(
        "main",
        _title(runs),
        _problems(runs),
        [people(run.insights, run.number, run.by) for run in runs if not run.tally.with_gold]
        if len(runs) == 1
        else None,
        _tiles(runs[0]) if len(runs) == 1 else _headline_table(runs),
        _section("Fixed and broken", FIX_BREAK, runs, _fix_break),
        _section("The conflict review", CONFLICT, runs, _conflict)
        if any(run.is_conflict_review for run in runs)
        else None,
        _section("The second opinion", SECOND_OPINION, runs, _second_opinion)
        if any(run.tally.second_opinion for run in runs)
        else None,
        _section("Contested texts", CONTEST, runs, _contest)
        if any(run.tally.compared for run in runs)
        else None,
        _section("The debate's turns", TURNS, runs, _turns)
        if any(run.tally.turns.total() for run in runs)
        else None,
        _section("Changes and ignored risks", MOVES, runs, _moves),
        _section("The override gate", GATE, runs, _gate),
        _section("Adopting Stage 2", ADOPT, runs, _adoption),
        _section("The Moderator's rules", MODERATOR, runs, _rules),
        _section("Calibration", CALIBRATION, runs, _calibration),
        _section("Cost by node and model", COST, runs, _cost),
        _section("What to keep in mind", ALARMS, runs, _alarms) if _evaluated(runs) else None,
        _graphs(runs),
        _settings(runs),
        id="overview",
        data_page="home",
        tabindex="-1",
    )


FIX_BREAK = (
    "Each sample's tuples, and its label, before and after the debate. Fixed: wrong in Stage 1 and "
    "right in the end; broke: the other way round. Tuples are right if they are exactly the gold's."
)
CONFLICT = (
    "Tuples of the three perspectives that contradict or overlap each other, or that a rule "
    "doubts, go to three reviewers; the arbiter takes what at least two of them want."
)
TURNS = (
    "Whether what a speaker said could be mapped to an aspect of Stage 1. A turn without edits "
    "agrees with everything and is not counted."
)
MOVES = "What moved a result away from Stage 1, and why nothing came of a risk that was flagged."
GATE = (
    "Each aspect that the debate spoke of is judged; the first condition that holds decides. "
    "A bar leads to its samples."
)
ADOPT = "Whether the reviewed and overridden result replaced Stage 1's, and why."
MODERATOR = "How often each rule acted on the sentence's label."
CALIBRATION = (
    "How often answers of a given confidence are right. On the diagonal a confidence means what it "
    "says; below it the answers are too sure of themselves. Larger dots hold more answers."
)
ALARMS = "What the evaluation warns of, and what never happened although it could have."
COST = (
    "Every call on record. Attempts are requests sent: a cached answer has none, a call that was "
    "retried or repaired has several. Latency is per call; ? is a cost whose price is not known."
)


def _section(
    title: str, about: str, runs: Sequence[Shown], part: Callable[[Shown], Markup]
) -> Markup:
    columns = [
        el("div", el("h3", run.name) if len(runs) > 1 else None, part(run), class_="column")
        for run in runs
    ]
    head = el("div", el("h2", title), el("p", about, class_="about"), class_="section-head")
    return el("section", head, el("div", columns, class_="columns"), class_="card")


def _title(runs: Sequence[Shown]) -> Markup:
    if len(runs) == 1:
        run = runs[0]
        return el("div", el("h1", run.name), el("p", _facts(run), class_="facts"), class_="title")
    return el(
        "div",
        el("h1", f"{len(runs)} runs side by side"),
        [el("p", el("strong", run.name), " ", _facts(run), class_="facts") for run in runs],
        class_="title",
    )


def _facts(run: Shown) -> str:
    manifest, tally = run.directory.manifest, run.tally
    pipeline = (manifest.get("settings") or {}).get("pipeline") or {}
    backend = (manifest.get("settings") or {}).get("backend") or {}
    parts = [
        f"{tally.samples:,} samples",
        ", ".join(f"{lang} {count:,}" for lang, count in tally.languages.most_common(4)),
        f"{pipeline['protocol']} protocol" if pipeline.get("protocol") else "",
        f"{backend.get('kind')} backend" if backend.get("kind") else "",
        str(backend.get("model") or ""),
        str(manifest.get("status") or ""),
        str(manifest.get("updated_at") or "")[:16].replace("T", " "),
    ]
    return " · ".join(part for part in parts if part)


def _problems(runs: Sequence[Shown]) -> Markup | None:
    lines = [
        f"{run.name}: {problem}" if len(runs) > 1 else problem
        for run in runs
        for problem in [
            *run.directory.problems,
            *(
                f"line {bad.get('line', '?')} of the data: {bad.get('reason', 'unreadable')}"
                for bad in run.bad_lines
            ),
        ]
    ]
    if not lines:
        return None
    more = len(lines) - _SHOWN_PROBLEMS
    items = [el("li", line) for line in lines[:_SHOWN_PROBLEMS]]
    if more > 0:
        items.append(el("li", f"and {more:,} more"))
    return el(
        "section",
        el("h2", "What could not be read"),
        el("ul", items),
        class_="card warning",
    )


def _signed(value: float, digits: int = 3) -> str:
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if text.strip("+-0.") else text[1:]


def _interval(low: float, high: float) -> str:
    return f"95 % interval {_signed(low, 0)} to {_signed(high, 0)}"


def _tile(name: str, value: str, note: object, href: str | None = None) -> Markup:
    inside = [
        el("span", name, class_="tile-name"),
        el("span", value, class_="tile-value"),
        el("span", note, class_="tile-note"),
    ]
    return el("a", inside, class_="tile", href=href) if href else el("div", inside, class_="tile")


def _tiles(run: Shown) -> Markup:
    tally = run.tally
    scores = run.headline.scores if run.headline else ()
    tiles = [_score_tile(score) for score in scores if _is_main(score)]
    tiles += [
        _gain_tile(run),
        _tile(
            "Changed",
            f"{tally.changed:,}",
            f"{percent(tally.changed, tally.samples)} of the samples · "
            f"tuples {tally.tuples_changed:,}, label {tally.label_changed:,}",
            run.href(changed="1"),
        ),
        _tile(
            "Analysed",
            f"{tally.samples:,}",
            f"{run.failed:,} failed · {len(run.bad_lines):,} unreadable lines",
            run.href(failed="1") if run.failed else run.href(),
        ),
        _tile("Cost", _dollars(run.cost), _spent(run)),
    ]
    if tally.unnamed:
        note = f"of {tally.tuples:,} tuples name no aspect: scored by category, not in pair F1"
        tiles.insert(-1, _tile("Unnamed", f"{tally.unnamed:,}", note))
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


def _is_main(score: Score) -> bool:
    return score.name in ("Pair F1", "Label accuracy")


def _score_tile(score: Score) -> Markup:
    note = [f"Stage 1 {score.stage1:.3f} · ", el("b", _signed(score.difference))]
    if score.interval:
        note.append(" · 95 % interval {:.3f} to {:.3f}".format(*score.interval))
    return _tile(score.name, f"{score.final:.3f}", note)


def _gain(run: Shown) -> tuple[str, str]:
    """Net gain and what stands below it."""
    fixed, broke = run.tally.pairs["fix"], run.tally.pairs["break"]
    if not run.tally.pairs:
        return "–", "no gold to compare with"
    note = f"{fixed:,} fixed, {broke:,} broke"
    gain = run.headline.gain if run.headline else None
    if gain is None:
        return _signed(fixed - broke, 0), note
    return _signed(gain.value, 0), f"{note} · {_interval(gain.low, gain.high)}"


def _gain_tile(run: Shown) -> Markup:
    value, note = _gain(run)
    return _tile("Net gain, samples", value, note)


def _dollars(cost: float | None) -> str:
    if cost is None:
        return "unknown"
    return f"${cost:,.2f}" if cost >= 1 or not cost else f"${cost:.4f}"


def _spent(run: Shown) -> str:
    usage = run.directory.manifest.get("usage") or {}
    calls = usage.get("calls", sum(n.calls for n in run.tally.calls.values()))
    tokens = sum(usage.get(k, 0) for k in ("prompt_tokens", "completion_tokens"))
    cached = usage.get("cached_calls", 0)
    return f"{calls:,} calls · {tokens:,} tokens" + (f" · {cached:,} cached" if cached else "")


def _headline_table(runs: Sequence[Shown]) -> Markup:
    names = dict.fromkeys(s.name for run in runs if run.headline for s in run.headline.scores)
    rows = [_score_row(name, runs) for name in names]
    rows += [
        _row("Net gain, samples", [[el("b", v), el("small", n)] for v, n in map(_gain, runs)]),
        _row(
            "Changed",
            [
                [
                    el("b", f"{run.tally.changed:,}"),
                    el("small", percent(run.tally.changed, run.tally.samples)),
                ]
                for run in runs
            ],
        ),
        _row(
            "Analysed",
            [
                [el("b", f"{run.tally.samples:,}"), el("small", f"{run.failed:,} failed")]
                for run in runs
            ],
        ),
        _row("Cost", [[el("b", _dollars(run.cost)), el("small", _spent(run))] for run in runs]),
    ]
    head = el("tr", el("td"), [el("th", run.name, scope="col") for run in runs])
    table = el("table", el("thead", head), el("tbody", rows), class_="side")
    missing = [run.name for run in runs if run.headline is None]
    hint = el(
        "p",
        f"No scores yet for {', '.join(missing)}: run ",
        el("code", "absa evaluate"),
        " on it first.",
        class_="hint",
    )
    return el(
        "section",
        el("div", el("h2", "At a glance"), class_="section-head"),
        el("div", table, class_="scroll", tabindex="0"),
        hint if missing else None,
        class_="card",
    )


def _row(name: str, cells: Sequence[object]) -> Markup:
    return el("tr", el("th", name, scope="row"), [el("td", cell) for cell in cells])


def _score_row(name: str, runs: Sequence[Shown]) -> Markup:
    cells: list[object] = []
    for run in runs:
        scores = run.headline.scores if run.headline else ()
        score = next((s for s in scores if s.name == name), None)
        cells.append(
            [
                el("b", f"{score.final:.3f}"),
                el("small", f"Stage 1 {score.stage1:.3f} · {_signed(score.difference)}"),
            ]
            if score
            else "–"
        )
    return _row(name, cells)


def _fix_break(run: Shown) -> Markup:
    if not run.tally.with_gold:
        return el("p", "The data has no gold.", class_="quiet")
    head = el(
        "tr",
        el("td"),
        [el("th", words.OUTCOMES[name], scope="col") for name in OUTCOMES],
        el("th", "Net gain", scope="col"),
    )
    rows = [
        _outcomes("Tuples", "outcome", run.tally.pairs, run),
        _outcomes("Label", "label", run.tally.labels, run),
    ]
    return el(
        "div", el("table", el("thead", head), el("tbody", rows), class_="counts"), class_="scroll"
    )


def _outcomes(name: str, key: str, found: Any, run: Shown) -> Markup:
    if not found:
        return el("tr", el("th", name, scope="row"), el("td", "no gold", colspan=5))
    cells = [
        el(
            "td",
            el("a", f"{found[code]:,}", href=run.href(**{key: code})) if found[code] else "0",
            el("small", percent(found[code], sum(found.values()))),
        )
        for code in OUTCOMES
    ]
    gain = _signed(found["fix"] - found["break"], 0)
    return el("tr", el("th", name, scope="row"), cells, el("td", el("b", gain)))


def _conflict(run: Shown) -> Markup:
    tally = run.tally
    if not run.is_conflict_review:
        return el("p", "There was no conflict review.", class_="quiet")
    steps = [
        Bar("Samples analysed", "samples", tally.samples),
        Bar("Samples with a tuple in doubt", "in doubt", tally.in_doubt, strong=True),
    ]
    rows = [
        Bar(name, case, tally.cases[case], case == "majority")
        for case, name in words.ARBITER.items()
        if tally.cases[case]
    ]
    reviewed = f"{tally.reviewed_tuples:,} tuples reviewed, {tally.changed_tuples:,} changed"
    return el(
        "div",
        bars(steps, tally.samples),
        el("h4", reviewed),
        bars(rows, tally.reviewed_tuples) if rows else None,
    )


SECOND_OPINION = (
    "The first call beside the embedded analyser. Where they agree no further call is made; where "
    "the model agrees too rarely over the run, the analyser decides alone."
)


def _second_opinion(run: Shown) -> Markup:
    tally = run.tally
    asked = tally.second_opinion.total()
    if not asked:
        return el("p", "There was no second reader.", class_="quiet")
    calls = sum(number * texts for number, texts in tally.calls_made.items())
    names = {"agreed": "Agreed", "contested": "Contested", "reader_alone": "Analyser alone"}
    rows = [Bar(name, code, tally.second_opinion[code]) for code, name in names.items()]
    return el("div", bars(rows, asked), el("h4", f"{calls / asked:.2f} calls a text"))


CONTEST = (
    "Stage 1 beside the embedded analyser. Where nothing speaks for a debate, the debate and Stage "
    "2 are skipped. A text may have several reasons."
)


def _contest(run: Shown) -> Markup:
    tally = run.tally
    if not tally.compared:
        return el("p", "The debate was held about every text.", class_="quiet")
    rows = [Bar(name, code, tally.contest[code]) for code, name in words.CONTEST.items()]
    return bars(rows, tally.compared)


def _turns(run: Shown) -> Markup:
    tally = run.tally
    if not tally.turns.total():
        return el("p", "No turn said anything.", class_="quiet")
    rows = [Bar(name, code, tally.turns[code]) for code, name in words.MAPPED.items()]
    why = [
        Bar(name, code, tally.unmapped[code])
        for code, name in words.UNMAPPED.items()
        if tally.unmapped[code]
    ]
    return el(
        "div",
        bars(rows, tally.turns.total()),
        [el("h4", "Why not"), bars(why, tally.turns.total())] if why else None,
    )


def _moves(run: Shown) -> Markup:
    tally = run.tally
    rows = [
        Bar(name, code, tally.moves[code], code == "guided") for code, name in words.MOVES.items()
    ]
    why = [
        Bar(words.IGNORED.get(code, code), code, count)
        for code, count in sorted(tally.ignored.items(), key=lambda item: (-item[1], item[0]))
    ]
    head = f"{tally.flagged:,} samples with a risk, {tally.ignored.total():,} of them not changed"
    return el(
        "div",
        bars(rows, tally.samples),
        el("h4", head) if tally.flagged else None,
        bars(why, tally.flagged) if why else None,
    )


def _gate(run: Shown) -> Markup:
    tally = run.tally
    if not tally.judged:
        return el("p", "No aspect came to the gate.", class_="quiet")
    overrides = sum(tally.verdicts[code] for code in OVERRIDES)
    steps = [
        Bar("Samples analysed", "samples", tally.samples),
        Bar("Samples with an aspect at the gate", "judged", tally.reached_gate),
        Bar("Samples with an override", "applied", tally.gated, strong=True),
        Bar("Samples with a confirmed aspect", "confirmed", tally.confirmed),
    ]
    rows = [
        Bar(words.GATE.get(code, code), code, count, code in OVERRIDES, run.href(gate=code))
        for code, count in sorted(tally.verdicts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return el(
        "div",
        bars(steps, tally.samples),
        el(
            "h4",
            f"{tally.judged:,} aspects judged, {overrides:,} overridden",
            el("small", _near(run)),
        ),
        bars(rows, tally.judged),
    )


def _near(run: Shown) -> str:
    near = run.directory.gate_summary.get("near_threshold")
    if not isinstance(near, dict) or not near.get("denominator"):
        return ""
    count, within = near.get("numerator"), near.get("within")
    return f"{count:,} within {within} of a threshold" if isinstance(count, int) else ""


def _adoption(run: Shown) -> Markup:
    tally = run.tally
    if not tally.stage2:
        return el("p", "There was no Stage 2.", class_="quiet")
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


def _rules(run: Shown) -> Markup:
    tally = run.tally
    if not tally.rules:
        return el("p", "No rule acted.", class_="quiet")
    rows = [
        Bar(f"{rule}: {words.RULES[rule]}", rule, tally.rules[rule], href=run.href(rule=rule))
        for rule in words.RULES
        if tally.rules[rule]
    ]
    return bars(rows, tally.samples)


def _calibration(run: Shown) -> Markup:
    tally = run.tally
    if not tally.with_gold:
        return el("p", "The data has no gold.", class_="quiet")
    return el(
        "div",
        reliability("Aspects and their polarity", tally.aspect_reliability),
        reliability("Sentence label", tally.label_reliability),
        class_="plots",
    )


def _cost(run: Shown) -> Markup:
    return ledger(run.tally.calls, run.directory.manifest.get("usage") or {}, run.cost)


def _evaluated(runs: Sequence[Shown]) -> bool:
    return any(run.headline and run.headline.alarms for run in runs)


def _alarms(run: Shown) -> Markup:
    alarms = run.headline.alarms if run.headline else ()
    if not alarms:
        return el("p", "Nothing.", class_="quiet")
    return el("ul", [el("li", text) for text in alarms], class_="short-list")


def _graphs(runs: Sequence[Shown]) -> Markup:
    drawn: dict[str, list[str]] = {}
    for run in runs:
        if run.drawing:
            drawn.setdefault(run.drawing, []).append(run.name)
    figures = [
        el(
            "figure",
            el("figcaption", ", ".join(names)) if len(runs) > 1 else None,
            # Its style sheet speaks of `text` and `.box`: kept in a tree of its own.
            el("div", el("template", Markup(svg), shadowrootmode="open"), class_="drawing"),
            class_="graph",
        )
        for svg, names in drawn.items()
    ]
    head = el(
        "div",
        el("h2", "The graph"),
        el("p", "The nodes and edges that these settings give. ", class_="about"),
        class_="section-head",
    )
    nothing = el("p", "The settings of the run cannot be drawn.", class_="quiet")
    return el("section", head, el("div", figures or nothing, class_="graphs"), class_="card")


def _settings(runs: Sequence[Shown]) -> Markup:
    facts = [_run_facts(run) for run in runs]
    rows = []
    for name in dict.fromkeys(name for facts_of_run in facts for name in facts_of_run):
        values = [facts_of_run.get(name, "–") for facts_of_run in facts]
        differs = len(set(values)) > 1
        rows.append(
            el(
                "tr",
                el("th", name, scope="row"),
                [el("td", value) for value in values],
                class_="differs" if differs else None,
            )
        )
    head = el("tr", el("td"), [el("th", run.name, scope="col") for run in runs])
    table = el(
        "table",
        el("thead", head) if len(runs) > 1 else None,
        el("tbody", rows),
        class_="side plain",
    )
    return el(
        "section",
        el("div", el("h2", "Settings and origin"), class_="section-head"),
        el("div", table, class_="scroll", tabindex="0"),
        class_="card",
    )


def _run_facts(run: Shown) -> dict[str, str]:
    manifest = run.directory.manifest
    settings = manifest.get("settings") or {}
    pipeline, backend = settings.get("pipeline") or {}, settings.get("backend") or {}
    debate, override = pipeline.get("debate") or {}, pipeline.get("debate_override") or {}
    data = manifest.get("data") or {}
    switched = [name for key, name in _SWITCHES if pipeline.get(key) is False]
    facts = {
        "Protocol": pipeline.get("protocol"),
        "Switched off": ", ".join(switched) or "nothing",
        "Debate": f"{debate.get('protocol')}, rounds: {debate.get('rounds')}, "
        f"order: {', '.join(map(str, debate.get('order') or []))}"
        if pipeline.get("enable_debate")
        else "none",
        "Gate": ", ".join(
            f"{k} {str(v).lower()}" for k, v in override.items() if not isinstance(v, dict)
        ),
        "Moderator": ", ".join((pipeline.get("moderator") or {}).get("rules") or []),
        "Backend": " ".join(str(backend[k]) for k in ("kind", "model") if backend.get(k)),
        "Temperature": backend.get("temperature"),
        "Seeds": ", ".join(map(str, manifest.get("seeds") or [])),
        # Only the file's name: where it lay on somebody's disk is nobody's business.
        "Data": str(data.get("path") or "").replace("\\", "/").rpartition("/")[2],
        "Data SHA-256": str(data.get("sha256") or "")[:16],
        "Run": manifest.get("run_id"),
        "Versions": ", ".join(f"{k} {v}" for k, v in (manifest.get("versions") or {}).items()),
    }
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}
