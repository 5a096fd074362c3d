"""Ablations: statistics against known cases, every branch of the verdict, and the whole command."""

from __future__ import annotations

import csv
import gc
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answer_server import POLARITIES, answer
from openai_server import Body, Response, Server, says, serve
from scipy import stats

from absa.ablate import DEFAULT_NAMES, AblationError, Study, load, study
from absa.ablate.configurations import Roles, roles
from absa.ablate.constant import learn
from absa.ablate.costs import key_of
from absa.ablate.sweep import MAX_POINTS, WARNING, Point, grid, parse_sweep, sweep, variants
from absa.ablate.tables import Table, latex_text, swept
from absa.ablate.verdict import Against, Spent, decide
from absa.cli import run as absa
from absa.config import SettingsError, load_settings
from absa.graph import Wiring
from absa.metrics import evaluate
from absa.schemas.records import CallRecord
from absa.statistics import bootstrap, holm, mcnemar, randomisation, smallest_shown
from benchmarks import verdict_rates

Json = dict[str, Any]

# Statistics -------------------------------------------------------------------------------------


def as_ratios(values: Sequence[Sequence[float]]) -> Any:
    """Plain means, as numerator and denominator: samples x configurations x one metric."""
    array = np.array(values, dtype=float).T[:, :, None]
    return np.stack([array, np.ones_like(array)], axis=-1)


def test_bootstrap_of_means_is_scipys_own() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.random(150), rng.random(150)
    scores, differences = bootstrap(as_ratios([one, other]), 0, seed=3)
    direct = stats.bootstrap(
        (one, other),
        lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=10_000,
        rng=np.random.default_rng(9),
    )
    assert scores.value[:, 0] == pytest.approx([one.mean(), other.mean()])
    assert differences.value[1, 0] == pytest.approx(one.mean() - other.mean())
    assert differences.low[1, 0] == pytest.approx(direct.confidence_interval.low, abs=0.003)
    assert differences.high[1, 0] == pytest.approx(direct.confidence_interval.high, abs=0.003)
    assert differences.error[1, 0] == pytest.approx(direct.standard_error, rel=0.05)


def test_bootstrap_is_micro_averaged_paired_and_repeatable() -> None:
    rng = np.random.default_rng(2)
    below = rng.integers(1, 6, (80, 2, 1)).astype(float)
    above = np.floor(below * rng.random((80, 2, 1)))
    numbers = np.stack([above, below], axis=-1)
    numbers[:, 1] = numbers[:, 0]  # the same answers twice
    scores, differences = bootstrap(numbers, 0, resamples=500)
    again, _ = bootstrap(numbers, 0, resamples=500)
    other_seed, _ = bootstrap(numbers, 0, resamples=500, seed=1)
    assert scores.value[0, 0] == pytest.approx(above[:, 0].sum() / below[:, 0].sum())
    assert not np.any([differences.low, differences.high, differences.error])
    assert (scores.low == again.low).all()
    assert (scores.low != other_seed.low).any()


def test_nothing_to_count_scores_zero_and_not_nan() -> None:
    scores, differences = bootstrap(np.zeros((5, 2, 1, 2)), 0, resamples=50)
    assert not np.isnan([scores.value, differences.low]).any()


def test_randomisation_agrees_with_all_permutations() -> None:
    rng = np.random.default_rng(5)
    one, other = rng.normal(0.4, 1, 9), rng.normal(0, 1, 9)
    exact = stats.permutation_test(
        (one, other),
        lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    )
    numbers = as_ratios([one, other])[:, :, 0]
    result = randomisation(numbers[:, 0], numbers[:, 1], resamples=20_000)
    assert result == pytest.approx(exact.pvalue, abs=0.02)


@pytest.mark.parametrize(("wins", "expected"), [(4, 0.125), (6, 0.03125), (0, 1.0)])
def test_randomisation_of_few_wins_is_the_sign_test(wins: int, expected: float) -> None:
    """Where few samples differ a bootstrap alone is too sure of itself."""
    one, other = np.zeros((60, 2)), np.zeros((60, 2))
    one[:, 1] = other[:, 1] = 2
    one[:wins, 0] = 2
    assert randomisation(one, other) == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize(
    ("only_one", "only_other", "expected"), [(4, 0, 0.125), (10, 2, 0.03857), (0, 0, 1.0)]
)
def test_mcnemar_is_the_exact_one(only_one: int, only_other: int, expected: float) -> None:
    one = np.array([True] * 7 + [True] * only_one + [False] * only_other)
    other = np.array([True] * 7 + [False] * only_one + [True] * only_other)
    result = mcnemar(one, other)
    assert result["p"] == pytest.approx(expected, abs=1e-4)
    assert (result["only_debate_right"], result["only_other_right"]) == (only_one, only_other)
    if only_one + only_other:
        exact = stats.binomtest(only_one, only_one + only_other).pvalue
        assert result["p"] == pytest.approx(exact)


