"""The category of what a text judges: of each named aspect, and of what it judges without a name.

Linear models over hashed cues, with weights for each domain of the training data. Where an encoder
knows the domain's categories, their probabilities are a mean of what both say. A named aspect has
the most likely category. Whether the text judges something without a name is one probability
(`judged`), and the category of that judgement is another one (`unnamed`). A category is reported
where their product reaches the domain's threshold. `training/categories.py` makes the shipped
models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from absa.nodes.categories import spelling
from absa.offline.models import folder
from absa.offline.models.hashing import Array, Table
from absa.offline.models.polarity_model import LABELS
from absa.offline.text.annotations import MIXED, Analysis, CategoryScores, Token

Cues = dict[str, float]
BIAS = "bias"
#: Tokens before and after an aspect that count as its context, the nearer ones more.
_BEFORE, _AFTER, _NEAR = 6, 7, 3
_NGRAMS = (2, 3, 4)
_STEM = 4
_LONGEST = 60
#: How far from an aspect an opinion may be that counts, and from where on it counts less.
_FAR_OPINION, _NEAR_OPINION = 8, 4
#: The Euclidean length of the cues of an aspect.
_LENGTH = 1.5
#: No text has more judgements without a name than this.
_MOST = 2


def aspect_cues(analysis: Analysis, start: int, end: int) -> Cues:
    """What tells the category of the aspect at characters ``[start, end)``."""
    words = [_word(token) for token in analysis.tokens]
    inside = [i for i, t in enumerate(analysis.tokens) if t.start < end and start < t.end] or [0]
    first, last = inside[0], inside[-1]
    term = analysis.text[start:end].lower()[:_LONGEST]
    cues: Cues = {f"T={term}": 1.5}
    for i in inside:
        cues[f"t={words[i]}"] = 1.5
    cues[f"h={words[last]}"] = 1.5
    for size in _NGRAMS:
        for i in range(len(term) - size + 1):
            cues[f"x{term[i : i + size]}"] = 0.4
    for i in range(max(0, first - _BEFORE), first):
        cues[f"c={words[i]}"] = 1.0 if i >= first - _NEAR else 0.6
    for i in range(last + 1, min(len(words), last + 1 + _AFTER)):
        cues[f"c={words[i]}"] = 1.0 if i <= last + _NEAR else 0.6
    for i, word in enumerate(words):
        cues.setdefault(f"w={word}", 0.25)
        if len(word) > _STEM:
            distance = max(first - i, i - last, 0)
            weight = 0.6 if distance <= _NEAR else 0.36 if distance <= _AFTER else 0.15
            stem = f"{'s' if distance else 'S'}={word[:_STEM]}"
            cues[stem] = max(cues.get(stem, 0.0), weight)
    for opinion in analysis.opinions:
        distance = min(abs(opinion.first - last), abs(first - opinion.last + 1))
        if distance <= _FAR_OPINION:
            for word in words[opinion.first : opinion.last]:
                cues[f"o={word}"] = 0.7 if distance <= _NEAR_OPINION else 0.4
    for clause in analysis.clauses:
        if clause.first <= first < clause.last:
            for i in range(clause.first, clause.last):
                if not first <= i <= last:
                    cues[f"k={words[i]}"] = 0.7
    return _scaled(cues)


def text_cues(tokens: Sequence[Token]) -> Cues:
    """What tells the categories of what a text judges without a name."""
    words = [_word(token) for token in tokens]
    names = {f"w={word}" for word in words}
    names |= {f"b={one} {two}" for one, two in zip(words, words[1:], strict=False)}
    value = 3.0 / max(1.0, len(names) ** 0.5)
    return dict.fromkeys(sorted(names), value)


def judged_cues(analysis: Analysis) -> Cues:
    """What tells whether a text judges something without a name: its aspects, mood and words."""
    every = (*analysis.findings, *analysis.reserve)
    named = sum(1 for finding in every if finding.verdict)
    surest, second = sorted([0.0, 0.0, *(sum(f.likely) for f in every)])[:-3:-1]
    positive, negative, neutral = analysis.mood or (1 / 3, 1 / 3, 1 / 3)
    praise = sum(1 for opinion in analysis.opinions if opinion.score > 0)
    blame = sum(1 for opinion in analysis.opinions if opinion.score < 0)
    state = {
        f"named={min(named, 2)}": 1.0,
        "surest": 2 * surest,
        "second": 2 * second,
        "positive": positive,
        "negative": negative,
        "neutral": 2 * neutral,
        "likely": 2 * max(positive, negative, neutral),
        "mixed": float(analysis.label is not None and analysis.label[0] == MIXED),
        "whole": float(analysis.overall is not None),
        "length": math.log1p(len(analysis.tokens)),
        "praise": float(min(praise, _MANY)),
        "blame": float(min(blame, _MANY)),
        "no opinion": float(not analysis.opinions),
    }
    for word, probability in zip(LABELS, analysis.unnamed, strict=False):
        state[f"unnamed {word}"] = _log_odds(probability)
    if analysis.unnamed:
        state["unnamed"] = _log_odds(max(analysis.unnamed))
    return {**text_cues(analysis.tokens), **state}


_MANY = 4
_LEAST_ODDS = 0.02


def _log_odds(probability: float) -> float:
    return math.log((probability + _LEAST_ODDS) / (1.0 - probability + _LEAST_ODDS))


def _word(token: Token) -> str:
    return token.lemma.lower()[:_LONGEST]


def _scaled(cues: Cues) -> Cues:
    """Cues of one Euclidean length: long texts do not outweigh short ones."""
    scale = _LENGTH / math.hypot(*cues.values())
    return {name: value * scale for name, value in cues.items()}


@dataclass(frozen=True)
class DomainCategories:
    """The categories of one domain.

    Attributes:
        names: Categories of named aspects, one column of `aspects` each.
        aspects: Weights of the cues of an aspect.
        unnamed_names: Categories of what is judged without a name.
        unnamed: Weights of the cues of a text, one column for each of these.
        judged: Weights of what tells whether anything is judged without a name; one column.
        threshold: From which probability an unnamed judgement is reported.
        domain: What the encoder calls the domain.
        encoder: How much the encoder counts (0 to 1): for named aspects, for unnamed judgements.
    """

    names: tuple[str, ...]
    aspects: Table
    unnamed_names: tuple[str, ...]
    unnamed: Table
    judged: Table
    threshold: float
    domain: str = ""
    encoder: tuple[float, float] = (0.0, 0.0)

    def aspect_shares(
        self, cues: Cues, place: tuple[int, int], encoder: CategoryScores | None
    ) -> Array:
        """The probabilities of the categories of the aspect at these characters."""
        scores = encoder.aspects.get(place) if encoder else None
        shares = _shares(_scores(self.aspects, cues))
        return self._mixed(shares, self.names, encoder, scores, self.encoder[0])

    def text_shares(self, words: Cues, encoder: CategoryScores | None) -> Array:
        """The probabilities of the categories of an unnamed judgement."""
        scores = encoder.text if encoder else None
        shares = _shares(_scores(self.unnamed, words))
        return self._mixed(shares, self.unnamed_names, encoder, scores, self.encoder[1])

    def _mixed(
        self,
        shares: Array,
        names: Sequence[str],
        encoder: CategoryScores | None,
        scores: Array | None,
        weight: float,
    ) -> Array:
        """The mean of both models' probabilities; those of one where the other knows none."""
        if encoder is None or scores is None or not weight:
            return shares
        places = {name: i for i, (own, name) in enumerate(encoder.names) if own == self.domain}
        if not places:
            return shares
        by_name = dict(zip(places, _shares(scores[list(places.values())]), strict=True))
        other = np.array([by_name.get(name, 0.0) for name in names], np.float32)
        return np.asarray((1 - weight) * shares + weight * other, np.float32)

    def of_aspect(
        self,
        cues: Cues,
        allowed: Mapping[str, str],
        place: tuple[int, int] = (0, 0),
        encoder: CategoryScores | None = None,
    ) -> tuple[str, float] | None:
        """The most likely of the allowed categories (by spelling) and its probability."""
        shares = self.aspect_shares(cues, place, encoder)
        ranked = [
            (float(share), allowed[own])
            for name, share in zip(self.names, shares, strict=True)
            if (own := spelling(name)) in allowed
        ]
        if not ranked:
            return None
        probability, name = max(ranked)
        return name, probability

    def of_text(
        self,
        words: Cues,
        cues: Cues,
        allowed: Mapping[str, str],
        encoder: CategoryScores | None = None,
    ) -> list[tuple[str, float]]:
        """The categories that the text likely judges without a name, the likeliest first."""
        if not self.unnamed_names:
            return []
        judged = 1.0 / (1.0 + math.exp(-float(_scores(self.judged, cues)[0])))
        shares = self.text_shares(words, encoder)
        ranked = [
            (allowed[own], judged * float(share))
            for name, share in zip(self.unnamed_names, shares, strict=True)
            if (own := spelling(name)) in allowed
        ]
        return sorted(ranked, key=lambda each: -each[1])


