"""Sweeps settings of the rules over recorded answers. For exploration, not for results.

Only settings that do not change an agent's prompt can be swept, because the recorded answers belong
to the recorded prompts.
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
from absa.ablate.measuring import LABEL, METRICS, PRIMARY, Row, gold_aspects, row
from absa.backends.replay import ReplayBackend
from absa.config import parse_override, unknown_key
from absa.graph import Decisions, DirectGraph, Graph
from absa.inputs import graph_input
from absa.metrics.quality import score_sample
from absa.runs.engine import UNNAMED_SPLIT
from absa.runs.replay import Recorded, replay_settings
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.schemas.memory import Recall
from absa.schemas.output import FinalOutput, FinalResult
from absa.schemas.settings import RULE_NAMES, Settings
from absa.statistics import RESAMPLES, Floats, bootstrap
from absa.wired import wired

WARNING = "chosen on this data; do not report as a result"
AS_RECORDED = "as recorded"
MAX_POINTS = 400

# Settings that no prompt depends on.
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
    """One combination of settings."""

    name: str
    changes: Changes


def parse_sweep(text: str) -> tuple[str, list[object]]:
    """Parse `KEY=LO:HI:STEP` or `KEY=A,B,C` to a key and its values.

    Raises:
        AblationError: The format is wrong, the key is unknown, or it needs new answers.
    """
    key, _, value_range = text.partition("=")
    key = key.strip()
    if not key or not value_range.strip():
        raise AblationError(
            f"--sweep {text}: expected KEY=LO:HI:STEP or KEY=A,B, for example "
            "pipeline.debate_override.min_total=0.6:2.4:0.2"
        )
    check_replayable(key)
    parts = value_range.split(":")
    if len(parts) == 1:
        return key, [parse_override(f"{key}={value}")[1] for value in value_range.split(",")]
    try:
        low, high, step = (float(part) for part in parts)
    except ValueError:
        raise AblationError(f"--sweep {text}: expected three numbers, LO:HI:STEP") from None
    if not all(map(math.isfinite, (low, high, step))) or step <= 0 or high < low:
        raise AblationError(f"--sweep {text}: LO must not exceed HI, and STEP be above 0")
    # Slightly more than HI, so that 0.6:2.4:0.2 ends with 2.4.
    count = (high - low) / step + 1e-9
    if count >= MAX_POINTS:
        raise AblationError(f"--sweep {text}: more than {MAX_POINTS} values; take a larger STEP")
    values = [round(low + step * number, 10) for number in range(math.floor(count) + 1)]
    whole = all("." not in part and "e" not in part.lower() for part in parts)
    return key, [int(value) if whole else value for value in values]


def check_replayable(key: str) -> None:
    """Reject an unknown key, and a setting that changes prompts."""
    if any(
        key == allowed or (allowed.endswith(".") and key.startswith(allowed))
        for allowed in REPLAYABLE
    ):
        return
    if unknown := unknown_key(key):
        raise AblationError(f"--sweep: {unknown}")
    why = next((reason for start, reason in _WHY_NOT.items() if key.startswith(start)), None)
    raise AblationError(
        f"--sweep {key}: needs new answers, which a replay does not have"
        + (f": {why}" if why else "")
        + f"; compare it with --configs. These keys can be swept: {', '.join(REPLAYABLE)}"
    )


def grid(sweeps: Sequence[str]) -> list[Point]:
    """All combinations of the swept values.

    Raises:
        AblationError: A sweep is not valid, or there are too many combinations.
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
    """The shipped options that go beyond the source documents, each as one point."""
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


