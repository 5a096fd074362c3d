"""Quality against cost: the analyzer as a baseline, the Pareto front, votes of as many calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from absa.ablate import load, with_analyser
from absa.ablate.cost_line import votes_of
from absa.cli import run as absa
from absa.schemas.output import FinalOutput

TEXTS = [f"The soup of table {n} was cold but the waiter was lovely." for n in range(8)]
SOUP, WAITER = ("soup", "negative"), ("waiter", "positive")
WRONG = ("table", "negative")
VOTES = 4


def joint(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"tuples": [{"aspect_term": t, "polarity": p, "confidence": 0.9} for t, p in pairs]}


def answers(text: int, first_is_wrong: bool) -> dict[tuple[str, int], dict[str, Any]]:
    """The model names something wrong in every other call; the analyzer is right at once."""
    calls = {
        ("extract", n): joint(SOUP, WAITER, *([WRONG] if (n % 2 == 0) is first_is_wrong else []))
        for n in range(VOTES)
    }
    # Half of the texts are contested: the reader does not see the wrong tuple.
    contested = text % 2
    seen = [(*SOUP, 0.9), (*WAITER, 0.9), *([] if contested else [(*WRONG, 0.9)])]
    reader = {
        "tuples": [
            {"aspect_term": t, "polarity": p, "probability": sure, "reported": True}
            for t, p, sure in seen
        ],
        "reads_language": True,
        "knows_domain": True,
    }
    return {**calls, ("second_reader", 0): reader}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study(tmp_path_factory.mktemp("study"), first_is_wrong=True)


def study(folder: Path, first_is_wrong: bool) -> Path:
    data, recorded = folder / "data.jsonl", folder / "answers.jsonl"
    with data.open("w", encoding="utf-8") as rows, recorded.open("w", encoding="utf-8") as lines:
        for n, text in enumerate(TEXTS):
            gold = [
                {"term": t, "from": text.index(t), "to": text.index(t) + len(t), "polarity": p}
                for t, p in (SOUP, WAITER)
            ]
            rows.write(json.dumps({"uid": f"u{n}", "text": text, "lang": "en", "aspects": gold}))
            rows.write("\n")
            for (node, turn), answer in answers(n, first_is_wrong).items():
                line = {"uid": f"u{n}", "node": node, "turn": turn, "output": answer}
                lines.write(json.dumps(line) + "\n")
    sets = {
        "backend.kind": "replay",
        "backend.path": recorded,
        "pipeline.vote.n": VOTES,
        "pipeline.selective.sample": 0,
    }
    code = absa(
        [
            *("ablate", str(data), "--out", str(folder / "out")),
            *(word for key, value in sets.items() for word in ("--set", f"{key}={value}")),
            *("--debate", "selective"),
            *("--configs", "selective", "baseline_single", "baseline_vote"),
        ]
    )
    assert code == 0
    return folder / "out"


def found_in(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "ablation.json").read_text("utf-8"))
    return found


def test_the_analyser_is_a_baseline_of_every_study_and_makes_no_call(out: Path) -> None:
    found = found_in(out)
    alone = next(c for c in found["configurations"] if c["name"] == "analyser")
    assert alone["protocol"] == "analyser"
    assert alone["cost"]["per_sample"]["calls"] == alone["cost"]["calls"] == 0
    # It is not taken for the single call.
    assert found["roles"] == {
        "debate": "selective",
        "single": "baseline_single",
        "vote": "baseline_vote",
    }
    assert "analyser" in {c["other"] for c in found["comparisons"]}


def test_the_analyser_is_not_added_twice() -> None:
    replay = {"backend.kind": "replay", "backend.path": "x"}
    chosen = with_analyser(load(["baseline_single", "analyser"], replay), replay)
    assert [c.name for c in chosen] == ["baseline_single", "analyser"]
    # Over the offline backend a single call is the analyzer alone.
    assert [c.name for c in with_analyser(load(["baseline_single"], {}), {})] == ["baseline_single"]


def test_points_have_cost_quality_and_interval(out: Path) -> None:
    line = found_in(out)["cost_line"]
    points = {p["name"]: p for p in line["points"]}
    # Half of the texts are contested, and these take two calls more.
    assert [points[n]["calls"] for n in ("analyser", "baseline_single", "selective")] == [0, 1, 2]
    for p in points.values():
        assert p["low"] <= p["value"] <= p["high"]
    single = points["baseline_single"]
    assert single["value"] == pytest.approx(2 * 2 / 5)
    fronts = {name: p["pareto"]["calls"] for name, p in points.items()}
    best = max(p["value"] for p in points.values())
    assert fronts["analyser"] is True
    assert fronts["baseline_vote"] is (
        points["baseline_vote"]["value"] == best
        and all(p["value"] < best for n, p in points.items() if n != "baseline_vote")
    )


def test_a_vote_of_as_many_calls(out: Path) -> None:
    found = found_in(out)
    equal = {one["name"]: one for one in found["cost_line"]["equal_calls"]}
    assert equal["selective"]["vote_calls"] == 2
    # Two calls, each tuple found by half of them stays: the wrong one too.
    assert equal["selective"]["vote"]["value"] == pytest.approx(0.8)
    assert equal["baseline_single"]["vote"]["value"] == pytest.approx(0.8)
    assert equal["baseline_single"]["difference"]["value"] == pytest.approx(0)
    assert equal["baseline_single"]["word"] == "no_difference"
    assert (
        "selective (2.0 calls per text) against a vote of 2.0 calls"
        in (found["verdict"]["cost_line"])
    )
    assert "without a call" in found["verdict"]["cost_line"]
    verdict = (out / "verdict.md").read_text("utf-8")
    assert found["verdict"]["cost_line"] in verdict
    assert "## Quality against cost, the cheapest first" in verdict


def test_a_vote_with_fewer_of_its_calls(out: Path) -> None:
    lines = (out / "baseline_vote" / "outputs.jsonl").read_text("utf-8").splitlines()
    output = FinalOutput.model_validate_json(lines[0])
    tuples = {
        size: {t.aspect_term for t in voted.final_result.final_tuples}
        for size, voted in votes_of(output, {1, 3, 4}, 0.6).items()
    }
    assert tuples == {
        1: {"soup", "waiter", "table"},
        3: {"soup", "waiter", "table"},
        4: {"soup", "waiter"},
    }
    whole = votes_of(output, {4}, 0.5)[4].final_result
    assert {t.aspect_term for t in whole.final_tuples} == {
        t.aspect_term for t in output.final_result.final_tuples
    }


def test_a_vote_below_the_single_call_is_not_the_only_rival(out: Path, tmp_path: Path) -> None:
    assert all(one["over_single"] is None for one in found_in(out)["cost_line"]["equal_calls"])
    found = found_in(study(tmp_path, first_is_wrong=False))
    equal = {one["name"]: one for one in found["cost_line"]["equal_calls"]}
    # The second call is wrong, and a vote of two keeps what either call found.
    assert equal["selective"]["vote"]["value"] == pytest.approx(0.8)
    single = next(p for p in found["cost_line"]["points"] if p["name"] == "baseline_single")
    own = next(p for p in found["cost_line"]["points"] if p["name"] == "selective")
    expected = own["value"] - single["value"]
    assert equal["selective"]["over_single"]["value"] == pytest.approx(expected)
    assert equal["baseline_single"]["over_single"] is None
    assert "The single call is better than that vote" in found["verdict"]["cost_line"]
