"""When a run stops by itself: nothing usable comes back, or more failed than was allowed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from openai_server import Response, fails, serve
from test_runs import Fake, go, write_data

from absa.backends.meter import USELESS_AFTER, Budget, Meter, Spent, StopRun
from absa.cli.run import show_report
from absa.config import load_settings
from absa.runs import RunPlan, RunReport, run
from absa.runs.plan import SAME_COMMAND, Control
from absa.schemas.errors import BackendError

SIZE, WIDTH = 200, 16


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    data = write_data(tmp_path / "data.jsonl", SIZE)
    settings = load_settings(None, {"backend.kind": "openai", "backend.model": "gpt-4o-mini"})
    cache = tmp_path / "cache.db"
    return RunPlan(data, tmp_path / "out", settings, concurrency=WIDTH, cache_path=cache)


def all_fail(delay_s: float = 0.0) -> Fake:
    """Every sample fails at its first agent, after an answer that could not be used."""
    fake = Fake({f"u{n}": "ate" for n in range(SIZE)})
    fake.delay_s = delay_s
    return fake


def useless(node: str) -> BackendError:
    return BackendError(f"{node}: <html>", node=node)


def test_agents_that_get_nothing_usable_stop_the_run_whatever_the_status(plan: RunPlan) -> None:
    report = go(plan, all_fail())
    assert report.status == "unfinished"
    assert "calls of ate in a row got no usable answer (ate: no)" in str(report.stopped_because)
    assert report.totals.failed <= USELESS_AFTER + WIDTH
    again = go(replace(plan, retry_failed=True))
    assert (again.exit_code, again.totals.done) == (0, SIZE)


GATEWAYS = {
    "html": Response(200, "<html>Sign in</html>"),
    "empty": Response(200, ""),
    "no choices": Response(200, {"choices": []}),
    "400": fails(400),
    "418": fails(418, "I am a teapot"),
}


@pytest.mark.parametrize("answer", GATEWAYS.values(), ids=GATEWAYS)
def test_a_gateway_that_answers_nothing_usable_stops_the_run(
    plan: RunPlan, answer: Response, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with serve() as server:
        server.rule = lambda _: answer
        settings = {
            **{"backend.kind": "openai", "backend.model": "m", "backend.base_url": server.url},
            "backend.max_retries": 0,
        }
        report = asyncio.run(run(replace(plan, settings=load_settings(None, settings))))
    assert report.status == "unfinished"
    assert "calls of" in str(report.stopped_because)
    assert "in a row" in str(report.stopped_because)
    # The agents that ask at the same time each have a count of their own.
    assert report.totals.failed <= USELESS_AFTER + WIDTH
    agents = len({str(r["messages"][0]) for r in server.requests})
    # A 400 may be about an option of the request, so each call is asked in simpler forms as well.
    forms = 4 if answer.status == 400 else 1
    assert len(server.requests) <= (USELESS_AFTER + WIDTH) * agents * forms


def test_an_answer_in_between_closes_the_breaker() -> None:
    meter = Meter(Budget(), Spent())
    for _ in range(3):
        for _ in range(USELESS_AFTER - 1):
            meter.failed("u", useless("ate"))
        meter.check()
        meter.answered("u", "ate", "gpt-4o-mini", {})
    for _ in range(USELESS_AFTER):
        meter.failed("u", useless("judge"))
        meter.answered("u", "ate", "gpt-4o-mini", {})
    with pytest.raises(StopRun, match="calls of judge in a row got no usable answer"):
        meter.check()


@pytest.mark.parametrize("kind", ["openai", "offline"])
def test_a_run_stops_at_the_allowed_failures_plus_what_was_in_flight(
    plan: RunPlan, kind: str
) -> None:
    settings = load_settings(
        None, {"backend.kind": kind, **({"backend.model": "m"} if kind == "openai" else {})}
    )
    report = go(replace(plan, settings=settings, fail_on_error=5), all_fail(delay_s=0.05))
    assert "more than --fail-on-error 5 allows" in str(report.stopped_because)
    assert 5 < report.totals.failed <= 5 + WIDTH


def test_each_stop_names_a_remedy_that_works(
    plan: RunPlan, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(report: RunReport) -> str:
        show_report(report, as_json=False)
        return capsys.readouterr().err

    failed = shown(go(replace(plan, fail_on_error=0), all_fail()))
    assert "add --retry-failed, or raise --fail-on-error" in failed
    assert SAME_COMMAND not in failed
    spent = shown(go(replace(plan, retry_failed=True, budget=Budget(calls=40))))
    assert "--budget-calls 40 is spent; raise the limit" in spent
    control = Control()
    control.drain("interrupted")
    assert f"stopped: interrupted; {SAME_COMMAND}" in shown(go(plan, control=control))
    assert go(plan).exit_code == 0
