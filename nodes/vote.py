"""`vote`: joint answers become one result; a tuple stays if enough of them found it.

Each answer passes the merging rules of Stage 1. A single one (`protocol: single`) is its own
majority.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodes.language import Language, language
from nodes.polarity import PolarityCounter
from nodes.stage1 import anchor, given_records, merge_aspects, second_aspect
from nodes.text import grounded
from nodes.thresholds import reaches
from schemas.answers import (
    AspectItem,
    AteAnswer,
    AtsaAnswer,
    ExtractAnswer,
    SentimentItem,
    ValidatorAnswer,
)
from schemas.records import AspectRecord, Sentiment, StageResult
from schemas.settings import PipelineSettings
from schemas.state import Stage1Update, State


def vote(state: State, pipeline: PipelineSettings) -> Stage1Update:
    """Take the tuples that enough answers agree on."""
    lang, text = language(state["lang"]), state["text"]
    counter = PolarityCounter()
    answers = [answer for _, answer in sorted(state["extract_answers"].items(), key=_number)]
    given = state.get("given_aspects")
    results = [read_extraction(answer, text, lang, counter, given) for answer in answers]
    return {
        "stage1_result": majority(results, pipeline.vote.threshold, text, lang),
        "stage1_validation": ValidatorAnswer(),
        "counts": {**state["counts"], "stage1": counter.counts()},
    }


def _number(item: tuple[str, ExtractAnswer]) -> int:
    return int(item[0])


def read_extraction(
    answer: ExtractAnswer,
    text: str,
    lang: Language,
    counter: PolarityCounter,
    given: list[str] | None = None,
) -> StageResult:
    """A joint answer under the rules of Stage 1."""
    terms = [t for t in answer.tuples if t.aspect_term]
    ate = AteAnswer(
        aspects=[
            AspectItem(term=str(t.aspect_term), span=t.span, confidence=t.confidence) for t in terms
        ]
    )
    atsa = AtsaAnswer(
        aspect_sentiments=[
            SentimentItem(aspect_ref=t.aspect_term, **t.model_dump(exclude={"aspect_term", "span"}))
            for t in answer.tuples
        ]
    )
    if given is not None:
        return anchor(atsa, given_records(given, text, lang), lang, counter)
    aspects = merge_aspects(ate, text, lang)
    second = second_aspect(aspects, text, lang)
    return anchor(atsa, [*aspects, *([second] if second else [])], lang, counter)


Form = tuple[AspectRecord, Sentiment]


def majority(
    results: Sequence[StageResult], threshold: float, text: str, lang: Language
) -> StageResult:
    """The tuples that at least a share of the results has, each in its best supported form.

    Best supported: a place in the text, evidence in the text, then confidence.
    """

    def support(form: Form) -> tuple[bool, bool, float]:
        aspect, sentiment = form
        return aspect.span is not None, grounded(text, sentiment.evidence), sentiment.confidence

    if len(results) == 1:
        return results[0]
    found: dict[tuple[str, str], list[Form]] = {}
    for result in results:
        own: dict[tuple[str, str], list[Form]] = {}
        for aspect in result.aspects:
            for sentiment in aspect.sentiments:
                name = (lang.key(aspect.term), sentiment.polarity)
                own.setdefault(name, []).append((aspect, sentiment))
        for name, forms in own.items():
            found.setdefault(name, []).append(max(forms, key=support))
    aspects: dict[str, AspectRecord] = {}
    for (key, _), forms in found.items():
        if reaches(len(forms), threshold * len(results)):
            aspect, sentiment = max(forms, key=support)
            held = aspects.get(key, aspect.model_copy(update={"sentiments": ()}))
            aspects[key] = held.model_copy(update={"sentiments": (*held.sentiments, sentiment)})
    return StageResult(aspects=tuple(aspects.values()))
