"""Tables as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
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
        made.append(quality_by_cost(results))
    if results.get("sweep"):
        made.append(swept(results["sweep"]))
    return made


def scores(results: Mapping[str, Any], *, brief: bool = False) -> Table:
    """The scores of each configuration with 95 % intervals, in percent."""
    shown = [m for m in METRICS if results["configurations"][0]["scores"][m] is not None]
    rows = []
    for one in results["configurations"]:
        cells = [
            _percent(one["scores"][metric]["value"])
            if brief and metric != PRIMARY
            else _interval(one["scores"][metric])
            for metric in shown
        ]
        exact = one["exact_match"]
        rows.append((one["name"], *cells, _percent(exact["rate"])))
    return Table(
        "scores",
        "Scores in per cent, with 95 % bootstrap intervals",
        ("configuration", *(TITLES[m] for m in shown), "exact match"),
        tuple(rows),
        f"{results['samples']['compared']:,} samples that every configuration analysed.",
    )


def comparisons(results: Mapping[str, Any], *, brief: bool = False) -> Table:
    """The differences of the debate and each other configuration."""
    rows = []
    for one in results["comparisons"]:
        strict, overlap = one["differences"][PRIMARY], one["differences"]["pair_overlap_f1"]
        test = one["mcnemar"]
        least = one["smallest_shown"]
        rows.append(
            (
                one["other"],
                _difference(strict),
                _p(one["p_holm"]),
                *(() if brief else (points(overlap["value"]),)),
                f"{test['only_debate_right']} : {test['only_other_right']}",
                _p(test["p_holm"]),
                NOTHING if least is None else f"{100 * least:.1f}",
            )
        )
    return Table(
        "comparisons",
        f"{results['roles']['debate']} less each other configuration, in points",
        (
            *("other", "pair F1, strict", "p", *(() if brief else ("overlap",))),
            *("only this : other exact", "McNemar p", "could have shown"),
        ),
        tuple(rows),
        "95 % intervals by paired bootstrap over samples; p by paired randomisation; McNemar's "
        "exact test on samples whose tuples are exactly the gold's; both p corrected by Holm for "
        f"{len(rows)} comparisons. Could have shown: the smallest "
        "true difference that this many samples show in 80 % of all cases, "
        "(z(0.975) + z(0.8)) times the bootstrap standard error.",
    )


def cost(results: Mapping[str, Any]) -> Table:
    """The cost per sample of each configuration if it ran alone."""
    rows = []
    for one in results["configurations"]:
        each = one["cost"]["per_sample"]
        dollars = each["cost_usd"]
        rows.append(
            (
                one["name"],
                _number(each["calls"], 1),
                _number(each["prompt_tokens"], 0),
                _number(each["completion_tokens"], 0),
                "unknown" if dollars is None else f"{dollars:.5f}",
                _number(each["latency_ms"], 0),
                _number(each["critical_path_ms"], 0),
                f"{one['cost']['cache_hits']:,}",
            )
        )
    return Table(
        "cost",
        "Cost of a sample, each configuration by itself",
        (
            *("configuration", "calls", "prompt tokens", "output tokens", "US dollars"),
            *("ms, sum", "ms, critical path", "cache hits in all"),
        ),
        tuple(rows),
        "A call that another configuration paid for is counted at what it cost there.",
    )


def quality_by_cost(results: Mapping[str, Any]) -> Table:
    """Quality and cost of each configuration, and whether it is on the Pareto front."""
    line = results["cost_line"]
    equal = {one["name"]: one for one in line["equal_calls"]}
    rows = []
    for one in sorted(line["points"], key=lambda p: (p["calls"], -p["value"])):
        rival = equal.get(one["name"])
        dollars = one["cost_usd"]
        rows.append(
            (
                one["name"],
                _number(one["calls"], 1),
                _number(one["tokens"], 0),
                "unknown" if dollars is None else f"{dollars:.5f}",
                _interval(one),
                "yes" if one["pareto"]["calls"] else "",
                _percent(rival["vote"]["value"]) if rival else NOTHING,
                _difference(rival["difference"]) if rival else NOTHING,
            )
        )
    return Table(
        "cost_line",
        "Quality against cost, the cheapest first",
        (
            *("configuration", "calls", "tokens", "US dollars", "pair F1, strict"),
            *("Pareto front", "vote of as many calls", "difference"),
        ),
        tuple(rows),
        "Calls, tokens and dollars per text. On the Pareto front no other configuration is at "
        "least as cheap in calls and better. A vote of as many calls has the recorded calls of "
        f"{results['roles']['vote'] or 'a vote, which is missing'}; of a broken number it is the "
        "mean of the two nearest.",
    )


def swept(sweep: Mapping[str, Any]) -> Table:
    """The points of a sweep."""
    rows = []
    for at, point in enumerate(sweep["points"]):
        moved, label_moved = (
            _difference(point[what]) if at else NOTHING
            for what in ("difference", "label_difference")
        )
        values = point["scores"]
        rows.append(
            (
                point["name"],
                _percent(values[PRIMARY]),
                moved,
                _percent(values["pair_overlap_f1"]),
                _percent(values[LABEL]),
                label_moved,
                f"{point['overrides_applied']:,}",
                f"{point['adopted']:,}",
            )
        )
    why = sweep["through_graph"]
    through = f"; decided by LangGraph, which takes longer: {why}" if why else ""
    return Table(
        "sweep",
        "Decision layer on recorded answers",
        (
            *("settings", "pair F1, strict", "difference", "overlap"),
            *("label accuracy", "label difference", "overrides", "adopted"),
        ),
        tuple(rows),
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