def sweep(
    directory: Path,
    points: Sequence[Point],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Replay the recorded answers of a run for every point. No model is called.

    Args:
        directory: The recorded run.
        points: The combinations of settings.
        resamples: The number of bootstrap resamples.
        seed: The seed of the bootstrap.
        on_progress: Called with the number of samples done, and of all samples.

    Raises:
        AblationError: A point needs new answers, or there is no gold.
        NoRun: It is not a run directory.
        SettingsError: A value is not valid.
    """
    recorded = Recorded.read(directory)
    every = [Point(AS_RECORDED, {}), *points]
    # All settings are validated before the first replay.
    settings = [replay_settings(recorded, None, point.changes) for point in every]
    samples = [
        s
        for s in recorded.samples()
        if (s.get("aspects") is not None or s.get("label") is not None)
        and not s.get("incomplete_gold")
    ]
    if len(samples) < 2:
        raise AblationError(f"{directory}: fewer than two samples have gold to score by")
    decide = Deciders(recorded, settings)
    tally = _Tally(len(every))
    for number, sample in enumerate(samples):
        outputs = decide(sample)
        for at, point in enumerate(every):
            try:
                output = next(outputs)
            except BackendError as error:
                raise AblationError(f"{point.name}: needs new answers: {error}") from error
            tally.add(at, output, sample)
        on_progress(number + 1, len(samples))
    numbers = np.array(tally.rows).reshape(len(samples), len(every), len(METRICS), 2)
    scores, differences = bootstrap(numbers, 0, resamples=resamples, seed=seed)

    def gained(at: int, k: int) -> dict[str, float]:
        """The difference of the point and the recorded run. The bootstrap has the opposite sign."""
        return {
            "value": 0.0 - float(differences.value[at, k]),
            "low": 0.0 - float(differences.high[at, k]),
            "high": 0.0 - float(differences.low[at, k]),
        }

    return {
        "warning": WARNING,
        "run": str(directory),
        "samples": len(samples),
        "through_graph": decide.through_graph,
        "points": [
            {
                "name": point.name,
                "changes": dict(point.changes),
                "scores": {m: float(scores.value[at, k]) for k, m in enumerate(METRICS)},
                "difference": gained(at, METRICS.index(PRIMARY)),
                "label_difference": gained(at, METRICS.index(LABEL)),
                "exact_match": tally.exact[at],
                "overrides_applied": tally.overrides[at],
                "adopted": tally.adopted[at],
            }
            for at, point in enumerate(every)
        ],
    }


class Deciders:
    """Applies several settings to the recorded answers of one run, sample by sample."""

    def __init__(self, recorded: Recorded, settings: Sequence[Settings]) -> None:
        """Prepare the settings. All must have the recorded protocol."""
        seed = recorded.seeds[0] if recorded.seeds else None
        self._answers = _OneQuestion(ReplayBackend(str(recorded.directory), seed))
        wirings = list(map(wired, _shared(settings)))
        # The reason why LangGraph is needed; None for a direct replay.
        self.through_graph = next((why for w in wirings if (why := w.only_as_graph)), None)
        self._recalls: Mapping[str, Recall] = {}
        self._direct: list[DirectGraph] = []
        self._graphs: list[Graph] = []
        if self.through_graph is None:
            self._direct = [w.direct(self._answers) for w in wirings]
        else:
            self._graphs = [
                w.compile(backend=self._answers, store=InMemoryStore()) for w in wirings
            ]
            self._recalls = {uid: r for (uid, s), r in recorded.recalls().items() if s == seed}

    def __call__(self, sample: Mapping[str, Any]) -> Iterator[FinalOutput]:
        """The outputs of a sample, one per settings.

        Raises:
            BackendError: An answer is missing, or belongs to another question.
        """
        self._answers.forget()
        graph_inputs = graph_input(
            sample["text"],
            uid=sample["uid"],
            lang=sample["lang"],
            domain=sample.get("domain"),
            given_aspects=sample.get("given_aspects"),
        )
        if self._graphs:
            graph_inputs |= {
                "split": sample.get("split") or UNNAMED_SPLIT,
                "memory_recall": self._recalls.get(sample["uid"]),
            }
            yield from (graph.invoke(graph_inputs)["output"] for graph in self._graphs)
        else:
            decisions = Decisions(graph_inputs)
            yield from map(decisions.under, self._direct)


def _shared(settings: Sequence[Settings]) -> Iterator[Settings]:
    """The settings with equal parts as shared objects, which makes comparisons faster."""
    parts: dict[str, list[Any]] = {}
    for one in settings:
        same = {}
        for name, value in one.pipeline:
            values = parts.setdefault(name, [])
            if value not in values:
                values.append(value)
            same[name] = values[values.index(value)]
        yield one.model_copy(update={"pipeline": one.pipeline.model_copy(update=same)})


class _OneQuestion:
    """Caches recorded answers of one sample, and checks that each question is the recorded one."""

    def __init__(self, backend: ReplayBackend) -> None:
        self._backend = backend
        self._asked: dict[tuple[str, int], tuple[str, Reply]] = {}

    def forget(self) -> None:
        self._asked.clear()

    def ask(self, question: Ask) -> Reply:
        key = (question.node, question.turn)
        if key not in self._asked:
            self._asked[key] = question.prompt_sha256, self._backend.ask(question)
        prompt, reply = self._asked[key]
        if prompt != question.prompt_sha256:
            raise BackendError(
                f"{question.node}#{question.turn} gets another prompt under these settings; "
                "compare them with --configs",
                node=question.node,
            )
        return reply

    async def aask(self, question: Ask) -> Reply:
        return self.ask(question)


class _Tally:
    """Scores and counts of every point."""

    def __init__(self, points: int) -> None:
        self.rows: list[Floats] = []
        self.exact = [0] * points
        self.overrides = [0] * points
        self.adopted = [0] * points
        # Equal outputs of points are scored once.
        self._scored: list[tuple[FinalResult, Row]] = []

    def add(self, at: int, output: FinalOutput, sample: Mapping[str, Any]) -> None:
        if at == 0:
            self._scored = []
        numbers, exact = self._row(output, sample)
        self.rows.append(numbers)
        self.exact[at] += exact
        self.overrides[at] += output.meta.debate_override_stats.applied
        self.adopted[at] += output.meta.adopt_decision == "adopted"

    def _row(self, output: FinalOutput, sample: Mapping[str, Any]) -> Row:
        result = output.final_result
        for earlier, scored in self._scored:
            if earlier is result or earlier == result:
                return scored
        aspects = gold_aspects(sample) if sample.get("aspects") is not None else None
        one = score_sample(output, aspects, sample.get("label"), None)
        scored = row(one.final, one.final_label, one.gold_label)
        self._scored.append((result, scored))
        return scored
