"""Two readings of an aspect in its own statement, by models and by rules, and one of the label.

They are logistic regressions over a few named measures. The rules know the lexicon, negation and
whose statement the words are (`absa.offline.text.scope`); the models say something of the aspect,
of its statement, of what follows, and of the text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter

from absa.offline.models import encoder
from absa.offline.models.folder import read_as
from absa.offline.models.polarity_model import LABELS, PolarityModel
from absa.offline.text.annotations import (
    CONTRAST,
    MIXED,
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    Opinion,
    Probabilities,
    View,
)
from absa.offline.text.scope import Scope, Span, part

_LIMIT = 4.0
_TINY = 1e-3
#: The largest number of clauses of a text that count for its label: the work is bounded.
_STATEMENTS = 40
_QUESTIONS = frozenset(
    {"나요", "ᆫ가요", "은가요", "ᆯ까요", "을까요", "는지", "ᆫ지", "은지", "니", "냐"}
)
Measures = dict[str, float]
#: The order of the labels of texts.
READ_LABELS = (POSITIVE, NEGATIVE, NEUTRAL, MIXED)


@dataclass(frozen=True)
class Reader:
    """Weights of positive, negative and neutral (and of mixed, for labels) for each measure."""

    weights: Mapping[str, tuple[float, ...]]

    def probabilities(self, measures: Measures) -> Probabilities:
        """P(positive), P(negative), P(neutral)."""
        positive, negative, neutral, *_ = self.shares(measures)
        return positive, negative, neutral

    def shares(self, measures: Measures) -> list[float]:
        """The probability of each label."""
        scores = [0.0] * len(self.weights["bias"])
        for name, value in {**measures, "bias": 1.0}.items():
            for label, weight in enumerate(self.weights.get(name, ())):
                scores[label] += weight * value
        top = max(scores)
        powers = [math.exp(score - top) for score in scores]
        total = sum(powers)
        return [power / total for power in powers]


@dataclass(frozen=True)
class Readers:
    """The readers of a language."""

    learned: Reader
    rules: Reader
    label: Reader
    #: The first and the last of them where an encoder has read the text, if the language has one.
    encoded: Reader | None = None
    encoded_label: Reader | None = None
    #: The same where the encoder knows the domain of the text.
    domain: Reader | None = None
    domain_label: Reader | None = None

    @classmethod
    def read(cls, content: bytes, path: Path) -> Self:
        """Take a file's content.

        Raises:
            ValueError: if it is none.
        """
        with read_as("a file of readers", path):
            return TypeAdapter(cls).validate_json(content)

    def polarity(self, view: View) -> Reader:
        """The reader of the polarity of aspects of a text."""
        if view.encoded and view.encoded.category_names and self.domain:
            return self.domain
        return self.encoded if view.encoded and self.encoded else self.learned

    def label_of(self, view: View) -> Reader:
        """The reader of the label of a text."""
        if view.encoded and view.encoded.category_names and self.domain_label:
            return self.domain_label
        return self.encoded_label if view.encoded and self.encoded_label else self.label

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=0) + "\n", "utf-8")


def _inside(opinion: Opinion, span: Span) -> bool:
    return span[0] <= opinion.first and opinion.last <= span[1]


def opinions_of(view: View, scope: Scope) -> tuple[Opinion, ...]:
    """The opinions of an aspect's statement, else those of what follows it."""
    strong = [opinion for opinion in view.opinions if not opinion.weak]
    own = tuple(opinion for opinion in strong if _inside(opinion, scope.own))
    return own or tuple(opinion for opinion in strong if _inside(opinion, scope.beyond))


def rule_measures(view: View, span: Span, scope: Scope) -> Measures:
    """What the rules see of the aspect at the tokens ``span``."""
    measures: Measures = {}
    own = [
        opinion
        for opinion in view.opinions
        if not opinion.weak
        and _inside(opinion, scope.own)
        # A name may hold praise (맛집); a noun that is bad by being there is judged by that.
        and (opinion.score < 0 or not _inside(opinion, span) or opinion.negated)
    ]
    beyond = [o.score for o in view.opinions if not o.weak and _inside(o, scope.beyond)]
    weak = sum(o.score for o in view.opinions if o.weak)
    scores = [opinion.score for opinion in own]
    sides = {
        "after": [o.score for o in own if o.first >= span[1]],
        "before": [o.score for o in own if o.last <= span[0] and not o.attributive],
        "modifier": [o.score for o in own if o.last <= span[0] and o.attributive],
        "name": [o.score for o in own if _inside(o, span)],
    }
    for name, values in sides.items():
        measures[name] = _sum(values)
    measures["own"] = _sum(scores)
    measures["last"] = scores[-1] if scores else 0.0
    measures["sign"] = float(sum(scores) > 0) - float(sum(scores) < 0)
    measures["conflict"] = float(bool(scores) and min(scores) < 0 < max(scores))
    measures["none"] = float(not scores)
    measures["nothing"] = float(not scores and not beyond)
    link = "contrast" if scope.contrast else "additive"
    measures[f"beyond {link}"] = _sum(beyond)
    if not scores:
        measures[f"only beyond {link}"] = _sum(beyond)
        if not beyond:
            measures["anywhere"] = _sum([o.score for o in view.opinions if not o.weak])
    measures["weak"] = max(-1.0, min(1.0, weak))
    left = [i for i in view.negators if scope.own[0] <= i < scope.own[1]]
    measures["negator"] = float(any(i not in view.used_negators for i in left))
    stretch = view.tokens[scope.own[0] : scope.own[1]]
    asked = any(token.lemma == "?" or token.form in _QUESTIONS for token in stretch)
    measures["question"] = float(asked)
    measures["question, no opinion"] = float(asked and not scores)
    measures["shared"] = float(scope.shared)
    return measures