def test_holm_of_a_known_case() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_smallest_shown_follows_its_formula() -> None:
    assert smallest_shown(0.01) == pytest.approx(0.028016, abs=1e-6)
    assert smallest_shown(0.0) is None


# The verdict ------------------------------------------------------------------------------------

UP, DOWN, NOTHING = (0.02, 0.06, 0.01), (-0.06, -0.02, 0.01), (-0.02, 0.06, 0.4)
ABOVE_BUT_CORRECTED = (0.001, 0.06, 0.09)


def against(
    shown: tuple[float, float, float], name: str = "x", calls: float = 10, overlap: float = 1.0
) -> Against:
    low, high, p = shown
    middle = (low + high) / 2
    return Against(
        name=name,
        difference=middle,
        low=low,
        high=high,
        p_holm=p,
        smallest_shown=0.04,
        samples_that_differ=9,
        overlap_difference=middle * overlap,
        spent=Spent(calls, 0.002),
    )


@pytest.mark.parametrize(
    ("single", "vote", "calls", "expected"),
    [
        (UP, UP, 10, ("helps", "helps", "helps")),
        (UP, NOTHING, 10, ("no_difference", "better", "no_difference")),
        (UP, ABOVE_BUT_CORRECTED, 10, ("no_difference", "better", "no_difference")),
        (UP, DOWN, 10, ("hurts", "better", "hurts")),
        (UP, None, 10, ("cannot_say", "better", "cannot_say")),
        (NOTHING, UP, 10, ("no_difference", "no_difference", "helps")),
        (NOTHING, NOTHING, 10, ("no_difference", "no_difference", "no_difference")),
        (NOTHING, DOWN, 10, ("hurts", "no_difference", "hurts")),
        (NOTHING, None, 10, ("cannot_say", "no_difference", "cannot_say")),
        (DOWN, UP, 10, ("hurts", "hurts", "helps")),
        (DOWN, NOTHING, 10, ("hurts", "hurts", "no_difference")),
        (DOWN, DOWN, 10, ("hurts", "hurts", "hurts")),
        (DOWN, None, 10, ("hurts", "hurts", "cannot_say")),
        (None, UP, 10, ("cannot_say", "cannot_say", "helps")),
        (None, NOTHING, 10, ("cannot_say", "cannot_say", "no_difference")),
        (None, DOWN, 10, ("hurts", "cannot_say", "hurts")),
        (None, None, 10, ("cannot_say", "cannot_say", "cannot_say")),
        # A vote with fewer calls is no rival to win against, one with more none to lose against.
        (UP, UP, 5, ("cannot_say", "better", "cannot_say")),
        (UP, DOWN, 5, ("hurts", "better", "hurts")),
        (UP, UP, 20, ("helps", "helps", "helps")),
        (NOTHING, DOWN, 20, ("cannot_say", "no_difference", "cannot_say")),
    ],
)
def test_verdict_table(single: Any, vote: Any, calls: float, expected: tuple[str, ...]) -> None:
    verdict = decide(
        "default",
        Spent(10, 0.003),
        300,
        against(single, "baseline_single", 1) if single else None,
        against(vote, "baseline_vote", calls) if vote else None,
    )
    assert (verdict.word, verdict.single, verdict.vote) == expected
    if vote is None or vote[0] <= 0 or calls < 10:
        assert "helps" not in verdict.sentence
    if verdict.word == "no_difference":
        assert "no difference shown at this size" in verdict.sentence
    elif verdict.word != "cannot_say":
        assert f"The debate (default) {verdict.word}." in verdict.sentence
    assert ("there is no comparison with one" in verdict.sentence) == (single is None)
    assert ("cannot be compared at equal cost" in verdict.sentence) == (vote is None)
    assert "debate 10 calls, $0.00300" in verdict.sentence
    unequal = any("not at equal cost" in note for note in verdict.notes)
    assert unequal == (vote is not None and calls != 10)