def _shares(scores: Array) -> Array:
    """Probabilities that add up to 1."""
    powers = np.exp(scores - scores.max(initial=-np.inf))
    return np.asarray(powers / powers.sum(), np.float32)


def _scores(table: Table, cues: Cues) -> Array:
    is_present, weights = table.find([*cues, BIAS])
    values = np.fromiter((*cues.values(), 1.0), np.float32, len(cues) + 1)[is_present]
    return np.asarray(values @ weights, np.float32)


@dataclass(frozen=True)
class CategoryModel:
    """The categories of the domains of one language."""

    domains: Mapping[str, DomainCategories]

    @classmethod
    def read(cls, content: bytes, path: Path) -> CategoryModel:
        """Take a model file's content.

        Raises:
            ValueError: if the file is not a category model.
        """
        with folder.read_as("a category model", path):
            data = folder.arrays(content)
            return cls(
                {
                    name: DomainCategories(
                        _lines(data[f"{name}.names"]),
                        _table(data, f"{name}.aspects"),
                        _lines(data[f"{name}.unnamed_names"]),
                        _table(data, f"{name}.unnamed"),
                        _table(data, f"{name}.judged"),
                        float(data[f"{name}.threshold"]),
                        name,
                        # Files that were made before encoders knew categories have no such weights.
                        _weights(data.get(f"{name}.encoder")),
                    )
                    for name in _lines(data["domains"])
                }
            )

    def save(self, path: Path) -> None:
        """Write a model file; equal models give equal bytes."""
        arrays: dict[str, Any] = {"domains": _text(self.domains)}
        for name, part in self.domains.items():
            arrays[f"{name}.names"] = _text(part.names)
            arrays[f"{name}.unnamed_names"] = _text(part.unnamed_names)
            arrays[f"{name}.threshold"] = np.array(part.threshold, np.float32)
            arrays[f"{name}.encoder"] = np.array(part.encoder, np.float32)
            for kind in ("aspects", "unnamed", "judged"):
                table: Table = getattr(part, kind)
                scale = np.abs(table.weights).max(initial=1e-6) / 127
                arrays[f"{name}.{kind}_keys"] = table.keys
                arrays[f"{name}.{kind}_scale"] = np.array(scale, np.float32)
                arrays[f"{name}.{kind}_weights"] = np.round(table.weights / scale).astype(np.int8)
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)

    def of(self, domain: str | None, categories: Iterable[str]) -> DomainCategories | None:
        """The part that knows these categories: that of the text's domain, else the best fitting.

        None where no domain has any of them.
        """
        allowed = set(map(spelling, categories))
        shared = {
            name: len(allowed & {spelling(c) for c in (*part.names, *part.unnamed_names)})
            for name, part in self.domains.items()
        }
        if domain is not None and shared.get(domain):
            return self.domains[domain]
        best = max(shared, key=lambda name: shared[name], default=None)
        return self.domains[best] if best is not None and shared[best] else None


