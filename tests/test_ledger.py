"""The ledger of a run: every call by node and model, adding up to what the manifest says."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from absa.backends.openai import OpenAIBackend
from absa.metrics.cost import CostTally
from absa.report.ledger import COLUMNS, ledger
from absa.report.tally import NodeCost
from absa.runs import RunPlan, run
from absa.schemas.records import CallRecord
from absa.schemas.settings import BackendSettings, Settings
from benchmarks.answers import ANSWERS, TEXT
from benchmarks.fault_server import serving


def rows_of(html: str) -> list[list[str]]:
    """The cells of each row of a table."""
    rows = re.findall(r"<tr.*?</tr>", html, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in cells]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of three samples with two models; one sample fails."""
    prices = tmp_path / "prices.json"
    prices.write_text('{"small": {"input": 1, "output": 0}, "large": {"input": 10, "output": 0}}')
    monkeypatch.setenv("ABSA_PRICES", str(prices))
    texts = [TEXT, f"{TEXT} 2", f"{TEXT} FILTERED"]
    rows = [{"uid": f"s{n}", "text": text, "lang": "ko"} for n, text in enumerate(texts)]
    data = tmp_path / "data.jsonl"
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with serving(ANSWERS, first=("500",)) as server:
        backend = BackendSettings(
            kind="openai",
            model="small",
            base_url=f"http://127.0.0.1:{server.port}/v1",
            roles={"judge": {"model": "large"}},
        )
        plan = RunPlan(
            data, tmp_path / "run", Settings(backend=backend), cache_path=tmp_path / "answers.db"
        )
        report = asyncio.run(
            run(plan, backend_for=lambda asked: OpenAIBackend(asked, backoff_s=0.01))
        )
    assert (report.totals.done, report.totals.failed) == (2, 1)
    return tmp_path / "run"


def calls_in(directory: Path) -> list[CallRecord]:
    lines = (directory / "traces.jsonl").read_text("utf-8").splitlines()
    names = CallRecord.model_fields
    return [
        CallRecord(**{key: value for key, value in json.loads(line).items() if key in names})
        for line in lines
    ]


def test_ledger_adds_up_to_the_manifest(records: Path) -> None:
    usage = json.loads((records / "manifest.json").read_text("utf-8"))["usage"]
    costs: dict[tuple[str, str], NodeCost] = {}
    for call in calls_in(records):
        costs.setdefault((call.node, str(call.model)), NodeCost()).add(call)
    head, *rows = rows_of(str(ledger(costs, usage, usage["cost_usd"])))
    assert tuple(head) == COLUMNS
    by_name = {(row[0], row[1]): dict(zip(head, row, strict=True)) for row in rows}
    # Each of the two answered samples was asked twice, as the first request of each call failed.
    assert by_name["judge", "large"]["Attempts"] == "4"
    assert by_name["judge", "large"]["US$"] == "0.0020"
    assert by_name["all", "small"]["Calls"] == "18"
    assert by_name["failed samples", ""]["Attempts"] == "–"
    total = by_name["all", ""]
    assert total["Calls"] == str(usage["calls"])
    assert total["Tokens in"].replace(",", "") == str(usage["prompt_tokens"])
    assert total["US$"] == f"{usage['cost_usd']:.4f}"


def test_ledger_of_the_metrics_is_by_node_and_model(records: Path) -> None:
    tally = CostTally()
    tally.add(calls_in(records))
    summary = tally.summary()
    rows = {(row["node"], row["model"]): row for row in summary["ledger"]}
    assert len(rows) == 10
    assert rows["judge", "large"]["calls"] == rows["judge", "large"]["retries"] == 2
    assert sum(row["prompt_tokens"] for row in rows.values()) == summary["prompt_tokens"]


def test_unknown_price_is_an_unknown_cost_in_its_row_and_in_the_sum() -> None:
    known, unknown = NodeCost(calls=1, cost=0.5), NodeCost(calls=1, cost=None)
    costs = {("ate", "a"): known, ("atsa", "b"): unknown}
    rows = {(row[0], row[1]): row for row in rows_of(str(ledger(costs, {}, None)))}
    assert rows["ate", "a"][-1] == "0.5000"
    assert rows["atsa", "b"][-1] == rows["all", ""][-1] == "?"
