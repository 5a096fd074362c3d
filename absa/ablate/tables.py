"""Tables as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from absa.ablate.measuring import LABEL, METRICS, PRIMARY, TITLES
from absa.ablate.sweep import WARNING
from absa.ablate.verdict import points

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A table whose first columns are text and whose other columns are numbers."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    text_columns: int = 1

    def markdown(self) -> Iterator[str]:
        """The lines of a Markdown table under a heading."""
        yield f"## {self.title}"
        yield ""
        yield _markdown_row(self.columns)
        text = self.text_columns
        yield _markdown_row(["---"] * text + ["---:"] * (len(self.columns) - text))
        yield from map(_markdown_row, self.rows)
        if self.note:
            yield ""
            yield self.note

    def latex(self) -> Iterator[str]:
        """The lines of a LaTeX table (package booktabs)."""
        columns = "l" * self.text_columns + "r" * (len(self.columns) - self.text_columns)
        yield r"% \usepackage{booktabs}"
        yield r"\begin{table}"
        yield r"  \centering"
        note = f" {self.note}" if self.note else ""
        yield rf"  \caption{{{latex_text(self.title)}.{latex_text(note)}}}"
        yield rf"  \label{{tab:{self.name.replace('_', '-')}}}"
        yield rf"  \begin{{tabular}}{{{columns}}}"
        yield r"    \toprule"
        yield _latex_row(self.columns)
        yield r"    \midrule"
        yield from map(_latex_row, self.rows)
        yield r"    \bottomrule"
        yield r"  \end{tabular}"
        yield r"\end{table}"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _latex_row(cells: Sequence[str]) -> str:
    return f"    {' & '.join(map(latex_text, cells))} " + r"\\"


_LATEX = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": "$-$",
    "<": "$<$",
    ">": "$>$",
}


def latex_text(text: str) -> str:
    """Escape special LaTeX characters and format minus signs."""
    safe = "".join(_LATEX.get(c, c) for c in text)
    return f"${safe}$" if safe[:1] in ("+", "-") and safe[1:].replace(".", "").isdigit() else safe


def csv_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The numbers in full precision; unknown values are empty."""
    if not rows:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    yield from text.getvalue().removesuffix("\n").split("\n")


# The tables of a study ---------------------------------------------------------------------------


def tables(results: Mapping[str, Any], *, brief: bool = False) -> list[Table]:
    """All tables of `ablation.json`. With `brief` they fit into 80 columns."""
    made = []
    if results.get("configurations"):
        made += [scores(results, brief=brief), comparisons(results, brief=brief), cost(results)]
    if results.get("cost_line"):
        made.append(quality_by_cost(results, brief=brief))
    if results.get("sweep"):
        made.append(swept(results["sweep"]))
    return made


Row = Mapping[str, Any]
Columns = Mapping[str, Callable[[Row], str]]
"""The titles of a table's columns, each with a function from a row to its cell."""


def _table(name: str, title: str, columns: Columns, rows: Iterable[Row], note: str) -> Table:
    cells = tuple(tuple(cell(row) for cell in columns.values()) for row in rows)
    return Table(name, title, tuple(columns), cells, note)


def scores(results: Row, *, brief: bool = False) -> Table:
    """The scores of each configuration with 95 % intervals, in percent."""
    configurations = results["configurations"]

    def score(metric: str) -> Callable[[Row], str]:
        if brief and metric != PRIMARY:
            return lambda one: _percent(one["scores"][metric]["value"])
        return lambda one: _interval(one["scores"][metric])

    return _table(
        "scores",
        "Scores in per cent, with 95 % bootstrap intervals",
        {
            "configuration": lambda one: one["name"],
            **{TITLES[m]: score(m) for m in METRICS if configurations[0]["scores"][m] is not None},
            "exact match": lambda one: _percent(one["exact_match"]["rate"]),
        },
        configurations,
        f"{results['samples']['compared']:,} samples that every configuration analyzed.",
    )


