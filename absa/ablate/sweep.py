"""Other settings of the decision layer on recorded answers: exploration, never a result.

Only settings that no agent sees can be swept. With any other the agents would have been asked
something else, and their recorded answers would belong to another question.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from langgraph.store.memory import InMemoryStore

from absa.ablate.configurations import AblationError
from absa.ablate.measuring import METRICS, PRIMARY, gold_aspects, row
from absa.backends.replay import ReplayBackend
from absa.config import parse_override
from absa.metrics.quality import score_sample
from absa.runs.replay import Recorded, replay_settings
from absa.schemas.errors import BackendError
from absa.schemas.output import FinalOutput
from absa.schemas.settings import RULE_NAMES, Settings
from absa.statistics import RESAMPLES, bootstrap
from absa.wired import wired

WARNING = "chosen on this data; do not report as a result"
AS_RECORDED = "as recorded"
MAX_POINTS = 400

# What is read after the last answer, or by no prompt.
REPLAYABLE = (
    "pipeline.debate.hint_weights.",
    "pipeline.debate_override.",
    "pipeline.override_profile",
    "pipeline.enable_debate_override",
    "pipeline.enable_moderator",
    "pipeline.moderator.rules",
    "pipeline.vote.threshold",
)
_WHY_NOT = {
    "pipeline.debate.": "the debate itself would have been another one",
    "pipeline.enable_debate": "reviewers are shown what the debate said",
    "pipeline.enable_validator": "the other agents are shown what the Validator said",
    "pipeline.enable_stage2": "it takes agents out: that is a configuration (abl_no_stage2)",
    "pipeline.min_name_probability": "the debate is shown the aspects that it leaves",
    "pipeline.protocol": "another protocol asks other questions",
    "pipeline.conflict_review.": "the arbiter would have been asked, or not",
    "pipeline.vote.": "the vote would have asked other questions",
    "backend.": "another backend gives other answers",
    "demos.": "agents are shown the demos",
}

Changes = Mapping[str, object]


@dataclass(frozen=True)
class Point:
    """One choice of settings."""

    name: str
    changes: Changes


def parse_sweep(text: str) -> tuple[str, list[object]]:
    """`KEY=LO:HI:STEP` or `KEY=A,B,C` as a key and its values.

    Raises:
        AblationError: It is neither, or the key needs new answers.
    """
    key, _, given = text.partition("=")
    key = key.strip()
    if not key or not given.strip():
        raise AblationError(
            f"--sweep {text}: expected KEY=LO:HI:STEP or KEY=A,B, for example "
            "pipeline.debate_override.min_total=0.6:2.4:0.2"
        )
    check_replayable(key)
    parts = given.split(":")
    if len(parts) == 1:
        return key, [parse_override(f"{key}={value}")[1] for value in given.split(",")]
    try:
        low, high, step = (float(part) for part in parts)
    except ValueError:
        raise AblationError(f"--sweep {text}: expected three numbers, LO:HI:STEP") from None
    if not all(map(math.isfinite, (low, high, step))) or step <= 0 or high < low:
        raise AblationError(f"--sweep {text}: LO must not exceed HI, and STEP be above 0")
    # A hair more than HI, so that 0.6:2.4:0.2 ends with 2.4.
    count = (high - low) / step + 1e-9
    if count >= MAX_POINTS:
        raise AblationError(f"--sweep {text}: more than {MAX_POINTS} values; take a larger STEP")
    values = [round(low + step * number, 10) for number in range(math.floor(count) + 1)]
    whole = all("." not in part and "e" not in part.lower() for part in parts)
    return key, [int(value) if whole else value for value in values]


def check_replayable(key: str) -> None:
    """Refuse a setting that changes what agents are asked."""
    if any(key == known or (known.endswith(".") and key.startswith(known)) for known in REPLAYABLE):
        return
    why = next((reason for start, reason in _WHY_NOT.items() if key.startswith(start)), None)
    raise AblationError(
        f"--sweep {key}: needs new answers, which a replay does not have"
        + (f": {why}" if why else "")
        + f"; compare it with --configs. Can be swept: {', '.join(REPLAYABLE)}"
    )


def grid(sweeps: Sequence[str]) -> list[Point]:
    """All combinations of the swept values.

    Raises:
        AblationError: A sweep cannot be used, or there are too many combinations.
    """
    axes = [parse_sweep(text) for text in sweeps]
    if not axes:
        return []
    keys = [key for key, _ in axes]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise AblationError(f"--sweep {twice[0]}: given twice")
    size = math.prod(len(values) for _, values in axes)
    if size > MAX_POINTS:
        raise AblationError(f"--sweep: {size} combinations, more than {MAX_POINTS}; take fewer")
    return [
        Point(", ".join(f"{_short(k)}={_shown(v)}" for k, v in chosen), dict(chosen))
        for chosen in (
            list(zip(keys, values, strict=True))
            for values in itertools.product(*(values for _, values in axes))
        )
    ]


def variants() -> list[Point]:
    """The shipped options that the sources of the debate do not have, each by itself."""
    override = "pipeline.debate_override"
    return [
        Point("override off", {"pipeline.enable_debate_override": False}),
        Point("max_overrides_per_sample=2", {f"{override}.max_overrides_per_sample": 2}),
        Point("max_overrides_per_sample=3", {f"{override}.max_overrides_per_sample": 3}),
        Point("allow_drop", {f"{override}.allow_drop": True}),
        Point("l3_conservative off", {f"{override}.l3_conservative": False}),
        Point("profile t1", {"pipeline.override_profile": "t1"}),
        Point("profile t2", {"pipeline.override_profile": "t2"}),
        Point("adopt every candidate", {f"{override}.ev_threshold": 0.0}),
        *(
            Point(
                f"Rule{out} off", {"pipeline.moderator.rules": [r for r in RULE_NAMES if r != out]}
            )
            for out in RULE_NAMES
        ),
        Point("Moderator off", {"pipeline.enable_moderator": False}),
    ]


def _short(key: str) -> str:
    return key.rpartition(".")[2]


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class _Replayed:
    numbers: np.ndarray[Any, np.dtype[np.float64]]
    exact: int
    overrides: int
    adopted: int


def sweep(
    directory: Path,
    points: Sequence[Point],
    *,
    uids: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Decide again for every point, on the recorded answers of one run. No model is called.

    Args:
        directory: The recorded run.
        points: What to try.
        uids: Only these samples.
        resamples: Resamples of the bootstrap.
        seed: Its seed.
        on_progress: Told how many points are done.

    Raises:
        AblationError: A point needs new answers, or there is no gold.
        NoRun: There is no such run.
        SettingsError: A value cannot be used.
    """
    recorded = Recorded.read(directory)
    every = [Point(AS_RECORDED, {}), *points]
    # All settings before the first replay: a wrong value is to be told at once.
    settings = [replay_settings(recorded, None, point.changes) for point in every]
    wanted = None if uids is None else set(uids)
    samples = [
        s
        for s in recorded.samples()
        if s.get("aspects") is not None
        and not s.get("incomplete_gold")
        and (wanted is None or s["uid"] in wanted)
    ]
    if len(samples) < 2:
        raise AblationError(f"{directory}: fewer than two samples have gold to score by")
    backend = ReplayBackend(str(directory), recorded.seeds[0] if recorded.seeds else None)
    asked: dict[str, dict[str, str | None]] = {}
    found = []
    for number, (point, chosen) in enumerate(zip(every, settings, strict=True)):
        found.append(_replay(point, chosen, backend, samples, asked))
        on_progress(number + 1, len(every))
    numbers = np.stack([f.numbers for f in found], axis=1)
    scores, differences = bootstrap(numbers, 0, resamples=resamples, seed=seed)
    primary = METRICS.index(PRIMARY)
    return {
        "warning": WARNING,
        "run": str(directory),
        "samples": len(samples),
        "points": [
            {
                "name": point.name,
                "changes": dict(point.changes),
                "scores": {m: float(scores.value[at, k]) for k, m in enumerate(METRICS)},
                # What the point has over the recorded run.
                "difference": {
                    "value": -float(differences.value[at, primary]),
                    "low": -float(differences.high[at, primary]),
                    "high": -float(differences.low[at, primary]),
                },
                "exact_match": found[at].exact,
                "overrides_applied": found[at].overrides,
                "adopted": found[at].adopted,
            }
            for at, point in enumerate(every)
        ],
    }