def test_verdict_says_when_strict_and_overlap_disagree_and_when_correction_decides() -> None:
    vote = against(ABOVE_BUT_CORRECTED, "baseline_vote", overlap=-0.5)
    verdict = decide("default", Spent(10), 300, against(UP, "baseline_single", 1), vote)
    assert "excludes zero, but after correction" in verdict.sentence
    assert [n for n in verdict.notes if "disagree about the sign against baseline_vote" in n]
    assert "unknown cost" in verdict.sentence


# Configurations ---------------------------------------------------------------------------------


def test_configurations_are_named_by_stem_and_refused_twice(tmp_path: Path) -> None:
    (tmp_path / "default.yaml").write_text("pipeline: {enable_debate: false}\n")
    assert [c.name for c in load(DEFAULT_NAMES, {})] == list(DEFAULT_NAMES)
    with pytest.raises(AblationError, match="two configurations have the name 'default'"):
        load(["default", str(tmp_path / "default.yaml")], {})
    with pytest.raises(AblationError, match="default and abl_no_validator have the same settings"):
        load(["default", "abl_no_validator"], {"pipeline.enable_validator": False})
    with pytest.raises(SettingsError, match="no such settings file"):
        load(["abl_no_debat"], {})


def test_lexicon_is_offline_stage_1_whatever_is_set() -> None:
    overrides = {"backend.kind": "openai", "backend.model": "m", "pipeline.enable_debate": True}
    (lexicon,) = load(["lexicon"], overrides)
    assert lexicon.settings is not None
    assert lexicon.settings.backend.kind == "offline"
    assert not lexicon.debates
    assert lexicon.settings.pipeline.debate_calls == 2


def test_roles_by_name_and_by_protocol() -> None:
    chosen = load(["abl_no_debate", "override_t1", "baseline_vote", "baseline_single"], {})
    assert roles(chosen) == Roles("override_t1", "baseline_single", "baseline_vote")
    assert roles(chosen[:3]) == Roles("override_t1", None, "baseline_vote")
    assert roles(chosen, "baseline_vote").vote is None
    assert roles(chosen, single="abl_no_debate").single == "abl_no_debate"
    with pytest.raises(AblationError, match="no configuration has a debate"):
        roles([chosen[0], chosen[2]])
    with pytest.raises(AblationError, match="--vote nobody: not among"):
        roles(chosen, vote="nobody")
    with pytest.raises(AblationError, match="--debate nobody: not among"):
        roles(chosen, "nobody")


def test_constant_takes_as_many_frequent_tuples_as_pay(tmp_path: Path) -> None:
    gold = [["food"], ["food"], ["food", "staff"], ["food", "staff"], ["staff"], ["decor"]]
    rows = [
        {"uid": f"t{n}", "text": f"the {' '.join(terms)}", "aspects": located(terms, "positive")}
        for n, terms in enumerate(gold)
    ]
    path = write(tmp_path / "train.jsonl", rows)
    constant = learn(path)
    # One: 2*4/(6+8); two: 2*7/(12+8), the best; three: 2*8/(18+8).
    assert constant.tuples == (("food", "positive"), ("staff", "positive"))
    assert constant.label == "positive"
    with pytest.raises(AblationError, match="no sample has gold aspects with a term"):
        learn(write(tmp_path / "none.jsonl", [{"uid": "a", "text": "b", "aspects": []}]))


