"""The category of what a text judges: of each named aspect, and of what it judges without a name.

Linear models over hashed cues, one pair for each domain of the training data. For a named aspect
the most likely category is taken. What is judged without a name is a yes or no for each category;
those whose probability reaches the domain's threshold are reported. `training/categories.py` makes
the shipped models.
"""

from __future__ import annotations

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
from absa.offline.text.annotations import Token

Cues = dict[str, float]
BIAS = "bias"
#: Tokens before and after an aspect that count as its context, the nearer ones more.
_BEFORE, _AFTER, _NEAR = 6, 7, 3
_NGRAMS = (2, 3, 4)
_LONGEST = 60
#: No text has more judgements without a name than this.
_MOST = 2


def aspect_cues(text: str, tokens: Sequence[Token], start: int, end: int) -> Cues:
    """What tells the category of the aspect at characters ``[start, end)``."""
    inside = [i for i, t in enumerate(tokens) if t.start < end and start < t.end] or [0]
    first, last = inside[0], inside[-1]
    term = text[start:end].lower()[:_LONGEST]
    cues: Cues = {f"T={term}": 1.5}
    for i in inside:
        cues[f"t={_word(tokens[i])}"] = 1.5
    cues[f"h={_word(tokens[last])}"] = 1.5
    for size in _NGRAMS:
        for i in range(len(term) - size + 1):
            cues[f"x{term[i : i + size]}"] = 0.4
    for i in range(max(0, first - _BEFORE), first):
        cues[f"c={_word(tokens[i])}"] = 1.0 if i >= first - _NEAR else 0.6
    for i in range(last + 1, min(len(tokens), last + 1 + _AFTER)):
        cues[f"c={_word(tokens[i])}"] = 1.0 if i <= last + _NEAR else 0.6
    for token in tokens:
        cues.setdefault(f"w={_word(token)}", 0.25)
    return cues


def text_cues(tokens: Sequence[Token]) -> Cues:
    """What tells the categories of what a text judges without a name."""
    words = [_word(token) for token in tokens]
    names = {f"w={word}" for word in words}
    names |= {f"b={one} {two}" for one, two in zip(words, words[1:], strict=False)}
    value = 3.0 / max(1.0, len(names) ** 0.5)
    return dict.fromkeys(sorted(names), value)


def _word(token: Token) -> str:
    return token.lemma.lower()[:_LONGEST]


@dataclass(frozen=True)
class DomainCategories:
    """The categories of one domain.

    Attributes:
        names: Categories of named aspects, one column of `aspects` each.
        aspects: Weights of the cues of an aspect.
        unnamed_names: Categories of what is judged without a name.
        unnamed: Weights of the cues of a text, one column for each of these.
        threshold: From which probability an unnamed judgement is reported.
    """

    names: tuple[str, ...]
    aspects: Table
    unnamed_names: tuple[str, ...]
    unnamed: Table
    threshold: float

    def of_aspect(self, cues: Cues, allowed: Mapping[str, str]) -> tuple[str, float] | None:
        """The most likely of the allowed categories (by spelling) and its probability."""
        scores = _scores(self.aspects, cues)
        powers = np.exp(scores - scores.max()) if len(scores) else scores
        total = float(powers.sum())
        ranked = [
            (float(power) / total, allowed[own])
            for name, power in zip(self.names, powers, strict=True)
            if (own := spelling(name)) in allowed
        ]
        if not ranked:
            return None
        probability, name = max(ranked)
        return name, probability

    def of_text(self, cues: Cues, allowed: Mapping[str, str]) -> list[tuple[str, float]]:
        """The categories that the text likely judges without a name, the likeliest first."""
        probabilities = 1.0 / (1.0 + np.exp(-_scores(self.unnamed, cues)))
        ranked = [
            (allowed[own], float(p))
            for name, p in zip(self.unnamed_names, probabilities, strict=True)
            if (own := spelling(name)) in allowed
        ]
        return sorted(ranked, key=lambda each: -each[1])


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
                        float(data[f"{name}.threshold"]),
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
            for kind, table in (("aspects", part.aspects), ("unnamed", part.unnamed)):
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
    part: DomainCategories, cues: Cues, allowed: Mapping[str, str], certainty: float
) -> list[tuple[str, float]]:
    """The categories that are reported, where the polarity of the text is known with certainty."""
    candidates = ((name, p * certainty) for name, p in part.of_text(cues, allowed))
    return [(name, p) for name, p in candidates if p >= part.threshold][:_MOST]


def _table(data: Mapping[str, npt.NDArray[Any]], name: str) -> Table:
    keys, weights = data[f"{name}_keys"], data[f"{name}_weights"]
    if len(weights) != len(keys):
        raise ValueError(f"{name}_weights has another size than {name}_keys")
    return Table(keys, weights.astype(np.float32) * np.float32(data[f"{name}_scale"]))


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