def comparisons(results: Row, *, brief: bool = False) -> Table:
    """The differences of the debate and each other configuration."""

    def exact_pairs(one: Row) -> str:
        return f"{one['mcnemar']['only_debate_right']} : {one['mcnemar']['only_other_right']}"

    overlap: Columns = {
        "overlap": lambda one: points(one["differences"]["pair_overlap_f1"]["value"])
    }
    return _table(
        "comparisons",
        f"{results['roles']['debate']} less each other configuration, in points",
        {
            "other": lambda one: one["other"],
            "pair F1, strict": lambda one: _difference(one["differences"][PRIMARY]),
            "p": lambda one: _p(one["p_holm"]),
            **({} if brief else overlap),
            "only this : other exact": exact_pairs,
            "McNemar p": lambda one: _p(one["mcnemar"]["p_holm"]),
            "could have shown": lambda one: _percent(one["smallest_shown"]),
        },
        results["comparisons"],
        "95 % intervals by paired bootstrap over samples; p by paired randomisation; McNemar's "
        "exact test on samples whose tuples are exactly the gold's; both p corrected by Holm for "
        f"{len(results['comparisons'])} comparisons. Could have shown: the smallest "
        "true difference that this many samples show in 80 % of all cases, "
        "(z(0.975) + z(0.8)) times the bootstrap standard error.",
    )


def cost(results: Row) -> Table:
    """The cost per sample of each configuration if it ran alone."""

    def each(name: str, digits: int) -> Callable[[Row], str]:
        return lambda one: _number(one["cost"]["per_sample"][name], digits)

    return _table(
        "cost",
        "Cost of a sample, each configuration by itself",
        {
            "configuration": lambda one: one["name"],
            "calls": each("calls", 1),
            "prompt tokens": each("prompt_tokens", 0),
            "output tokens": each("completion_tokens", 0),
            "US dollars": each("cost_usd", 5),
            "ms, sum": each("latency_ms", 0),
            "ms, critical path": each("critical_path_ms", 0),
            "cache hits in all": lambda one: f"{one['cost']['cache_hits']:,}",
        },
        results["configurations"],
        "A call that another configuration paid for is counted at what it cost there.",
    )


def quality_by_cost(results: Row, *, brief: bool = False) -> Table:
    """Quality and cost of each configuration, and whether it is on the Pareto front."""
    # The table of costs has these, too.
    costs: Columns = {
        "tokens": lambda one: _number(one["tokens"], 0),
        "US dollars": lambda one: _number(one["cost_usd"], 5),
    }
    line = results["cost_line"]
    equal = {one["name"]: one for one in line["equal_calls"]}

    def against_vote(part: str, shown: Callable[[Row], str]) -> Callable[[Row], str]:
        return lambda one: shown(equal[one["name"]][part]) if one["name"] in equal else NOTHING

    return _table(
        "cost_line",
        "Quality against cost, the cheapest first",
        {
            "configuration": lambda one: one["name"],
            "calls": lambda one: _number(one["calls"], 1),
            **({} if brief else costs),
            "pair F1, strict": _interval,
            "Pareto front": lambda one: "yes" if one["pareto"]["calls"] else "",
            "vote of as many calls": against_vote("vote", lambda vote: _percent(vote["value"])),
            "difference": against_vote("difference", _difference),
        },
        sorted(line["points"], key=lambda p: (p["calls"], -p["value"])),
        "Calls, tokens and dollars per text. On the Pareto front no other configuration is at "
        "least as cheap in calls and better. A vote of as many calls has the recorded calls of "
        f"{results['roles']['vote'] or 'a vote, which is missing'}; of a broken number it is the "
        "mean of the two nearest.",
    )


def swept(sweep: Row) -> Table:
    """The points of a sweep; the first one is the recorded run."""
    recorded = sweep["points"][0]

    def score(metric: str) -> Callable[[Row], str]:
        return lambda point: _percent(point["scores"][metric])

    def moved(part: str) -> Callable[[Row], str]:
        return lambda point: NOTHING if point is recorded else _difference(point[part])

    why = sweep["through_graph"]
    through = f"; decided by LangGraph, which takes longer: {why}" if why else ""
    return _table(
        "sweep",
        "Decision layer on recorded answers",
        {
            "settings": lambda point: point["name"],
            "pair F1, strict": score(PRIMARY),
            "difference": moved("difference"),
            "overlap": score("pair_overlap_f1"),
            "label accuracy": score(LABEL),
            "label difference": moved("label_difference"),
            "overrides": lambda point: f"{point['overrides_applied']:,}",
            "adopted": lambda point: f"{point['adopted']:,}",
        },
        sweep["points"],
        f"Exploratory: {WARNING}. {sweep['samples']:,} samples, no model called{through}.",
    )


def _interval(score: Mapping[str, float]) -> str:
    return f"{_percent(score['value'])} [{_percent(score['low'])}, {_percent(score['high'])}]"


def _difference(difference: Mapping[str, float]) -> str:
    low, high = points(difference["low"]), points(difference["high"])
    return f"{points(difference['value'])} [{low}, {high}]"


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f}"


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _number(value: float | None, digits: int) -> str:
    return "unknown" if value is None else f"{value:,.{digits}f}"
