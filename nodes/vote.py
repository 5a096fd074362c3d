"""`vote`: merges joint answers; a tuple is kept if enough answers contain it.

Each answer passes the merging rules of Stage 1. With `protocol: single` there is one answer. With
several, the share of answers with a name replaces its token probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from absa.nodes.categories import categories_of
from absa.nodes.language import Language, language
from absa.nodes.names import joint_answers
from absa.nodes.polarity import PolarityCounter
from absa.nodes.stage1 import anchor, found_aspects, given_records
from absa.nodes.text import grounded
from absa.nodes.thresholds import reaches
from absa.schemas.answers import ExtractAnswer, ValidatorAnswer
from absa.schemas.records import AspectRecord, Sentiment, StageResult
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import Stage1Update, State


def vote(state: State, pipeline: PipelineSettings) -> Stage1Update:
    """Keep the tuples that enough answers contain."""
    lang, text = language(state["lang"]), state["text"]
    counter = PolarityCounter(categories_of(pipeline))
    given_aspects = state.get("given_aspects")
    least = pipeline.min_name_probability if pipeline.protocol == "single" else 0.0
    results = [
        read_extraction(a, text, lang, counter, given_aspects, least)
        for a in answers_in_order(state)
    ]
    return {
        "stage1_result": majority(results, pipeline.vote.threshold, text, lang),
        "stage1_validation": ValidatorAnswer(),
        "counts": {**state["counts"], "stage1": counter.counts()},
    }


def answers_in_order(state: State) -> list[ExtractAnswer]:
    """The joint answers in the order of their calls."""
    answers = state["extract_answers"]
    return [answers[number] for number in sorted(answers, key=int)]


def read_extraction(
    answer: ExtractAnswer,
    text: str,
    lang: Language,
    counter: PolarityCounter,
    given: list[str] | None = None,
    least: float = 0.0,
) -> StageResult:
    """A joint answer after the rules of Stage 1."""
    ate, atsa = joint_answers(answer, lang, counter, given=given is not None)
    if given is not None:
        return anchor(atsa, given_records(given, text, lang), lang, counter)
    aspects, _ = found_aspects(ate, text, lang, least, counter)
    return anchor(atsa, aspects, lang, counter)


Pair = tuple[str, str | None, str]
"""Aspect key, category (None without a category set) and polarity."""
Form = tuple[AspectRecord, Sentiment]


def best_supported(forms: Iterable[Form], text: str) -> Form:
    """The best form: first with a span, then with evidence in the text, then the most confident."""

    def support(form: Form) -> tuple[bool, bool, float]:
        aspect, sentiment = form
        return aspect.span is not None, grounded(text, sentiment.evidence), sentiment.confidence

    return max(forms, key=support)


def forms_of(result: StageResult, text: str, lang: Language) -> dict[Pair, Form]:
    """The tuples of a result by key, category and polarity, each in its best form."""
    every: dict[Pair, list[Form]] = {}
    for aspect in result.aspects:
        for sentiment in aspect.sentiments:
            pair = (lang.key(aspect.name), sentiment.category, sentiment.polarity)
            every.setdefault(pair, []).append((aspect, sentiment))
    return {pair: best_supported(forms, text) for pair, forms in every.items()}


def result_of(forms: Mapping[Pair, Form]) -> StageResult:
    """A result with these tuples."""
    aspects: dict[str, AspectRecord] = {}
    for (key, _, _), (aspect, sentiment) in forms.items():
        held = aspects.get(key, aspect.model_copy(update={"sentiments": ()}))
        aspects[key] = held.model_copy(update={"sentiments": (*held.sentiments, sentiment)})
    return StageResult(aspects=tuple(aspects.values()))


def majority(
    results: Sequence[StageResult], threshold: float, text: str, lang: Language
) -> StageResult:
    """The tuples that at least this share of the results has, each in its best form."""
    if len(results) == 1:
        return results[0]
    forms_of_pair: dict[Pair, list[Form]] = {}
    for result in results:
        for pair, form in forms_of(result, text, lang).items():
            forms_of_pair.setdefault(pair, []).append(form)
    return result_of(
        {
            pair: best_supported(forms, text)
            for pair, forms in forms_of_pair.items()
            if reaches(len(forms), threshold * len(results))
        }
    )
