"""Makes `ablation.json`, the tables and the verdict from run directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from absa import statistics
from absa.ablate.configurations import Configuration, Roles
from absa.ablate.constant import Constant
from absa.ablate.cost_line import cost_line
from absa.ablate.costs import costs
from absa.ablate.measuring import METRICS, PRIMARY, Measured, measure
from absa.ablate.sweep import WARNING
from absa.ablate.tables import csv_lines, tables
from absa.ablate.verdict import Against, Spent, decide
from absa.metrics import SCORER_VERSION
from absa.metrics.evaluation import flat
from absa.runs.artefacts import write_json, write_lines
from absa.scorecard import rate

FILE = "ablation.json"
VERDICT = "verdict.md"


@dataclass(frozen=True)
class Study:
    """The parameters of a comparison."""

    out: Path
    configurations: Sequence[Configuration]
    roles: Roles
    constant: Constant | None = None
    resamples: int = statistics.RESAMPLES
    seed: int = 0
    notes: Sequence[str] = ()


def study(plan: Study) -> dict[str, Any]:
    """Compare the finished runs in `plan.out`.

    Raises:
        AblationError: Nothing can be compared.
        NoRun: A run's files do not match.
        GoldError: The gold does not score 1.0 against itself.
    """
    measured = measure(plan.out, plan.configurations, plan.constant)
    spent = costs(plan.out, plan.configurations, measured.uids)
    results = compare(plan, measured, spent)
    results["cost_line"] = cost_line(
        plan.out,
        plan.configurations,
        plan.roles.vote,
        measured,
        {one["name"]: one["scores"][PRIMARY] for one in results["configurations"]},
        spent,
        resamples=plan.resamples,
        seed=plan.seed,
    )
    results["verdict"]["cost_line"] = " ".join(results["cost_line"]["sentences"])
    return results


def compare(plan: Study, measured: Measured, spent: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics and verdict from numbers per sample and costs per configuration."""
    at = measured.names.index(plan.roles.debate)
    scores, differences = statistics.bootstrap(
        measured.numbers, at, resamples=plan.resamples, seed=plan.seed
    )
    compared = _comparisons(plan, measured, at, differences)
    results: dict[str, Any] = {
        "scorer_version": SCORER_VERSION,
        "bootstrap": {
            "resamples": plan.resamples,
            "seed": plan.seed,
            "interval": statistics.CONFIDENCE,
            "method": "percentile",
        },
        "roles": asdict(plan.roles),
        "samples": measured.counts,
        "configurations": [
            {
                "name": one.name,
                "protocol": one.protocol,
                "settings": one.settings.model_dump(mode="json") if one.settings else None,
                "scores": {
                    metric: scores.at(number, k) if measured.has(metric) else None
                    for k, metric in enumerate(METRICS)
                },
                "exact_match": rate(int(measured.exact[:, number].sum()), len(measured.uids)),
                "cost": spent[one.name],
            }
            for number, one in enumerate(plan.configurations)
        ],
        "comparisons": compared,
        "constant": plan.constant.as_json() if plan.constant else None,
    }
    verdict = decide(
        plan.roles.debate,
        _spent(spent[plan.roles.debate]),
        len(measured.uids),
        _against(compared, plan.roles.single, spent),
        _against(compared, plan.roles.vote, spent),
    )
    results["verdict"] = verdict.as_json()
    results["notes"] = [*plan.notes, *measured.notes, *verdict.notes, *_doubts(plan, spent)]
    return results


def _comparisons(
    plan: Study, measured: Measured, at: int, differences: statistics.Interval
) -> list[dict[str, Any]]:
    primary = METRICS.index(PRIMARY)
    comparisons: list[dict[str, Any]] = []
    for other, name in enumerate(measured.names):
        if other == at:
            continue
        numbers = measured.numbers[:, :, primary]
        p = statistics.randomisation(
            numbers[:, at], numbers[:, other], resamples=plan.resamples, seed=plan.seed
        )
        error = float(differences.error[other, primary])
        comparisons.append(
            {
                "other": name,
                "differences": {
                    metric: differences.at(other, k) if measured.has(metric) else None
                    for k, metric in enumerate(METRICS)
                },
                "samples_that_differ": int((numbers[:, at] != numbers[:, other]).any(1).sum()),
                "p": p,
                "standard_error": error,
                "smallest_shown": statistics.smallest_shown(error),
                "mcnemar": statistics.mcnemar(measured.exact[:, at], measured.exact[:, other]),
            }
        )
    for one, p in zip(comparisons, statistics.holm([c["p"] for c in comparisons]), strict=True):
        one["p_holm"] = p
    exact = statistics.holm([c["mcnemar"]["p"] for c in comparisons])
    for one, p in zip(comparisons, exact, strict=True):
        one["mcnemar"]["p_holm"] = p
    return comparisons


