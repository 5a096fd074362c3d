"""What the models and the rules say of the aspects of one text."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from absa.offline.models import readers
from absa.offline.models.polarity_model import LABELS, PolarityModel, Scores, softmax
from absa.offline.models.readers import Readers
from absa.offline.text.annotations import (
    NEUTRAL,
    POSITIVE,
    Aspect,
    Opinion,
    Probabilities,
    Reading,
    View,
)
from absa.offline.text.scope import Scope, Span, scopes_at
from absa.offline.text.windows import Windows

_TINY = 1e-4
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The polarity of one aspect.

    Attributes:
        said: What Stage 1 goes by.
        rules: What the rules alone say, if the language has a reader of them.
        own: The opinions of the aspect's statement, then those of what follows it.
    """

    said: Probabilities
    rules: Probabilities | None = None
    own: tuple[Opinion, ...] = ()


class Judge:
    """Judges the aspects of one text."""

    def __init__(
        self,
        view: View,
        polarity: PolarityModel,
        reader: Readers | None,
        places: Collection[Place],
        *,
        alone: bool,
    ) -> None:
        """Take the text and where its aspects are, as far as that is known.

        `alone`: what a text says as a whole, it says of its only aspect.
        """
        self._windows = Windows(view)
        self._polarity = polarity
        self._readers = reader
        self._places = sorted(set(places))
        self._alone = alone
        self._whole: dict[int, Scores] = {}
        self._scopes: dict[int, dict[Place, tuple[Span, Scope]]] = {}

    def at(self, token: int, start: int, end: int) -> Judgement:
        """The polarity of the aspect at characters ``[start, end)``, which begins at a token."""
        near = self._windows.at(token)
        low, high = near.tokens[0].start, near.tokens[-1].end
        inside = [place for place in self._places if low <= place[0] and place[1] <= high]
        others = [place for place in inside if place != (start, end)]
        scores = self._polarity.aspect_scores(near, start, end, others)
        if self._readers is None:
            probabilities = softmax(scores)
            return Judgement(
                _between(probabilities, softmax(self._text(near))) if self._alone else probabilities
            )
        span, scope = self._scope(near, inside, (start, end))
        measures = readers.rule_measures(near, span, scope)
        learned = readers.learned_measures(
            near, scope, scores.tolist(), self._text(near).tolist(), self._polarity, not others
        )
        learned.update(readers.encoder_measures(near, start, end, not others))
        return Judgement(
            said=self._readers.polarity(near).probabilities(learned),
            rules=self._readers.rules.probabilities(measures),
            own=readers.opinions_of(near, scope),
        )

    def _text(self, near: View) -> Scores:
        if id(near) not in self._whole:
            self._whole[id(near)] = self._polarity.text_scores(near)
        return self._whole[id(near)]

    def _scope(self, near: View, inside: list[Place], place: Place) -> tuple[Span, Scope]:
        scope = self._scopes.get(id(near))
        if scope is None:
            scope = dict(zip(inside, scopes_at(near, inside), strict=True))
            self._scopes[id(near)] = scope
        if place in scope:
            return scope[place]
        # Not one of the likely aspects: it may overlap with one, which then makes room.
        fitting = [p for p in inside if p[1] <= place[0] or place[1] <= p[0]]
        with_it = sorted([*fitting, place])
        return scopes_at(near, with_it)[with_it.index(place)]


def by_rules(view: View, aspect: Aspect, judgement: Judgement) -> Reading:
    """What the rules say of an aspect, with the opinion that bears it out."""
    shares = judgement.rules or (0.0, 0.0, 1.0)
    likely = max(shares)
    polarity = LABELS[shares.index(likely)]
    score = 0.0 if polarity == NEUTRAL else shares[0] - shares[1]
    agreeing = [o for o in judgement.own if (o.score > 0) == (polarity == POSITIVE)]
    opinion = max(agreeing, key=lambda o: abs(o.score), default=None)
    if opinion is None or polarity == NEUTRAL:
        clause, opinion = view.clauses[aspect.clause], None
        start, end = clause.start, clause.end
    else:
        start, end = opinion.start, opinion.end
    return Reading(polarity, score, round(likely, 3), start, end, opinion, judgement.own)


def _between(one: Probabilities, other: Probabilities) -> Probabilities:
    """The normalised geometric mean."""
    positive, negative, neutral = (math.sqrt(a * b) for a, b in zip(one, other, strict=True))
    total = max(positive + negative + neutral, _TINY)
    return positive / total, negative / total, neutral / total