def _sum(scores: Sequence[float]) -> float:
    return max(-1.5, min(1.5, sum(scores)))


def learned_measures(
    view: View,
    scope: Scope,
    said: Sequence[float],
    whole: Sequence[float],
    model: PolarityModel,
    alone: bool,
) -> Measures:
    """What the models say: `said` of the aspect, `whole` of the text, as scores."""
    own = model.text_scores(part(view, scope.own)).tolist()
    measures: Measures = {}
    _put(measures, "aspect", said)
    _put(measures, "statement", own)
    if scope.beyond[1] > scope.beyond[0]:
        link = "contrast" if scope.contrast else "additive"
        _put(measures, f"following {link}", model.text_scores(part(view, scope.beyond)).tolist())
    _put(measures, "text, alone" if alone else "text", whole)
    return measures


def encoder_measures(view: View, start: int, end: int, alone: bool) -> Measures:
    """What the encoder says of the aspect at characters ``[start, end)``, and of its text."""
    measures: Measures = {}
    if view.encoded is None:
        return measures
    scores = encoder.aspect_scores(view, start, end)
    if scores is not None:
        _put(measures, "encoder", scores.tolist())
    whole = "encoder, text, alone" if alone else "encoder, text"
    _put(measures, whole, _logs(view.encoded.labels[:3]))
    return measures


def encoder_label_measures(view: View) -> Measures:
    """What the encoder says for a label of the text."""
    measures: Measures = {}
    if view.encoded is None:
        return measures
    for label, score in zip(READ_LABELS, _logs(view.encoded.labels), strict=True):
        measures[f"encoder: {label}"] = score
    for label, probability in zip(LABELS, view.encoded.unnamed, strict=True):
        measures[f"encoder, unnamed: {label}"] = probability
    return measures


def _logs(shares: Sequence[float]) -> list[float]:
    return [math.log(max(share, _TINY)) for share in shares]


def label_measures(view: View, model: PolarityModel) -> Measures:
    """What speaks for a label of the text as a whole: the text, and its statements apart."""
    measures: Measures = {}
    _put(measures, "text", model.text_scores(view).tolist())
    statements = []
    for clause in view.clauses[:_STATEMENTS]:
        positive, negative, neutral = model.text_scores(
            part(view, (clause.first, clause.last))
        ).tolist()
        statements.append((_clipped(positive - negative), neutral - max(positive, negative)))
    strengths = [strength for strength, _ in statements]
    measures["best statement"] = max(strengths)
    measures["worst statement"] = min(strengths)
    measures["last statement"] = strengths[-1]
    measures["both"] = max(0.0, min(max(strengths), -min(strengths)))
    measures["least neutral"] = _clipped(min(neutral for _, neutral in statements))
    scores = [opinion.score for opinion in view.opinions if not opinion.weak]
    measures["praise"] = _sum([score for score in scores if score > 0])
    measures["blame"] = _sum([score for score in scores if score < 0])
    measures["praise and blame"] = min(measures["praise"], -measures["blame"])
    measures["last opinion"] = scores[-1] if scores else 0.0
    measures["no opinion"] = float(not scores)
    measures["weak"] = _sum([opinion.score for opinion in view.opinions if opinion.weak])
    measures["contrast"] = float(any(clause.link == CONTRAST for clause in view.clauses))
    measures["contrast, both"] = measures["contrast"] * measures["both"]
    measures["one statement"] = float(len(statements) == 1)
    measures["question"] = float(
        any(token.lemma == "?" or token.form in _QUESTIONS for token in view.tokens)
    )
    measures["question, no opinion"] = measures["question"] * measures["no opinion"]
    measures["negator"] = float(any(i not in view.used_negators for i in view.negators))
    return measures


def _put(measures: Measures, name: str, scores: Sequence[float]) -> None:
    positive, negative, neutral = scores
    measures[name] = _clipped(positive - negative)
    measures[f"{name}: neutral"] = _clipped(neutral - max(positive, negative))


def _clipped(value: float) -> float:
    return max(-_LIMIT, min(_LIMIT, value))
