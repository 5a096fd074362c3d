"""A finished run as training data: its model's tuples are used as gold.

Only texts of which the run is sure are kept. A tuple's certainty is

- its score in a run of `selective`: votes and the analyzer's probability,
- the share of the calls that found it in a run of `vote`,
- the stated confidence in any other run.

A text is sure if each tuple of the result has at least the certainty asked for, and each tuple that
was considered and left out at most one minus it. Leaving out single tuples instead would teach that
an aspect in doubt is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from absa.metrics.evaluation import records
from absa.nodes.language import language
from absa.nodes.polarity import PolarityCounter
from absa.nodes.thresholds import reaches
from absa.nodes.vote import forms_of, read_extraction
from absa.schemas.answers import ExtractAnswer, read_answer
from absa.schemas.output import FinalOutput
from absa.schemas.sample import GoldAspect, Sample

MIN_CERTAINTY = 0.7


@dataclass(frozen=True)
class Taught:
    """The samples that a run teaches."""

    samples: list[Sample]
    texts: int
    """How many texts the run has; the others were not sure enough."""


def taught_by(run: Path, least: float = MIN_CERTAINTY) -> Taught:
    """The sure texts of a run with what it found as their aspects. Gold is not read.

    Raises:
        NoRun: It is not a run directory.
    """
    samples, texts = [], 0
    for output, card in records(run):
        texts += 1
        if is_sure(output, least):
            samples.append(as_sample(output, card.get("domain")))
    return Taught(samples, texts)


def is_sure(output: FinalOutput, least: float) -> bool:
    """Whether everything that was found, and everything that was left out, is certain enough."""
    return all(
        reaches(certainty if kept else 1 - certainty, least)
        for certainty, kept in certainties(output)
    )


def certainties(output: FinalOutput) -> Iterator[tuple[float, bool]]:
    """The certainty of every tuple that was considered, and whether it was kept."""
    opinion = output.meta.selective
    if opinion is not None:
        yield from ((t.score, t.kept) for t in opinion.tuples)
        if opinion.outcome == "agreed":
            yield from ((a.confidence, True) for a in output.final_result.final_aspects)
    elif output.meta.protocol == "vote":
        yield from _shares(output)
    else:
        yield from ((a.confidence, True) for a in output.final_result.final_aspects)


def _shares(output: FinalOutput) -> Iterator[tuple[float, bool]]:
    lang, found = language(output.lang), Counter[tuple[str, str]]()
    calls = [call for call in output.process_trace if call.node == "extract"]
    for call in calls:
        answer = read_answer(ExtractAnswer, call.output)[0]
        result = read_extraction(
            answer, output.text, lang, PolarityCounter(), output.meta.given_aspects
        )
        forms = forms_of(result, output.text, lang).values()
        found.update({(lang.key(a.name), s.polarity) for a, s in forms})
    kept = {(lang.key(a.name), a.polarity) for a in output.final_result.final_aspects}
    yield from ((n / len(calls), pair in kept) for pair, n in found.items())


def as_sample(output: FinalOutput, domain: str | None) -> Sample:
    """The text with the tuples of its result as if they were gold."""
    aspects = []
    for a in output.final_result.final_aspects:
        if a.span is None:
            aspects.append(GoldAspect.model_validate({"polarity": a.polarity}))
        else:
            start, end = a.span.start, a.span.end
            place = {"from": start, "to": end, "term": output.text[start:end]}
            aspects.append(GoldAspect.model_validate({**place, "polarity": a.polarity}))
    return Sample(
        uid=output.uid, text=output.text, lang=output.lang, domain=domain, aspects=aspects
    )
