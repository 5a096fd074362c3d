"""Token counts: which ones can be believed, and what a run does about the others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_runs import CALLS, Fake, go, lines, manifest, plan

from absa.backends.meter import Budget
from absa.metrics.cost import CostTally
from absa.runs import RunPlan
from absa.runs.verify import verify
from absa.schemas.backend import Ask, Reply, known_usage
from absa.schemas.records import CallRecord

__all__ = ["plan"]

UNKNOWN = [
    None,
    {},
    [1, 2],
    {"prompt_tokens": 5},
    {"prompt_tokens": -5, "completion_tokens": 1},
    {"prompt_tokens": 5, "completion_tokens": 1.5},
    {"prompt_tokens": 2**63, "completion_tokens": 1},
    {"prompt_tokens": 5, "completion_tokens": 10**30},
    {"prompt_tokens": True, "completion_tokens": 1},
    {"prompt_tokens": "5", "completion_tokens": 1},
]


class Uncounted(Fake):
    """Answers as `Fake` does, with a usage of its own."""

    def __init__(self, usage: Any = None) -> None:
        super().__init__()
        self.usage = usage

    def answer(self, question: Ask, seed: int) -> Reply:
        return replace(super().answer(question, seed), usage=self.usage)


@pytest.mark.parametrize("usage", UNKNOWN, ids=str)
def test_what_cannot_be_a_count_of_tokens_is_unknown(usage: Any) -> None:
    assert known_usage(usage) is None
    assert Reply({}, "openai", usage=usage).usage is None


def test_counts_are_taken_as_they_are() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}
    assert known_usage(usage) == {"prompt_tokens": 5, "completion_tokens": 0}


@pytest.mark.parametrize("usage", [None, UNKNOWN[4], UNKNOWN[6]], ids=str)
def test_unknown_usage_fails_no_answer_and_is_counted_apart(plan: RunPlan, usage: Any) -> None:
    fake = Uncounted(usage)
    assert go(plan, fake).exit_code == 0
    spent = manifest(plan)["spent"]
    assert spent == {
        "calls": 6 * CALLS,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "cost_usd": None,
        "calls_without_usage": 6 * CALLS,
    }
    assert {trace["usage"] for trace in lines(plan.out / "traces.jsonl")} == {None}
    assert not [v for check in verify(plan.out).checks for v in check.violations]
    # The next start reads the stored answers and asks nothing.
    asked = len(fake.asked)
    again = replace(plan, out=plan.out.with_name("again"))
    assert go(again, fake).exit_code == 0
    assert len(fake.asked) == asked


@pytest.mark.parametrize(
    ("budget", "option"),
    [(Budget(tokens=10**6), "--budget-tokens"), (Budget(usd=5.0), "--budget-usd")],
)
def test_budget_that_cannot_be_kept_stops_the_run_and_says_why(
    plan: RunPlan, budget: Budget, option: str
) -> None:
    fake = Uncounted()
    limited = replace(plan, budget=budget, concurrency=1)
    report = go(limited, fake)
    assert report.status == "unfinished"
    reason = str(report.stopped_because)
    assert reason.startswith(f"{option} cannot be kept: ")
    assert "had no usable token count (usage)" in reason
    assert "--budget-calls" in reason
    # The three agents of stage 1 are asked together.
    assert len(fake.asked) <= 3
    # The same command asks nothing more; the option that was named goes on.
    asked = len(fake.asked)
    assert option in str(go(limited, fake).stopped_because)
    assert len(fake.asked) == asked
    assert go(replace(plan, budget=Budget(calls=1000)), fake).exit_code == 0


def test_budget_counts_what_other_answers_tell(plan: RunPlan) -> None:
    report = go(replace(plan, budget=Budget(tokens=1500), concurrency=1), Fake())
    assert str(report.stopped_because).startswith("--budget-tokens 1500 is spent")


def test_metrics_say_how_many_answers_are_in_no_sum_of_tokens() -> None:
    def call(**facts: Any) -> CallRecord:
        return CallRecord(**{"node": "ate", "backend": "openai", **facts})

    told = {"prompt_tokens": 7, "completion_tokens": 3}
    tally = CostTally()
    tally.add([call(usage=told), call(), call(cached=True), call(backend="offline")])
    tally.add([call(usage={"prompt_tokens": -7, "completion_tokens": 3})])
    cost = tally.summary()
    assert (cost["prompt_tokens"], cost["calls_without_usage"]) == (7, 2)


def test_absurd_usage_in_a_recorded_run_is_unknown(plan: RunPlan, tmp_path: Path) -> None:
    go(plan)
    traces = lines(plan.out / "traces.jsonl")
    absurd = {"prompt_tokens": 2**70, "completion_tokens": -1}
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text("".join(json.dumps({**t, "usage": absurd}) + "\n" for t in traces))
    backend = plan.settings.backend.model_copy(update={"kind": "replay", "path": str(recorded)})
    settings = plan.settings.model_copy(update={"backend": backend})
    replayed = replace(plan, out=tmp_path / "replayed", settings=settings)
    from absa.backends import make_backend

    fake = Fake()
    fake.backend_for = make_backend  # type: ignore[assignment,method-assign]
    assert go(replayed, fake).exit_code == 0
    assert manifest(replayed)["usage"]["prompt_tokens"] == 0
