"""Headline numbers from `metrics.json`, which can be from another version of absa."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Score:
    """A score at both stages."""

    name: str
    stage1: float
    final: float
    interval: tuple[float, float] | None = None

    @property
    def difference(self) -> float:
        """Final score minus the score of Stage 1."""
        return self.final - self.stage1


@dataclass(frozen=True)
class Gain:
    """Fixed minus broken samples, with the 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Headline:
    """The results of `absa evaluate` that the report shows."""

    scores: tuple[Score, ...]
    gain: Gain | None
    alarms: tuple[str, ...] = ()


# The shown scores, and their keys below a stage.
_SHOWN = (
    ("Pair F1", ("pair", "strict", "f1")),
    ("Aspect F1", ("aspect", "strict", "f1")),
    ("Triplet F1", ("triplet", "strict", "f1")),
    ("TASD F1", ("tasd", "f1")),
    ("ASQP F1", ("asqp", "f1")),
    ("ACSA F1", ("acsa", "f1")),
    ("Label accuracy", ("label", "accuracy")),
    ("Label macro-F1", ("label", "macro_f1")),
)


def headline(metrics: dict[str, Any] | None) -> Headline | None:
    """The headline numbers; None if no score can be read."""
    if metrics is None:
        return None
    quality = metrics.get("quality", metrics)
    scores = []
    for name, path in _SHOWN:
        stage1, final = (number(dig(quality, stage, *path)) for stage in ("stage1", "final"))
        if stage1 is not None and final is not None:
            interval = _interval_of(quality) if name == "Pair F1" else None
            scores.append(Score(name, stage1, final, interval))
    net = gain(dig(quality, "changes", "strict", "net_gain"))
    return Headline(tuple(scores), net, tuple(alarms(metrics))) if scores else None


def _interval_of(quality: dict[str, Any]) -> tuple[float, float] | None:
    """The 95 % interval of the final pair F1; None if it was not computed."""
    low = number(dig(quality, "pair_f1_interval", "final", "low"))
    high = number(dig(quality, "pair_f1_interval", "final", "high"))
    return (low, high) if low is not None and high is not None else None


def alarms(metrics: dict[str, Any]) -> Iterator[str]:
    """Warnings and notes about the scores, one sentence each."""
    for key in ("warnings", "notes"):
        for alarm in _list(metrics.get(key)):
            if isinstance(alarm, dict):
                alarm = alarm.get("message") or ", ".join(f"{k} {v}" for k, v in alarm.items())
            yield _sentence(str(alarm))
    dead = [f for f in _list(metrics.get("dead_gates")) if isinstance(f, dict)]
    if dead:
        names = ", ".join(f"{f.get('gate')} ({f.get('reached')})" for f in dead)
        yield f"Never fired (times reached): {names}."
    if vacuous := _list(metrics.get("vacuous_metrics")):
        yield f"Rates without any sample to count: {', '.join(map(str, vacuous))}."


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def gain(net_gain: Any) -> Gain | None:
    """A net gain with its interval."""
    value = number(dig(net_gain, "value"))
    low, high = (number(dig(net_gain, "interval95", end)) for end in ("low", "high"))
    return None if value is None or low is None or high is None else Gain(value, low, high)


def dig(value: Any, *path: str) -> Any:
    """The value below the keys; None if a key is missing."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def number(value: Any) -> float | None:
    """A number, or the rate of an object with numerator and denominator."""
    if isinstance(value, dict):
        value = value.get("rate")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