# Sweeps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("pipeline.debate_override.min_total=0.6:2.4:0.6", [0.6, 1.2, 1.8, 2.4]),
        ("pipeline.debate_override.max_overrides_per_sample=0:3:1", [0, 1, 2, 3]),
        ("pipeline.debate_override.l3_conservative=true,false", [True, False]),
        ("pipeline.override_profile=t0,t2", ["t0", "t2"]),
        ("pipeline.vote.threshold=0.3:0.3:1", [0.3]),
        ("pipeline.debate.hint_weights.drop_tuple=0:1:0.5", [0.0, 0.5, 1.0]),
    ],
)
def test_sweep_values(text: str, values: list[Any]) -> None:
    assert parse_sweep(text)[1] == values


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pipeline.debate.rounds=1:3:1", "needs new answers.*would have been another one"),
        ("pipeline.enable_debate=true,false", "shown what the debate said"),
        ("pipeline.debate.ronds=1:3:1", "unknown key.*did you mean 'pipeline.debate.rounds'"),
        ("min_totl=1:3:1", "unknown key.*did you mean 'pipeline.debate_override.min_total'"),
        ("pipeline.vote.n=1:9:1", "asked other questions"),
        ("backend.temperature=0:1:0.5", "another backend gives other answers"),
        ("pipeline.debate_override.min_total=2:1:0.1", "LO must not exceed HI"),
        ("pipeline.debate_override.min_total=0:1:0", "STEP be above 0"),
        ("pipeline.debate_override.min_total=0:nan:1", "LO must not exceed HI"),
        ("pipeline.debate_override.min_total=a:b:c", "three numbers"),
        ("pipeline.debate_override.min_total=0:9:0.001", f"more than {MAX_POINTS} values"),
        ("pipeline.debate_override.min_total", "expected KEY=LO:HI:STEP"),
    ],
)
def test_sweep_refuses_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(AblationError, match=why):
        grid([text])


def test_grid_is_a_bounded_product() -> None:
    total, margin = (f"pipeline.debate_override.{n}=0:1:0.1" for n in ("min_total", "min_margin"))
    points = grid([total, margin])
    assert len(points) == 121
    assert points[1].name == "min_total=0, min_margin=0.1"
    with pytest.raises(AblationError, match="1331 combinations"):
        grid([total, margin, "pipeline.debate_override.ev_threshold=0:1:0.1"])
    with pytest.raises(AblationError, match="given twice"):
        grid([total, total])
    assert grid([]) == []
    for point in variants():
        load_settings(None, point.changes)


# The whole command ------------------------------------------------------------------------------

TEXTS = {
    "The battery is great but the screen is terrible.": "battery+ screen-",
    "The food was delicious and the staff was rude.": "food+ staff-",
    "Price is steep.": "Price-",
    "I love the keyboard, although the speakers are not good.": "keyboard+ speakers-",
    "The service is not bad at all.": "service+",
    "가격은 비싸지만 맛은 좋아요.": "가격- 맛+",
    "직원이 친절하고 방이 깨끗해요.": "직원+ 방+",
    "배송이 너무 느려요.": "배송-",
    "디자인은 예쁘지만 소음이 심해요.": "디자인+ 소음-",
    "The room was dirty and the bed was comfortable.": "room- bed+",
    "Great camera, poor zoom.": "camera+ zoom-",
    "화면이 선명하지 않아요.": "화면-",
}


def located(terms: Sequence[str], polarity: str, text: str | None = None) -> list[Json]:
    text = f"the {' '.join(terms)}" if text is None else text
    places = [(term, text.index(term)) for term in terms]
    return [
        {"term": term, "from": at, "to": at + len(term), "polarity": polarity}
        for term, at in places
    ]


def write(path: Path, rows: Sequence[Json]) -> Path:
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    signs = {"+": "positive", "-": "negative"}
    rows = [
        {
            "uid": f"리뷰 {n}",
            "text": text,
            "aspects": [
                found
                for word in gold.split()
                for found in located([word[:-1]], signs[word[-1]], text)
            ],
        }
        for n, (text, gold) in enumerate(TEXTS.items())
    ]
    return write(tmp_path_factory.mktemp("자료") / "reviews.jsonl", rows)