def unnamed_judgements(
    part: DomainCategories, analysis: Analysis, allowed: Mapping[str, str]
) -> list[tuple[str, float]]:
    """The categories that are reported, with the probability that their polarity is right too."""
    certainty = max(analysis.mood) if analysis.mood else 0.0
    ranked = part.of_text(
        text_cues(analysis.tokens), judged_cues(analysis), allowed, analysis.category_scores
    )
    candidates = ((name, p * certainty) for name, p in ranked)
    return [(name, p) for name, p in candidates if p >= part.threshold][:_MOST]


def _table(data: Mapping[str, npt.NDArray[Any]], name: str) -> Table:
    keys, weights = data[f"{name}_keys"], data[f"{name}_weights"]
    if len(weights) != len(keys):
        raise ValueError(f"{name}_weights has another size than {name}_keys")
    return Table(keys, weights.astype(np.float32) * np.float32(data[f"{name}_scale"]))


def _weights(pair: npt.NDArray[Any] | None) -> tuple[float, float]:
    if pair is None:
        return 0.0, 0.0
    of_aspects, of_texts = pair.tolist()
    return float(of_aspects), float(of_texts)


def _text(lines: Iterable[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer("\n".join(lines).encode("utf-8"), np.uint8)


def _lines(text: npt.NDArray[Any]) -> tuple[str, ...]:
    return tuple(bytes(text).decode("utf-8").split("\n")) if len(text) else ()


@cache
def shipped(lang: str) -> CategoryModel:
    """The shipped model of ``ko`` or ``en``."""
    source = folder.shipped()
    name = f"categories_{lang}.npz"
    return CategoryModel.read(source.read(name), source.path / name)
