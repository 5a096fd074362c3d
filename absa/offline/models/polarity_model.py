"""The learned polarity of an aspect in its text, and of a whole text.

Linear models over named cues (`cues.py`), kept as tables of hashed weights: the name of a cue picks
a row of three weights, one per polarity; rows are added up and go through a softmax. A model may
hold a small network (`zone_network.py`) whose scores are added for aspects; in a language with an
encoder what that says is added as well. Calibration is folded
into the weights. Nothing here changes after loading, so one model may serve many threads.
`absa.offline.training` trains one on top of another, `training/` the shipped ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from absa.offline.models import cues, encoder, folder
from absa.offline.models.hashing import Table
from absa.offline.models.zone_network import ZoneNet
from absa.offline.text.annotations import NEGATIVE, NEUTRAL, POSITIVE, Probabilities, View

#: The order of the three probabilities.
LABELS = (POSITIVE, NEGATIVE, NEUTRAL)
Scores = npt.NDArray[np.float32]

#: The name of the row that is always added.
BIAS = "bias"


@dataclass(frozen=True)
class PolarityModel:
    """Polarity of aspects and texts of one language.

    Attributes:
        lang: ``ko`` or ``en``.
        aspect_weights: Three weights, in the order of LABELS, for each cue of aspects.
        text_weights: The same for the cues of texts.
        valence: What single words say about whole texts, positive or negative; a source of cues.
        net: The network for aspects, if the language has one.
        encoder: How much the encoder's scores count, for aspects and for texts.
    """

    lang: str
    aspect_weights: Table
    text_weights: Table
    valence: Mapping[str, float] = field(default_factory=dict)
    net: ZoneNet | None = None
    encoder: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def read(cls, content: bytes, path: Path) -> PolarityModel:
        """Take a model file's content.

        Raises:
            ValueError: if the file is not a polarity model.
        """
        with folder.read_as("a polarity model", path):
            data = folder.arrays(content)
            words = bytes(data["valence_words"]).decode("utf-8").split("\n")
            values = data["valence_values"].tolist()
            return cls(
                lang=str(data["lang"]),
                aspect_weights=_table(data, "aspect"),
                text_weights=_table(data, "text"),
                valence=dict(zip(words, values, strict=True)) if values else {},
                net=ZoneNet.from_arrays(data) if "net_keys" in data else None,
                encoder=_pair(data),
            )

    def save(self, path: str | Path) -> None:
        """Write a model file; equal models give equal bytes."""
        arrays: dict[str, Any] = {"lang": np.array(self.lang)}
        for name, table in (("aspect", self.aspect_weights), ("text", self.text_weights)):
            arrays[f"{name}_keys"] = table.keys
            arrays[f"{name}_weights"] = table.weights.astype(np.float16)
        words = "\n".join(self.valence).encode("utf-8")
        arrays["valence_words"] = np.frombuffer(words, np.uint8)
        arrays["valence_values"] = np.array(list(self.valence.values()), np.float16)
        if any(self.encoder):
            arrays["encoder"] = np.array(self.encoder)
        if self.net is not None:
            arrays.update(self.net.arrays())
        with Path(path).open("wb") as file:
            np.savez_compressed(file, **arrays)

    def aspect(
        self, view: View, start: int, end: int, others: Sequence[cues.Span] = ()
    ) -> Probabilities:
        """P(positive), P(negative), P(neutral) of the aspect at characters ``[start, end)``.

        Args:
            view: the text, from :func:`absa.offline.text.views.view_of`.
            start: where the aspect term begins.
            end: where it ends; an empty span asks for an aspect that the text does not name.
            others: character spans of the text's other aspects, as far as they are known. They
                only say whose an opinion is likely to be; a wrong or missing one does little harm.
        """
        return softmax(self.aspect_scores(view, start, end, others))

    def aspect_scores(
        self, view: View, start: int, end: int, others: Sequence[cues.Span] = ()
    ) -> Scores:
        """The scores behind :meth:`aspect`: log-probabilities up to a common constant."""
        key = ("polarity", id(self), start, end, *others)
        scores = view.once(key, lambda: self._small_scores(view, start, end, others))
        return _with(scores, self.encoder[0], encoder.aspect_scores(view, start, end))

    def _small_scores(
        self, view: View, start: int, end: int, others: Sequence[cues.Span]
    ) -> Scores:
        """The scores without the encoder."""
        features = cues.aspect_cues(view, start, end, others, self.valence)
        scores = _scores(self.aspect_weights, features, 1.0)
        placed = cues.zone_words(view, start, end, others) if self.net else []
        return scores + self.net.scores(placed) if self.net and placed else scores

    def text(self, view: View) -> Probabilities:
        """P(positive), P(negative), P(neutral) of the text as a whole."""
        return softmax(self.text_scores(view))

    def text_scores(self, view: View) -> Scores:
        """The scores behind :meth:`text`."""
        scores = view.once(("mood", id(self)), lambda: self._small_text_scores(view))
        return _with(scores, self.encoder[1], encoder.text_scores(view))

    def _small_text_scores(self, view: View) -> Scores:
        features = cues.text_cues(view)
        return _scores(self.text_weights, features, unit(features))


def unit(found: cues.Cues) -> float:
    """The factor that brings cues to unit length, so that a long text does not shout."""
    return 1.0 / math.sqrt(sum(value * value for value in found.values()) or 1.0)


def _with(scores: Scores, weight: float, encoded: Scores | None) -> Scores:
    return scores if encoded is None else scores + np.float32(weight) * encoded


def _pair(data: Mapping[str, npt.NDArray[Any]]) -> tuple[float, float]:
    aspects, texts = data.get("encoder", np.zeros(2)).tolist()
    return aspects, texts


def _table(data: Mapping[str, npt.NDArray[Any]], name: str) -> Table:
    keys, weights = data[f"{name}_keys"], data[f"{name}_weights"].astype(np.float32)
    if weights.shape != (len(keys), len(LABELS)):
        raise ValueError(f"{name}_weights has another size than {name}_keys")
    return Table(keys, weights)


def _scores(table: Table, found: cues.Cues, factor: float) -> Scores:
    is_present, weights = table.find([*found, BIAS])
    values = np.fromiter((*found.values(), 1 / factor), np.float32, len(found) + 1)[is_present]
    return np.asarray((values * np.float32(factor)) @ weights, np.float32)


def softmax(scores: Scores) -> Probabilities:
    """Probabilities of the three scores."""
    positive, negative, neutral = scores.tolist()
    top = max(positive, negative, neutral)
    powers = math.exp(positive - top), math.exp(negative - top), math.exp(neutral - top)
    total = sum(powers)
    return powers[0] / total, powers[1] / total, powers[2] / total
