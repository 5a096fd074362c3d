"""All readings of an aspect weighed together: the final word of the debate.

Stage 1 speaks with the learned models alone. The rules, the text model on the aspect's own clause
and on its sentence, and the other aspects read the same words differently. Two logistic
regressions, fitted to texts that the models have not seen, weigh them: does the candidate name an
aspect that an annotator would mark, and with which polarity. A third one weighs the label of the
whole text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Self

from pydantic import ConfigDict, TypeAdapter

from absa.offline.models.folder import read_as
from absa.offline.text.annotations import NEUTRAL, Probabilities

#: Named measures of a candidate or of a text.
Measures = dict[str, float]
Weights = Mapping[str, tuple[float, ...]]

BIAS = "bias"
_LIMIT = 4.0
_CLIP = 1e-3


@dataclass(frozen=True)
class Combination:
    """Weights of the regressions, and from where on the debate contradicts Stage 1.

    Attributes:
        aspect: One weight for each measure: does the candidate name an aspect?
        polarity: Three weights for each: positive, negative, neutral.
        rules: The same for the measures of the rules alone: their calibrated reading.
        clause: The same for the text model's measures of the aspect's clause.
        label: Four weights for each measure of a text: positive, negative, neutral, mixed.
        add: How likely a tuple must be right for the debate to add it.
        drop: Below which probability the debate drops a tuple of Stage 1.
        flip: How much likelier than Stage 1's another polarity must be.
    """

    aspect: Weights
    polarity: Weights
    rules: Weights
    clause: Weights
    label: Weights
    add: float
    drop: float
    flip: float
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False, extra="ignore")

    @classmethod
    def read(cls, content: bytes, path: Path) -> Self:
        """Take a file's content.

        Raises:
            ValueError: if it is none.
        """
        with read_as("a combination of readings", path):
            return TypeAdapter(cls).validate_json(content)

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n", "utf-8")

    def is_aspect(self, measures: Measures) -> float:
        """How likely an annotator would mark exactly these words."""
        (score,) = _scores(self.aspect, measures, 1)
        return 1 / (1 + math.exp(-score))

    def polarities(self, measures: Measures) -> Probabilities:
        """P(positive), P(negative), P(neutral) of an aspect, by all readings."""
        return _three(self.polarity, measures)

    def by_rules(self, measures: Measures) -> Probabilities:
        """The same by the rules alone."""
        return _three(self.rules, measures)

    def by_clause(self, measures: Measures) -> Probabilities:
        """The same by the text model's reading of the clause alone."""
        return _three(self.clause, measures)

    def labels(self, measures: Measures) -> tuple[float, ...]:
        """P(positive), P(negative), P(neutral), P(mixed) of the text."""
        return _softmax(_scores(self.label, measures, 4))


def _three(weights: Weights, measures: Measures) -> Probabilities:
    positive, negative, neutral = _softmax(_scores(weights, measures, 3))
    return positive, negative, neutral


def _scores(weights: Weights, measures: Measures, size: int) -> list[float]:
    scores = list(weights[BIAS])
    for name, row in weights.items():
        value = measures.get(name)
        if value:
            for place in range(size):
                scores[place] += row[place] * value
    return scores


def _softmax(scores: Sequence[float]) -> tuple[float, ...]:
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    total = sum(powers)
    return tuple(power / total for power in powers)


def logit(probability: float) -> float:
    """Log-odds, bounded."""
    clipped = min(max(probability, _CLIP), 1 - _CLIP)
    return math.log(clipped / (1 - clipped))


def put(measures: Measures, name: str, said: Probabilities) -> None:
    """Enter a reading: positive against negative, and neutral against both."""
    positive, negative, neutral = (math.log(max(share, _CLIP)) for share in said)
    measures[name] = clipped(positive - negative)
    measures[f"{name}: {NEUTRAL}"] = clipped(neutral - max(positive, negative))


def clipped(value: float, limit: float = _LIMIT) -> float:
    """A value within bounds."""
    return max(-limit, min(limit, value))
