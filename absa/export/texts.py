"""The texts of a run with their tuples, the input of all export formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from absa.nodes.text import locate
from absa.runs.directory import OUTPUTS, SCORECARDS, RunDirectory
from absa.schemas.output import FinalOutput

Place = tuple[int, int]


@dataclass(frozen=True)
class Judgement:
    """A tuple with its positions in the text. `term` is None for an unnamed aspect."""

    term: str | None
    place: Place | None
    polarity: str
    category: str | None
    opinion: str | None
    opinion_place: Place | None
    evidence: str | None
    confidence: float


@dataclass(frozen=True)
class Judged:
    """A text with its tuples and its label."""

    uid: str
    text: str
    lang: str
    label: str
    confidence: float
    judgements: tuple[Judgement, ...]
    extra: dict[str, Any]
    domain: str | None = None


def judged_texts(run: Path) -> Iterator[Judged]:
    """The texts of a finished run, one after the other.

    Raises:
        NoRun: It is not a run directory, or it has no results.
    """
    directory = RunDirectory(run).require(OUTPUTS)
    domains = {}
    if directory.has(SCORECARDS):
        domains = {c.get("uid"): c.get("domain") for c in directory.lines(SCORECARDS)}
    for record in directory.lines(OUTPUTS):
        output = FinalOutput.model_validate(record)
        yield judged(output, domains.get(output.uid))


def judged(output: FinalOutput, domain: str | None = None) -> Judged:
    """A text with its tuples. The output does not hold the domain."""
    return Judged(
        uid=output.uid,
        text=output.text,
        lang=output.lang,
        label=output.final_result.label,
        confidence=output.final_result.confidence,
        judgements=tuple(_judgements(output)),
        extra=dict(output.extra),
        domain=domain,
    )


def _judgements(output: FinalOutput) -> Iterator[Judgement]:
    for a in output.final_result.final_aspects:
        opinion = a.opinion_term or (a.evidence if a.is_grounded else None)
        place = locate(output.text, opinion) if opinion else None
        yield Judgement(
            term=a.aspect_term,
            place=(a.span.start, a.span.end) if a.span else None,
            polarity=a.polarity,
            category=a.category,
            opinion=opinion if place else None,
            opinion_place=(place.start, place.end) if place else None,
            evidence=a.evidence,
            confidence=a.confidence,
        )
