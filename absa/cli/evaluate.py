"""`absa evaluate`: scores a run against gold and shows the effect of the debate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from absa.cli import options
from absa.cli.options import complain, console, numbers_table, print_json
from absa.show import printable

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


Metrics = Mapping[str, Any]
_BREAKDOWN = {
    "aspects": {
        "explicit": "aspects explicit",
        "implicit": "some implicit",
        "none": "no aspect",
    },
    "polarities": {"conflict": "conflict", "no_conflict": "no conflict"},
}


def evaluate(
    directory: options.RunDir,
    as_json: Annotated[bool, typer.Option("--json", help="Print metrics.json.")] = False,
) -> None:
    """Score a run against its gold annotations.

    Shows what the debate changed for better or worse. Writes metrics.json and
    structural_metrics.csv into DIR. Without gold only process metrics are computed.
    docs/reference/metrics.md explains each number.
    """
    from absa.metrics import GoldError, write
    from absa.metrics import evaluate as evaluate_run

    try:
        with console(stderr=True).status("evaluating…"):
            metrics = evaluate_run(directory)
            write(directory, metrics)
    except GoldError as error:
        complain(str(error))
        raise typer.Exit(1) from error
    if as_json:
        print_json(metrics, indent=2)
    else:
        show(metrics, directory)


def show(metrics: Metrics, directory: Path) -> None:
    """Print the headline, then the tables."""
    out = console()
    gold = metrics["gold"]
    out.print(
        f"{printable(str(directory))}: {metrics['process']['samples']:,} outputs, "
        f"{gold['scored']:,} scored against gold (scorer {metrics['scorer_version']})"
    )
    out.print()
    quality = metrics["quality"]
    if quality is None:
        out.print("no gold: process metrics only", style="bold yellow")
    elif quality["changes"] is not None:
        out.print(_headline(metrics))
        for line in _gains(quality, "sample runs" if "per_seed" in metrics else "samples"):
            out.print(line)
    for line in _alerts(metrics):
        out.print(line)
    if quality is not None:
        _section("Quality", _quality_table(quality))
        if quality["changes"] is not None:
            _section("What became of the samples", _changes_table(quality["changes"]))
            _section("Breakdown", _breakdown_table(quality["breakdown"]))
    if "per_seed" in metrics:
        _section("Seeds", _seeds_table(metrics))
    _section("Process", _process_table(metrics["process"]))
    _section("Cost", _cost_table(metrics["cost"]))
    out.print()
    out.print(f"written: metrics.json, structural_metrics.csv in {directory}", style="dim")


def _section(title: str, table: Table) -> None:
    out = console()
    out.print()
    out.print(title, style="bold")
    out.print(table)


# The headline ------------------------------------------------------------------------------------


def _headline(metrics: Metrics) -> Table:
    table = numbers_table("pair F1, %", "Stage 1", "final", "difference")
    means = metrics.get("mean_over_seeds")
    for matching in ("strict", "overlap"):
        values = []
        for stage in ("stage1", "final"):
            name = f"quality.{stage}.pair.{matching}.f1"
            pair = metrics["quality"][stage]["pair"]
            values.append(means[name]["mean"] if means else pair[matching]["f1"]["rate"])
        title = f"{matching}, mean of {len(metrics['seeds'])} seeds" if means else matching
        table.add_row(title, *map(_percent, values), _difference(*values))
    return table


def _gains(quality: Metrics, counted: str) -> Iterator[Text]:
    from rich.text import Text

    for matching in ("strict", "overlap"):
        became = quality["changes"][matching]
        gain = became["net_gain"]
        low, high = gain["interval95"]["low"], gain["interval95"]["high"]
        style, verdict = "yellow", "includes zero: no gain shown"
        if not became["fix"]["numerator"] and not became["break"]["numerator"]:
            verdict = "no sample became right or wrong"
        elif low > 0:
            style, verdict = "green", "above zero"
        elif high < 0:
            style, verdict = "red", "below zero"
        yield Text.assemble(
            (f"net gain, {matching}: ", "bold"),
            f"{gain['value']:+d} of {gain['samples']:,} {counted} "
            f"(fix {became['fix']['numerator']}, break {became['break']['numerator']}), "
            f"95 % interval {low:+.0f} to {high:+.0f}, ",
            (verdict, style),
        )


def _alerts(metrics: Metrics) -> Iterator[Text]:
    from rich.text import Text

    quality = metrics["quality"] or {}
    for level, sign in quality.get("sign", {}).items():
        if sign["disagree"]:
            yield Text.assemble(
                ("careful ", "bold yellow"),
                f"strict and overlap scoring disagree about the {level} F1: "
                f"{_points(sign['strict_difference'])} and {_points(sign['overlap_difference'])}",
            )
    for warning in metrics["warnings"]:
        style = "bold red" if warning["severity"] == "high" else "bold yellow"
        yield Text.assemble(
            (f"warning ({warning['severity']}) ", style),
            f"{warning['metric']} is {warning['value']:.2f} (limit {warning['threshold']}): "
            f"{warning['tip']}",
        )
    if dead := metrics["dead_gates"]:
        named = ", ".join(f"{gate['gate']} ({gate['reached']:,})" for gate in dead)
        yield Text.assemble(("never fired (times reached): ", "bold"), named)
    for note in metrics["notes"]:
        yield Text.assemble(("note ", "bold"), note)


# The tables --------------------------------------------------------------------------------------

_TASKS = {"tasd": "TASD F1", "asqp": "ASQP/ACOS F1", "acsa": "ACSA F1"}


def _quality_table(quality: Metrics) -> Table:
    table = numbers_table("%", "Stage 1", "final", "difference", "final P", "final R", "gold")
    stage1, final = quality["stage1"], quality["final"]
    scores = [
        (f"{level} F1, {matching}", stage1[level][matching], final[level][matching])
        for level in ("aspect", "pair", "triplet")
        for matching in ("strict", "overlap", "span")
        if final[level] is not None
    ]
    scores += [(title, stage1[task], final[task]) for task, title in _TASKS.items() if final[task]]
    for title, one, two in scores:
        table.add_row(
            title,
            *_before_after(one["f1"]["rate"], two["f1"]["rate"]),
            _percent(two["precision"]["rate"]),
            _percent(two["recall"]["rate"]),
            f"{two['recall']['denominator']:,}",
        )
    one, two = (stage["unnamed"]["predicted"] for stage in (stage1, final))
    if one or two:
        table.add_row("unnamed predictions", f"{one:,}", f"{two:,}", "", "", "", "")
    if final["implicit"] is not None:
        one, two = (stage["implicit"]["pair"]["recall"] for stage in (stage1, final))
        shown = _before_after(one["rate"], two["rate"])
        table.add_row("implicit, recall", *shown, "", "", f"{two['denominator']:,}")
    classified = []
    if final["polarity_of_matched"] is not None:
        matched = (stage["polarity_of_matched"]["strict"] for stage in (stage1, final))
        classified.append(("polarity", *matched))
    if final["label"] is not None:
        classified.append(("label", stage1["label"], final["label"]))
    for title, one, two in classified:
        accuracy = _before_after(one["accuracy"]["rate"], two["accuracy"]["rate"])
        counted = f"{two['accuracy']['denominator']:,}"
        table.add_row(f"{title} accuracy", *accuracy, "", "", counted)
        macro = _before_after(one["macro_f1"], two["macro_f1"])
        table.add_row(f"{title} macro-F1", *macro, "", "", counted)
    if source := quality["label_source"]:
        labels = ", ".join(f"{number:,} {name}" for name, number in source.items())
        table.caption = f"gold labels: {labels}"
    return table


def _changes_table(changes: Metrics) -> Table:
    names = ("fix", "break", "keep", "still_wrong")
    table = numbers_table("", *(name.replace("_", " ") for name in names), "net gain", "of")
    for kind, became in changes.items():
        title = "tuples, strict" if kind == "tuples" else f"samples, {kind}"
        gain = became["net_gain"]
        net = gain["numerator"] if kind == "tuples" else gain["value"]
        counts = [f"{became[name]['numerator']:,}" for name in names]
        table.add_row(title, *counts, f"{net:+,}", f"{became['fix']['denominator']:,}")
    return table


def _breakdown_table(breakdown: Metrics) -> Table:
    table = numbers_table(
        "sentences", "number", "pair F1", "final", "+/-", "exact", "final", "net gain"
    )
    for kind, groups in breakdown.items():
        for name, group in groups.items():
            if kind == "polarities" and name == "no_conflict":
                continue
            title = _BREAKDOWN.get(kind, {}).get(name, f"{kind} {name}")
            stages = ("stage1", "final")
            scored = group["gold_terms"] > 0
            f1 = [group[s]["pair"]["strict"]["f1"]["rate"] if scored else None for s in stages]
            exact = [_percent(group["exact_match"][s]["strict"]["rate"]) for s in stages]
            net = f"{group['changes']['strict']['net_gain']['value']:+d}"
            number = f"{group['samples']:,}"
            table.add_row(title, number, *_before_after(*f1), *exact, net)
    table.caption = "strict; exact: all tuples of the sentence right; left Stage 1, right final"
    return table


def _seeds_table(metrics: Metrics) -> Table:
    table = numbers_table("seed", "pair F1: Stage 1", "final", "difference", "net gain", "adopted")
    for seed, part in metrics["per_seed"].items():
        quality = part["quality"]
        scored = quality is not None and quality["changes"] is not None
        values: list[float | None] = [None, None]
        net = "–"
        if scored:
            values = [quality[s]["pair"]["strict"]["f1"]["rate"] for s in ("stage1", "final")]
            net = f"{quality['changes']['strict']['net_gain']['value']:+d}"
        adopted = _percent(part["process"]["adoption_rate"]["rate"])
        table.add_row(seed, *_before_after(*values), net, adopted)
    return table


def _process_table(process: Metrics) -> Table:
    from absa.metrics.evaluation import flat

    table = numbers_table("", "number", "of", "rate")
    for name, rate in flat(process):
        # Rates without any sample are not shown. metrics.json lists them as vacuous.
        if not isinstance(rate, Mapping):
            continue
        if rate["denominator"] and (rate["numerator"] or "." not in name):
            value = rate["rate"]
            each = name.endswith("_per_sample")
            shown = f"{value:.2f}" if each else f"{_percent(value)} %"
            counts = (f"{rate['numerator']:,}", f"{rate['denominator']:,}")
            table.add_row(name.removesuffix("_rate"), *counts, shown)
    return table


def _cost_table(cost: Metrics) -> Table:
    table = numbers_table("node", "calls", "cached", "retries", "tokens", "output", "ms", "ms each")
    table.columns[0].no_wrap = True
    rows = {**cost["per_node"], "all": cost}
    for node, spent in rows.items():
        table.add_row(
            node,
            *(f"{spent[name]:,}" for name in ("calls", "cached_calls", "retries")),
            *(f"{spent[name]:,}" for name in ("prompt_tokens", "completion_tokens")),
            f"{spent['latency_ms']:,.0f}",
            f"{spent['latency_ms'] / spent['calls']:,.1f}" if spent["calls"] else "–",
        )
    each = cost["per_sample"]
    waited = each["critical_path_ms"]
    table.caption = (
        f"a sample waits {waited:,.1f} ms for {cost['longest_chain_of_calls']} calls in a row; "
        f"cost {_dollars(cost['cost_usd'])}, {_dollars(each['cost_usd'])} a sample"
        if waited is not None
        else "no samples"
    )
    return table


# Numbers -----------------------------------------------------------------------------------------


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _points(value: float) -> str:
    shown = f"{100 * value:+.1f}"
    return "0.0" if float(shown) == 0 else shown


def _difference(one: float | None, two: float | None) -> str:
    return "–" if one is None or two is None else _points(two - one)


def _before_after(one: float | None, two: float | None) -> tuple[str, str, str]:
    return _percent(one), _percent(two), _difference(one, two)


def _dollars(value: float | None) -> str:
    return "unknown" if value is None else f"${value:,.4f}"
