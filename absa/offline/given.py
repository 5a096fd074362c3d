"""Aspects that the user gave: each is judged where it stands, and nothing else is looked for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from absa.offline import polarity
from absa.offline.lexicon import lexicon
from absa.offline.model import Aspect, Finding, View
from absa.offline.models import LanguageModels
from absa.offline.sentiment import LABELS
from absa.offline.windows import Windows

Place = tuple[int, int]


def judge(view: View, models: LanguageModels, terms: Sequence[str]) -> list[Finding]:
    """What the text says about each term that it names, itself or by a synonym."""
    places = {term: place for term in terms if (place := _place(view, term)) is not None}
    aspects = [_aspect(view, term, place) for term, place in places.items()]
    windows = Windows(view)
    found = []
    for aspect, (clause, nearest) in zip(aspects, polarity.ruled(view, aspects), strict=True):
        near = windows.at(aspect.first)
        own = (aspect.start, aspect.end)
        low, high = near.tokens[0].start, near.tokens[-1].end
        others = [p for p in places.values() if p != own and low <= p[0] and p[1] <= high]
        said = models.polarity.aspect(near, *own, others)
        if view.domain not in models.decision.domains:
            said = polarity.backed(said, clause)
        likely = max(said)
        word, sure = LABELS[said.index(likely)], round(likely, 3)
        reading = polarity.learned(view, aspect, word, likely, sure, (nearest, clause))
        found.append(Finding(aspect, sure, reading, nearest))
    return found


def _place(view: View, term: str) -> Place | None:
    lowered = view.text.lower() if len(view.text.lower()) == len(view.text) else view.text
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


def _aspect(view: View, term: str, place: Place) -> Aspect:
    start, end = place
    starts = [token.start for token in view.tokens]
    first = max(0, bisect_right(starts, start) - 1)
    last = max(first + 1, bisect_left(starts, end))
    clause = max(0, bisect_right([clause.first for clause in view.clauses], first) - 1)
    return Aspect(term, start, end, first, last, clause, termness=1.0)
