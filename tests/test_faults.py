"""A run against a server that fails in every way: nothing lost, nothing twice, nothing invented."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from openai_server import free_port_url

from absa.backends import meter
from absa.backends.meter import Budget
from absa.backends.openai import OpenAIBackend
from absa.runs import RunPlan, run
from absa.runs.plan import RunReport
from absa.runs.verify import verify
from absa.schemas.errors import BackendError
from absa.schemas.settings import BackendSettings, PipelineSettings, RoleSettings, Settings
from benchmarks.answers import ANSWERS, TEXT
from benchmarks.fault_server import GARBLED, LASTING, PASSING, serving

# `benchmarks.faulty_server` has five hundred, with six seeds.
SAMPLES = 100
RETRIES = 5
EXPECTED = [
    {"aspect_term": "사용감", "polarity": "positive"},
    {"aspect_term": "가격", "polarity": "negative"},
]


def write_data(path: Path, texts: list[str]) -> Path:
    rows = [{"uid": f"s{n}", "text": text, "lang": "ko"} for n, text in enumerate(texts)]
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run_against(
    port: int,
    data: Path,
    out: Path,
    *,
    pipeline: PipelineSettings | None = None,
    retries: int = RETRIES,
    roles: dict[str, RoleSettings] | None = None,
    timeout_s: float = 30.0,
    **plan: Any,
) -> RunReport:
    backend = BackendSettings(
        kind="openai",
        model="served",
        base_url=f"http://127.0.0.1:{port}/v1",
        max_retries=retries,
        timeout_s=timeout_s,
        max_concurrency=32,
        roles=roles or {},
    )
    settings = Settings(backend=backend, pipeline=pipeline or PipelineSettings())
    cache = out.parent / "answers.db"
    return asyncio.run(
        run(
            RunPlan(data=data, out=out, settings=settings, cache_path=cache, **plan),
            backend_for=lambda asked: OpenAIBackend(asked, backoff_s=0.01),
        )
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_fifth_of_the_calls_fails_and_every_sample_is_right_or_explained(tmp_path: Path) -> None:
    marks = {7: "FILTERED", 40: "TOO-LONG", 80: "REFUSED"}
    texts = [f"{TEXT} {n} {marks.get(n, '')}".strip() for n in range(SAMPLES)]
    data = write_data(tmp_path / "data.jsonl", texts)
    with serving(ANSWERS, share=0.2) as server:
        # Short, since some of the faults are answers that never come.
        report = run_against(server.port, data, tmp_path / "run", concurrency=32, timeout_s=0.6)
        faults, requests = server.faults, server.requests
    # Every kind of fault happened, about as often as it should have.
    assert set(faults) == {*PASSING, *GARBLED, *LASTING.values()}
    asked = sum(requests.values())
    assert 0.15 < sum(faults[kind] for kind in PASSING + GARBLED) / asked < 0.25

    outputs, errors = lines(tmp_path / "run/outputs.jsonl"), lines(tmp_path / "run/errors.jsonl")
    uids = Counter(line["uid"] for line in outputs + errors)
    assert uids == Counter({f"s{n}": 1 for n in range(SAMPLES)})
    assert {f"s{n}" for n in marks} <= {e["uid"] for e in errors}
    for output in outputs:
        final = output["final_result"]["final_tuples"]
        assert [{key: t[key] for key in ("aspect_term", "polarity")} for t in final] == EXPECTED
    for error in errors:
        assert error["reason"] and error["node"] and error["attempts"], error
    assert report.exit_code == 1
    # Three can never be answered; of the others hardly one is out of luck.
    others = [e for e in errors if e["uid"] not in {f"s{n}" for n in marks}]
    assert all(e["raw"] is not None for e in errors)
    assert len(others) <= 0.02 * SAMPLES
    # One budget for a question: its retries, the answer itself and one round of repair.
    assert max(requests.values()) <= RETRIES + 2
    # What was spent on the failed ones is counted too, and can be accounted for.
    manifest = json.loads((tmp_path / "run/manifest.json").read_text(encoding="utf-8"))
    assert manifest["usage"]["calls"] > 10 * len(outputs)
    assert not [v for check in verify(tmp_path / "run").checks for v in check.violations]


def test_a_server_that_is_gone_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data.jsonl", [f"{TEXT} {n}" for n in range(300)])
    with serving(ANSWERS, share=0.0) as server:
        port = server.port
    report = run_against(port, data, tmp_path / "run", retries=1, concurrency=16)
    assert report.status == "unfinished"
    assert "in a row were not answered" in str(report.stopped_because)
    # The calls of the samples that were in flight, not those of three hundred.
    assert report.totals.failed <= 16 + meter.GONE_AFTER
    assert report.totals.done == 0


@pytest.mark.parametrize("model", ["gone", None])
def test_one_role_without_its_server_stops_the_run(tmp_path: Path, model: str | None) -> None:
    data = write_data(tmp_path / "data.jsonl", [f"{TEXT} {n}" for n in range(60)])
    with serving(ANSWERS, share=0.0) as server:
        gone = RoleSettings(model=model, base_url=free_port_url())
        report = run_against(
            server.port, data, tmp_path / "run", retries=0, concurrency=2, roles={"judge": gone}
        )
    assert "judge: " in str(report.stopped_because)
    assert report.totals.failed <= 2 + meter.GONE_AFTER


@pytest.mark.parametrize("model", ["locked", None])
def test_one_role_without_its_key_stops_the_run(tmp_path: Path, model: str | None) -> None:
    data = write_data(tmp_path / "data.jsonl", [f"{TEXT} {n}" for n in range(60)])
    with serving(ANSWERS, share=0.0) as server:
        locked = RoleSettings(model=model, api_key_env="NO_SUCH_KEY_OF_THE_TESTS")
        report = run_against(
            server.port, data, tmp_path / "run", concurrency=2, roles={"judge": locked}
        )
    assert "NO_SUCH_KEY_OF_THE_TESTS" in str(report.stopped_because)
    assert report.totals.failed <= 2 + meter.GONE_AFTER


def test_a_budget_remembers_what_was_spent_on_unfinished_and_forgotten_samples(
    tmp_path: Path,
) -> None:
    data = write_data(tmp_path / "data.jsonl", [f"{TEXT} FILTERED", *(f"{TEXT} {n}" for n in "ab")])
    with serving(ANSWERS, share=0.0) as server:

        def spent(*, retry_failed: bool = False) -> dict[str, Any]:
            run_against(
                server.port,
                data,
                tmp_path / "run",
                budget=Budget(calls=6),
                concurrency=1,
                retry_failed=retry_failed,
            )
            manifest = (tmp_path / "run/manifest.json").read_text(encoding="utf-8")
            found: dict[str, Any] = json.loads(manifest)["spent"]
            return found

        # Three calls for the failure; the next sample is under way when three more are made.
        first = spent()
        assert first["calls"] == 6
        asked = +server.requests
        # Starting again buys nothing, and what the failure cost stays spent when it is forgotten.
        assert spent() == first
        assert spent(retry_failed=True) == first
        assert server.requests == asked


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (Budget(calls=35), "--budget-calls 35 is spent"),
        (Budget(tokens=3850), "--budget-tokens 3850 is spent"),
    ],
)
def test_a_budget_stops_the_run_and_a_larger_one_goes_on(
    tmp_path: Path, budget: Budget, why: str
) -> None:
    data = write_data(tmp_path / "data.jsonl", [f"{TEXT} {n}" for n in range(8)])
    with serving(ANSWERS, share=0.0) as server:
        first = run_against(server.port, data, tmp_path / "run", budget=budget, concurrency=2)
        asked = sum(server.requests.values())
        assert (first.status, first.totals.failed) == ("unfinished", 0)
        assert why in str(first.stopped_because)
        # What was under way may finish its call.
        assert 35 <= asked <= 35 + 6
        second = run_against(server.port, data, tmp_path / "run", concurrency=2)
        assert (second.status, second.totals.done) == ("finished", 8)
        # Nothing that was answered was asked again.
        assert set(server.requests.values()) == {1}


def test_a_budget_in_money_needs_a_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_data(tmp_path / "data.jsonl", [f"{TEXT} {n}" for n in range(8)])
    with serving(ANSWERS, share=0.0) as server:
        unknown = run_against(
            server.port, data, tmp_path / "run", budget=Budget(usd=1.0), concurrency=1
        )
        assert "the price of served is not known" in str(unknown.stopped_because)
        assert "ABSA_PRICES" in str(unknown.remedy)
        # Nothing was spent that could not be counted, so with a price the same run goes on.
        assert not server.requests
        prices = tmp_path / "prices.json"
        prices.write_text('{"served": {"input": 10.0, "output": 0.0}}', encoding="utf-8")
        monkeypatch.setenv("ABSA_PRICES", str(prices))
        # A call costs 100 tokens at 10 dollars a million: a tenth of a cent.
        known = run_against(
            server.port, data, tmp_path / "run", budget=Budget(usd=0.02), concurrency=1
        )
    assert "--budget-usd 0.02 is spent" in str(known.stopped_because)
    assert known.totals.done in (1, 2)


def test_an_answer_without_a_count_of_tokens_has_an_unknown_cost_also_if_it_failed() -> None:
    asked = meter.Meter(Budget(usd=1.0), meter.Spent())
    asked.failed("s0", BackendError("no connection", node="ate", details={"model": "m"}))
    assert asked.total.cost_usd == 0.0
    unreadable = {"model": "m", "usage": {}, "answered": True}
    asked.failed("s1", BackendError("unreadable", node="ate", details=unreadable))
    assert asked.total.cost_usd is None


def test_the_key_is_in_no_artefact_of_a_failing_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-test-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    data = write_data(tmp_path / "data.jsonl", [f"{TEXT} FILTERED", TEXT, f"{TEXT} TOO-LONG"])
    with serving(ANSWERS, share=0.5) as server:
        run_against(server.port, data, tmp_path / "run", retries=1, timeout_s=0.6)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 8
    assert not [path.name for path in files if secret.encode() in path.read_bytes()]