def _spent(cost: Mapping[str, Any]) -> Spent:
    each = cost["per_sample"]
    return Spent(each["distinct_calls"], each["cost_usd"])


def _against(
    compared: Sequence[Mapping[str, Any]], name: str | None, spent: Mapping[str, Any]
) -> Against | None:
    if name is None:
        return None
    comparison = next(c for c in compared if c["other"] == name)
    strict = comparison["differences"][PRIMARY]
    return Against(
        name=name,
        difference=strict["value"],
        low=strict["low"],
        high=strict["high"],
        p_holm=comparison["p_holm"],
        smallest_shown=comparison["smallest_shown"],
        samples_that_differ=comparison["samples_that_differ"],
        overlap_difference=comparison["differences"]["pair_overlap_f1"]["value"],
        spent=_spent(spent[name]),
    )


def _doubts(plan: Study, spent: Mapping[str, Any]) -> list[str]:
    notes = []
    for name, cost in spent.items():
        if unknown := cost["calls_of_unknown_cost"]:
            notes.append(
                f"{name}: an earlier run paid for {unknown} answers, so the cost is unknown; "
                "use --own-cache to request them again"
            )
    vote = plan.roles.vote
    same = spent[vote]["repeated_calls_unanimous"] if vote else None
    if same and same["numerator"] == same["denominator"]:
        notes.append(
            f"{vote}: in every sample all calls gave the same answer, so the vote equals a single "
            "call (does the backend use a temperature above 0?)"
        )
    return notes


# Files -------------------------------------------------------------------------------------------


def write(out: Path, results: Mapping[str, Any]) -> list[Path]:
    """Write all files into the directory of the study; return their names."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / FILE, dict(results))
    written = [out / FILE]
    made = tables(results)
    for table in made:
        lines = {
            "csv": csv_lines(_csv_rows(table.name, results)),
            "md": table.markdown(),
            "tex": table.latex(),
        }
        for suffix, text in lines.items():
            path = out / f"{table.name}.{suffix}"
            write_lines(path, text)
            written.append(path)
    write_lines(out / VERDICT, _verdict_lines(results, [t.markdown() for t in made]))
    return [*written, out / VERDICT]


def _csv_rows(table: str, results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same rows in full precision, under dotted names."""
    match table:
        case "scores":
            parts = [
                {"name": c["name"], "scores": c["scores"], "exact_match": c["exact_match"]}
                for c in results["configurations"]
            ]
        case "comparisons":
            parts = [{"name": c["other"], **c} for c in results["comparisons"]]
        case "cost_line":
            parts = results["cost_line"]["points"]
        case "cost":
            parts = [{"name": c["name"], **c["cost"]} for c in results["configurations"]]
        case _:
            parts = [{**p, "changes": None} for p in results["sweep"]["points"]]
    rows: list[dict[str, Any]] = []
    for part in parts:
        numbers = {
            name: value["rate"] if isinstance(value, Mapping) else value
            for name, value in flat(part)
        }
        rows.append({"name": part["name"], **numbers})
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if table == "sweep":
        columns.append("warning")
        rows = [{**row, "warning": WARNING} for row in rows]
    return [{name: row.get(name) for name in columns} for row in rows]


def _verdict_lines(results: Mapping[str, Any], made: Sequence[Any]) -> list[str]:
    lines = ["# Did the debate help?", ""] if "verdict" in results else ["# Sweep", ""]
    if "verdict" in results:
        lines += [results["verdict"]["sentence"], "", results["verdict"]["cost_line"], ""]
    for note in results.get("notes", ()):
        lines += [f"- {note}"]
    for table in made:
        lines += ["", *table]
    return lines
