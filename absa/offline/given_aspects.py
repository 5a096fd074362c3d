"""Aspects that the user gave: each is judged where it stands, and nothing else is looked for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from absa.offline.models.judge import Judge, by_rules
from absa.offline.models.loading import LanguageModels
from absa.offline.models.polarity_model import LABELS
from absa.offline.stopping import watched_closely
from absa.offline.text import polarity_rules
from absa.offline.text.annotations import Aspect, Finding, View
from absa.offline.text.lexicon import lexicon

Place = tuple[int, int]


def judge(view: View, models: LanguageModels, terms: Sequence[str]) -> list[Finding]:
    """What the text says about each term that it names, itself or by a synonym."""
    lowered = view.text.lower() if len(view.text.lower()) == len(view.text) else view.text
    places = {
        term: place
        for term in watched_closely(terms)
        if (place := _place(view, lowered, term)) is not None
    }
    aspects = _aspects(view, places)
    judge_of = Judge(view, models.polarity, models.readers, places.values(), alone=False)
    findings = []
    for aspect, (clause, nearest) in zip(
        aspects, polarity_rules.read_by_rules(view, aspects), strict=True
    ):
        judgement = judge_of.at(aspect.first, aspect.start, aspect.end)
        probabilities = judgement.said
        if judgement.rules is not None:
            clause = nearest = by_rules(view, aspect, judgement)
        elif view.encoded is None and view.domain not in models.decision.domains:
            probabilities = polarity_rules.blend_with_rules(probabilities, clause)
        elif polarity_rules.rests_on_own_words(view, clause):
            weight = polarity_rules.OWN_WORDS
            probabilities = polarity_rules.blend_with_rules(probabilities, clause, weight)
        likely = max(probabilities)
        word, sure = LABELS[probabilities.index(likely)], round(likely, 3)
        reading = polarity_rules.learned(view, aspect, word, likely, sure, (nearest, clause))
        findings.append(Finding(aspect, sure, reading, nearest))
    return findings


def _place(view: View, lowered: str, term: str) -> Place | None:
    names = [term, term.lower()]
    for group in lexicon(view.lang).synonyms:
        if term.lower() in group:
            names += sorted(group, key=len, reverse=True)
    for name in names:
        for text in (view.text, lowered):
            at = text.find(name)
            if name and at >= 0:
                return at, at + len(name)
    return None


def _aspects(view: View, places: Mapping[str, Place]) -> list[Aspect]:
    starts = [token.start for token in view.tokens]
    firsts = [clause.first for clause in view.clauses]
    aspects = []
    for term, (start, end) in places.items():
        first = max(0, bisect_right(starts, start) - 1)
        last = max(first + 1, bisect_left(starts, end))
        clause = max(0, bisect_right(firsts, first) - 1)
        aspects.append(Aspect(term, start, end, first, last, clause, term_probability=1.0))
    return aspects