def _replay(
    point: Point,
    settings: Settings,
    backend: ReplayBackend,
    samples: Sequence[Mapping[str, Any]],
    asked: dict[str, dict[str, str | None]],
) -> _Replayed:
    graph = wired(settings).compile(backend=backend, store=InMemoryStore())
    numbers, exact, overrides, adopted = [], 0, 0, 0
    for sample in samples:
        given = {key: sample.get(key) for key in ("text", "uid", "lang", "domain")}
        try:
            output: FinalOutput = graph.invoke(given)["output"]
        except BackendError as error:
            raise AblationError(f"{point.name}: needs new answers: {error}") from error
        _check_questions(point, output, asked)
        gold = {"aspects": sample["aspects"]}
        scored = score_sample(output, gold_aspects(gold), sample.get("label"), None)
        line, right = row(scored.final, scored.final_label, scored.gold_label)
        numbers.append(line)
        exact += right
        overrides += output.meta.debate_override_stats.applied
        adopted += output.meta.adopt_decision == "adopted"
    return _Replayed(np.array(numbers), exact, overrides, adopted)


def _check_questions(
    point: Point, output: FinalOutput, asked: dict[str, dict[str, str | None]]
) -> None:
    """Every question must be the one that was asked before: else its answer is another's."""
    known = asked.setdefault(output.uid, {})
    for name, prompt in _questions(output):
        if known.setdefault(name, prompt) != prompt:
            raise AblationError(
                f"{point.name}: {name} is asked something else under these settings, so it needs "
                "new answers; compare it with --configs"
            )


def _questions(output: FinalOutput) -> Iterator[tuple[str, str | None]]:
    for call in output.process_trace:
        yield f"{call.node}#{call.turn}", call.prompt_sha256