@pytest.fixture(scope="module")
def offline(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole study of a dozen samples."""
    out = tmp_path_factory.mktemp("연구") / "study"
    names = ("default", "abl_no_debate", "baseline_single", "baseline_vote", "lexicon", "constant")
    # The backend is offline, so the single call is the analyzer alone.
    code = absa(
        [
            *("ablate", str(data), "--out", str(out), "--train", str(data), "--replay-variants"),
            *("--sweep", "pipeline.debate_override.min_total=0.6:2.4:0.6"),
            *("--configs", *names),
        ]
    )
    assert code == 0
    return out


def found_in(out: Path) -> Json:
    results: Json = json.loads((out / "ablation.json").read_text(encoding="utf-8"))
    return results


def test_command_writes_everything(offline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = found_in(offline)
    assert results["samples"]["compared"] == len(TEXTS)
    assert [c["name"] for c in results["configurations"]][-2:] == ["lexicon", "constant"]
    assert {c["other"] for c in results["comparisons"]} == {
        *("abl_no_debate", "baseline_single", "baseline_vote", "lexicon", "constant")
    }
    for table in ("scores", "comparisons", "cost", "cost_line", "sweep"):
        text = (offline / f"{table}.csv").read_text(encoding="utf-8")
        rows = list(csv.DictReader(text.splitlines()))
        assert rows and rows[0]["name"]
        latex = (offline / f"{table}.tex").read_text(encoding="utf-8")
        assert latex.count(r"\toprule") == latex.count(r"\bottomrule") == 1
        cells = {line.count(" & ") for line in latex.splitlines() if line.endswith(r"\\")}
        assert len(cells) == 1
    verdict = (offline / "verdict.md").read_text(encoding="utf-8")
    assert results["verdict"]["sentence"] in verdict
    assert "10 calls" in verdict
    assert WARNING in (offline / "sweep.md").read_text(encoding="utf-8")
    assert any(
        "in every sample all calls gave the same answer" in note for note in results["notes"]
    )


def test_scores_are_those_of_evaluate(offline: Path) -> None:
    """One scorer: the study must not have an opinion of its own."""
    for one in found_in(offline)["configurations"]:
        if one["name"] == "constant":
            continue
        final = evaluate(offline / one["name"])["quality"]["final"]
        scores = one["scores"]
        assert scores["pair_strict_f1"]["value"] == final["pair"]["strict"]["f1"]["rate"]
        assert scores["pair_overlap_f1"]["value"] == final["pair"]["overlap"]["f1"]["rate"]
        assert scores["aspect_strict_f1"]["value"] == final["aspect"]["strict"]["f1"]["rate"]
        assert scores["label_accuracy"]["value"] == final["label"]["accuracy"]["rate"]
        assert scores["pair_strict_f1"]["low"] <= scores["pair_strict_f1"]["value"]


def test_command_again_runs_nothing_and_finds_the_same(
    offline: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = found_in(offline)
    stamp = (offline / "default" / "outputs.jsonl").stat().st_mtime_ns
    args = ["ablate", str(data), "--out", str(offline), "--json", "--configs", "default"]
    assert absa([*args, "baseline_single", "baseline_vote", "lexicon"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert (offline / "default" / "outputs.jsonl").stat().st_mtime_ns == stamp
    assert results["configurations"][0]["scores"] == before["configurations"][0]["scores"]
    assert any(note.startswith("constant is left out") for note in results["notes"])


def test_only_samples_of_all_configurations_are_compared(offline: Path, tmp_path: Path) -> None:
    chosen = load(["default", "baseline_single", "baseline_vote"], {})
    for one in chosen:
        target = tmp_path / one.name
        target.mkdir()
        for name in ("manifest.json", "outputs.jsonl", "scorecards.jsonl"):
            text = (offline / one.name / name).read_text(encoding="utf-8")
            if one.name == "default" and name != "manifest.json":
                text = text.partition("\n")[2]
            (target / name).write_text(text, encoding="utf-8")
    results = study(Study(tmp_path, chosen, roles(chosen), resamples=200))
    assert results["samples"]["compared"] == len(TEXTS) - 1
    assert results["samples"]["left_out"] == 1
    assert "1 samples were not analyzed by every configuration" in results["notes"][0]


def test_sweep_changes_decisions_and_calls_no_model(offline: Path) -> None:
    never = "pipeline.debate_override.max_overrides_per_sample"
    results = sweep(offline / "default", [Point("none", {never: 0})], resamples=100)
    recorded, none = results["points"]
    outputs = (offline / "default" / "outputs.jsonl").read_text(encoding="utf-8").splitlines()
    stats_of = [json.loads(line)["meta"]["debate_override_stats"]["applied"] for line in outputs]
    assert recorded["overrides_applied"] == sum(stats_of)
    assert none["overrides_applied"] == 0
    value = found_in(offline)["configurations"][0]["scores"]["pair_strict_f1"]["value"]
    assert recorded["scores"]["pair_strict_f1"] == value


def test_sweep_through_langgraph_finds_the_same_and_says_so(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [Point("no rules", {"pipeline.moderator.rules": []}), *variants()[:4]]
    direct = sweep(offline / "default", points, resamples=100)
    monkeypatch.setattr(Wiring, "only_as_graph", "memory is on")
    graph = sweep(offline / "default", points, resamples=100)
    assert (direct.pop("through_graph"), graph.pop("through_graph")) == (None, "memory is on")
    assert direct == graph
    note = swept({**graph, "through_graph": "memory is on"}).note
    assert note.endswith("decided by LangGraph, which takes longer: memory is on.")


def test_sweep_refuses_what_changes_the_questions(offline: Path) -> None:
    """Even where the list of keys did not see it coming."""
    order = Point("order", {"pipeline.debate.order": ["cj", "tan", "epm"]})
    with pytest.raises(AblationError, match="#0 gets another prompt"):
        sweep(offline / "default", [order], resamples=100)
    more = Point("rounds", {"pipeline.debate.rounds": 2})
    with pytest.raises(AblationError, match="needs new answers: epm"):
        sweep(offline / "default", [more], resamples=100)


def test_sweep_of_a_recorded_run_needs_no_data(
    offline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["ablate", "--from", str(offline / "default"), "--out", str(tmp_path / "s")]
    assert absa([*args, "--sweep", "pipeline.moderator.rules=[]"]) == 0
    assert WARNING in capsys.readouterr().out
    assert (tmp_path / "s" / "sweep.tex").is_file()
    assert not (tmp_path / "s" / "scores.csv").exists()


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--out", "x"], "DATA is missing"),
        (["--out", "x", "--from", "run"], "needs --sweep or --replay-variants"),
        (["DATA", "--out", "x", "--configs", "default", "default"], "two configurations"),
        (["DATA", "--out", "x", "--sweep", "pipeline.debate.rounds=1:2:1"], "needs new answers"),
        (["DATA", "--out", "x", "--configs", "baseline_vote"], "no configuration has a debate"),
        (["BARE", "--out", "x"], "fewer than two samples have gold aspects"),
    ],
)
def test_wrong_use_is_told_before_anything_runs(
    args: list[str],
    why: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bare = write(tmp_path / "bare.jsonl", [{"uid": str(n), "text": "a b"} for n in range(3)])
    names = {"DATA": str(data), "BARE": str(bare)}
    monkeypatch.chdir(tmp_path)
    assert absa(["ablate", *(names.get(a, a) for a in args)]) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_latex_and_markdown_survive_names() -> None:
    assert latex_text("abl_no 5 % & #1 – $x$") == r"abl\_no 5 \% \& \#1 -- \$x\$"
    assert (latex_text("+3.1"), latex_text("-0.5")) == ("$+3.1$", "$-0.5$")
    table = Table("t", "Title", ("a", "b"), (("x|y", "1"),))
    assert r"| x\|y | 1 |" in list(table.markdown())


# Over a server ----------------------------------------------------------------------------------

SIX = DEFAULT_NAMES[:6]


def language_model(request: Body) -> Response:
    """Answers by prompt, and joint calls by prompt and seed."""
    words = [message["content"] for message in request["messages"]]
    number = int(hashlib.sha256("\0".join(words).encode()).hexdigest()[:8], 16)
    review = json.loads(words[-1])["review"]
    keys = request["response_format"]["json_schema"]["schema"]["properties"].keys()
    if "tuples" in keys:
        polarity = POLARITIES[(number + int(request["seed"])) % 3]
        first = review.split()[0]
        item = {"aspect_term": first, "polarity": polarity, "evidence": first, "confidence": 0.8}
        return says({"tuples": [item]}, tokens=(100, 20))
    return says(answer(keys, review, number), tokens=(100, 20))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ABSA_CACHE", str(tmp_path / "cache.db"))
    with serve() as running:
        running.rule = language_model
        yield running


def asking(server: Server) -> list[str]:
    return [
        *("--set", "backend.kind=openai", "--set", "backend.model=gpt-4o-mini"),
        *("--set", f"backend.base_url={server.url}", "--concurrency", "4"),
    ]


def short(tmp_path: Path, size: int) -> Path:
    rows = []
    for n in range(size):
        text = f"dish{n} tasted somehow bland{n}"
        rows.append(
            {"uid": f"u{n}", "text": text, "aspects": located([f"dish{n}"], "negative", text)}
        )
    return write(tmp_path / "short.jsonl", rows)


def test_six_configurations_pay_for_equal_calls_once(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, size = short(tmp_path, 4), 4
    for name in SIX:
        run = ["run", str(data), "--out", str(tmp_path / f"alone {name}"), "--no-cache"]
        assert absa([*run, "--config", name, *asking(server)]) == 0
    apart = len(server.requests)
    server.requests.clear()
    out = tmp_path / "study"
    command = ["ablate", str(data), "--out", str(out), *asking(server), "--configs", *SIX]
    assert absa(command) == 0
    together = len(server.requests)
    capsys.readouterr()
    print(f"calls: {apart} apart, {together} together, {together / apart:.1%}")  # noqa: T201
    assert apart == size * 51
    assert together <= 0.45 * apart

    costs = {c["name"]: c["cost"] for c in found_in(out)["configurations"]}
    calls = [costs[name]["per_sample"]["calls"] for name in SIX]
    assert calls == [10, 6, 10, 8, 7, 10]
    # What was free here is counted at what it would have cost alone.
    assert costs["abl_no_moderator"]["cache_hits"] == 10 * size
    dollars = (100 * 0.15 + 20 * 0.6) / 1e6
    for name, count in zip(SIX, calls, strict=True):
        each = costs[name]["per_sample"]
        assert each["cost_usd"] == pytest.approx(count * dollars)
        assert each["prompt_tokens"] == pytest.approx(100 * count)
        assert each["critical_path_ms"] > 0
    verdict = found_in(out)["verdict"]
    assert verdict["word"] in ("cannot_say", "hurts")

    server.requests.clear()
    elsewhere = ["ablate", str(data), "--out", str(tmp_path / "again"), *asking(server)]
    assert absa([*elsewhere, "--configs", "default", "abl_no_debate"]) == 0
    assert not server.requests
    again = found_in(tmp_path / "again")
    assert again["configurations"][0]["cost"]["per_sample"]["cost_usd"] is None
    assert "an earlier run paid for" in " ".join(again["notes"])
    own = ["ablate", str(data), "--out", str(tmp_path / "own"), *asking(server), "--own-cache"]
    assert absa([*own, "--configs", "default", "abl_no_stage2"]) == 0
    assert (tmp_path / "own" / "answers.db").is_file()
    assert len(server.requests) == 10 * size


def test_vote_makes_its_own_calls_over_the_cache(server: Server, tmp_path: Path) -> None:
    data, size = short(tmp_path, 3), 3
    out = tmp_path / "study"
    names = ("default", "baseline_single", "baseline_vote")
    command = ["ablate", str(data), "--out", str(out), *asking(server), "--configs", *names]
    assert absa(command) == 0
    forms = [r["response_format"]["json_schema"]["schema"] for r in server.requests]
    joint = [form for form in forms if "tuples" in form["properties"]]
    results = found_in(out)
    each = {c["name"]: c["cost"]["per_sample"] for c in results["configurations"]}
    assert len(joint) == 11 * size
    assert each["baseline_vote"]["distinct_calls"] == 10
    assert not any("not at equal cost" in note for note in results["notes"])


def test_a_call_that_was_asked_once_is_one_call() -> None:
    """A vote whose ten answers are one answer ten times does not count as ten calls."""
    (vote,) = load(["baseline_vote"], {})
    assert vote.settings is not None
    same = CallRecord(node="extract", backend="openai", seed=0, prompt_sha256="p")
    keys = {key_of(same.model_copy(update={"turn": n}), vote.settings) for n in range(10)}
    assert len(keys) == 1
    seedless = same.model_copy(update={"seed": None})
    keys = {key_of(seedless.model_copy(update={"turn": n}), vote.settings) for n in range(10)}
    assert len(keys) == 10


# The verdict over many draws --------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["equal", "better", "worse"])
def test_verdict_keeps_its_word_over_repeated_draws(scenario: str) -> None:
    gc.freeze()
    try:
        rates = verdict_rates.rates(scenario, draws=12, samples=150, resamples=500)
    finally:
        gc.unfreeze()
    counts = rates["against_vote"]
    expected = verdict_rates.EXPECTED[scenario]
    assert counts[expected]["count"] >= 9
    wrong = {"better": "hurts", "worse": "helps"}.get(scenario)
    if wrong:
        assert counts[wrong]["count"] == 0
    assert math.isclose(sum(r["rate"] for r in counts.values()), 1, abs_tol=0.01)
