"""`compare` and `fuse`: combine joint calls with the embedded analyzer.

`compare` keeps the first call's tuples if the explicit ones equal those that the analyzer reports.
If they differ, `extract` is called again, and `fuse` scores each tuple:

    score = (1 - trust) x votes / calls + trust x p

`votes` is the number of calls with the tuple. `p` is the analyzer's probability, or 0 if it does
not have the tuple. An explicit tuple is kept if its score reaches `selective.threshold`. For
implicit tuples only the calls count: they are kept with a share of `vote.threshold`. Each given
aspect keeps at least its best tuple.

| trust | condition                                                                                |
|-------|------------------------------------------------------------------------------------------|
| 0     | the analyzer has no model of the language: the calls vote                                |
| set   | `selective.trust`                                                                        |
| 1     | the model agrees with the analyzer too rarely for more calls to help (`is_too_weak`)     |
| 0.62  | the analyzer was trained on the domain                                                   |
| 0.45  | otherwise                                                                                |

With trust 1 no further call is made. `benchmarks/second_opinion.py` measures the defaults.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import sqrt
from typing import Literal

from absa.nodes.categories import CategorySet, categories_of
from absa.nodes.contested import given_keys, probability_of
from absa.nodes.language import Language, language
from absa.nodes.polarity import PolarityCounter, read
from absa.nodes.text import locate
from absa.nodes.thresholds import reaches
from absa.nodes.vote import (
    Form,
    Pair,
    answers_in_order,
    best_supported,
    forms_of,
    read_extraction,
    result_of,
)
from absa.schemas.answers import ReaderTuple, SecondReaderAnswer, ValidatorAnswer
from absa.schemas.records import (
    Agreement,
    AspectRecord,
    FusedTuple,
    SecondOpinion,
    Sentiment,
    StageResult,
)
from absa.schemas.settings import PipelineSettings, SelectiveSettings
from absa.schemas.state import CompareUpdate, FuseUpdate, State

DEFAULT_TRUST = {True: 0.62, False: 0.45}
"""The trust, by whether the analyzer was trained on the domain."""


@dataclass(frozen=True)
class Seen:
    """A tuple of the analyzer: its form, its probability, and whether it is reported."""

    form: Form
    probability: float
    reported: bool


def seen_by(
    reader: SecondReaderAnswer,
    text: str,
    lang: Language,
    only: Container[str] | None = None,
    categories: CategorySet | None = None,
) -> dict[Pair, Seen]:
    """The explicit tuples of the second reader, each with its highest probability.

    With `only`, those of aspects with these keys.
    """
    seen: dict[Pair, Seen] = {}
    for item in reader.tuples:
        one = _seen(item, text, categories)
        if one is None:
            continue
        pair = (lang.key(one.form[0].name), one.form[1].category, one.form[1].polarity)
        if only is not None and pair[0] not in only:
            continue
        if pair not in seen or seen[pair].probability < one.probability:
            seen[pair] = one
    return seen


def aligned(seen: Mapping[Pair, Seen], pairs: Iterable[Pair]) -> dict[Pair, Seen]:
    """Match the reader's tuples without a category to the calls' tuples by aspect and polarity.

    The analyzer predicts categories only in its own domains.
    """
    matched: dict[Pair, Seen] = {}
    named = {(key, polarity): category for key, category, polarity in reversed(list(pairs))}
    for (key, category, polarity), one in seen.items():
        if category is None and (category := named.get((key, polarity))) is not None:
            aspect, sentiment = one.form
            form = (aspect, sentiment.model_copy(update={"category": category}))
            one = replace(one, form=form)
        matched.setdefault((key, category, polarity), one)
    return matched


def _seen(item: ReaderTuple, text: str, categories: CategorySet | None) -> Seen | None:
    span = locate(text, item.aspect_term or "", item.span)
    polarity = read(item.polarity).value
    if span is None or polarity is None or item.is_implicit:
        return None
    probability = probability_of(item)
    sentiment = Sentiment(
        polarity=polarity,
        confidence=probability,
        evidence=item.evidence,
        opinion_term=item.opinion_term,
        category=categories.find(item.category) if categories else None,
    )
    aspect = AspectRecord(term=item.aspect_term or "", span=span, confidence=probability)
    return Seen((aspect, sentiment), probability, item.reported is not False)


def explicit(forms: Mapping[Pair, Form]) -> dict[Pair, Form]:
    """The tuples whose aspect is in the text."""
    return {pair: form for pair, form in forms.items() if not form[0].is_implicit(form[1])}


def compare(state: State, pipeline: PipelineSettings) -> CompareUpdate:
    """Compare the first call with the second reader."""
    lang, text = language(state["lang"]), state["text"]
    categories = categories_of(pipeline)
    counter, reader = PolarityCounter(categories), state["second_reader_answer"]
    first, given_aspects = state["extract_answers"]["0"], state.get("given_aspects")
    least = pipeline.min_name_probability
    result = read_extraction(first, text, lang, counter, given_aspects, least)
    forms = forms_of(result, text, lang)
    called = explicit(forms)
    seen = aligned(seen_by(reader, text, lang, given_keys(state, lang), categories), called)
    reported = {pair: one for pair, one in seen.items() if one.reported}
    reads_language, knows_domain = reader.reads_language is not False, bool(reader.knows_domain)
    trust, trust_from = _trust(state, pipeline.selective, reads_language, knows_domain)
    outcome: Literal["agreed", "contested", "reader_alone"] = "contested"
    if reads_language and called.keys() == reported.keys():
        outcome = "agreed"
    elif reaches(trust, 1.0):
        outcome = "reader_alone"
    scored = score_tuples([forms], reported, trust, 0.0, 0.0) if outcome == "agreed" else []
    return {
        "stage1_result": _with_scores(result, scored, lang),
        "stage1_validation": ValidatorAnswer(),
        "counts": {**state["counts"], "stage1": counter.counts()},
        "second_opinion": SecondOpinion(
            outcome=outcome,
            reads_language=reads_language,
            knows_domain=knows_domain,
            trust=trust,
            trust_from=trust_from,
            calls=1,
            agreement=Agreement(
                matched=len(called.keys() & reported.keys()),
                called=len(called),
                reported=len(reported),
                p_reported=round(sum(s.probability for s in reported.values()), 6),
                p_seen=round(sum(s.probability for s in seen.values()), 6),
            ),
            tuples=tuple(scored),
        ),
    }


def _trust(
    state: State, s: SelectiveSettings, reads_language: bool, knows_domain: bool
) -> tuple[float, Literal["setting", "run", "default"]]:
    if s.trust is not None:
        return (s.trust if reads_language else 0.0), "setting"
    measured = state.get("reader_trust")
    if measured is not None and reads_language:
        return measured, "run"
    return (DEFAULT_TRUST[knows_domain] if reads_language else 0.0), "default"


def fuse(state: State, pipeline: PipelineSettings) -> FuseUpdate:
    """Decide on every tuple of a call or the second reader."""
    lang, text = language(state["lang"]), state["text"]
    categories = categories_of(pipeline)
    counter, given_aspects = PolarityCounter(categories), state.get("given_aspects")
    results = [
        read_extraction(a, text, lang, counter, given_aspects) for a in answers_in_order(state)
    ]
    calls = [forms_of(result, text, lang) for result in results]
    opinion = state["second_opinion"]
    assert opinion is not None, "`compare` writes it"
    share = threshold = pipeline.vote.threshold
    seen: dict[Pair, Seen] = {}
    if opinion.reads_language:
        only = given_keys(state, lang)
        seen = seen_by(state["second_reader_answer"], text, lang, only, categories)
        seen = aligned(seen, chain.from_iterable(calls))
        threshold = pipeline.selective.threshold
    scored = score_tuples(calls, seen, opinion.trust, threshold, share)
    if given_aspects is not None:
        scored = _with_best(scored, lang)
    forms = {
        pair: best_supported(
            [
                *(call[pair] for call in calls if pair in call),
                *([seen[pair].form] if pair in seen else []),
            ],
            text,
        )
        for t in scored
        if t.kept
        for pair in (_pair(t, lang),)
    }
    fused = result_of(forms).model_copy(update={"unanchored": results[0].unanchored})
    return {
        "fused_result": _with_scores(fused, scored, lang),
        "second_opinion": opinion.model_copy(
            update={"calls": len(results), "tuples": tuple(scored)}
        ),
        "counts": {**state["counts"], "stage1": counter.counts()},
    }


def score_tuples(
    calls: Sequence[Mapping[Pair, Form]],
    seen: Mapping[Pair, Seen],
    trust: float,
    threshold: float,
    share: float,
) -> list[FusedTuple]:
    """Every tuple with its votes, the analyzer's probability and its score.

    `share` is the minimum share of calls for an implicit tuple. A tuple is implicit if neither a
    call nor the analyzer finds its aspect in the text.
    """
    forms: dict[Pair, Form] = {}
    is_explicit: set[Pair] = set(seen)
    for call in (*calls, {pair: one.form for pair, one in seen.items()}):
        for pair, form in call.items():
            forms.setdefault(pair, form)
            if not form[0].is_implicit(form[1]):
                is_explicit.add(pair)
    tuples = []
    for pair, (aspect, _) in forms.items():
        votes = sum(pair in call for call in calls)
        one = seen.get(pair)
        p = one.probability if one else 0.0
        score = votes / len(calls)
        if pair in is_explicit:
            score = (1 - trust) * score + trust * p
        tuples.append(
            FusedTuple(
                aspect_term=aspect.term,
                category=pair[1],
                polarity=pair[2],
                is_implicit=pair not in is_explicit,
                votes=votes,
                p=p,
                reported=one is not None and one.reported,
                score=round(score, 12),
                kept=reaches(score, threshold if pair in is_explicit else share),
            )
        )
    return tuples


def _with_best(scored: Sequence[FusedTuple], lang: Language) -> list[FusedTuple]:
    """The tuples; the best one of each aspect is always kept."""
    best: dict[str, FusedTuple] = {}
    for t in scored:
        key = lang.key(t.name)
        if key not in best or best[key].score < t.score:
            best[key] = t
    return [t.model_copy(update={"kept": t.kept or t in best.values()}) for t in scored]


def _pair(t: FusedTuple, lang: Language) -> Pair:
    return lang.key(t.name), t.category, t.polarity


def _with_scores(result: StageResult, scored: Iterable[FusedTuple], lang: Language) -> StageResult:
    scores = {_pair(t, lang): t.score for t in scored}

    def with_score(aspect: AspectRecord, sentiment: Sentiment) -> Sentiment:
        pair = (lang.key(aspect.name), sentiment.category, sentiment.polarity)
        return sentiment.model_copy(update={"confidence": scores.get(pair, sentiment.confidence)})

    aspects = (
        a.model_copy(update={"sentiments": tuple(with_score(a, s) for s in a.sentiments)})
        for a in result.aspects
    )
    return result.model_copy(update={"aspects": tuple(aspects)})


def is_too_weak(texts: Iterable[Agreement], s: SelectiveSettings) -> bool:
    """Whether the analyzer should decide alone, measured on texts without gold.

    The analyzer's expected F1 follows from its calibrated probabilities. The model's F1 against
    gold is approximately its F1 against the analyzer, divided by the square root of the analyzer's
    F1. If it is below `alone_below` times the analyzer's F1, more calls add errors.
    """
    totals = [(a.matched, a.called, a.reported, a.p_reported, a.p_seen) for a in texts]
    if not totals:
        return False
    matched, called, reported, p_reported, p_seen = map(sum, zip(*totals, strict=True))
    if not called or not p_reported:
        return False
    quality = min(1.0, 2 * p_reported / (reported + p_seen))
    model = 2 * matched / (called + reported) / sqrt(quality)
    return model < s.alone_below * quality
