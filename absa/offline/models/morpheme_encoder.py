"""The Korean encoder: a small network that reads the morphemes of a text once for all answers.

A morpheme enters with its vector in Kiwi's language model, with what was learned of it and of its
syllables, and with what the lexicon says of it. Two layers look at the neighbours and two at the
whole text; where they look depends on distance and on clauses. What comes out is as in
:mod:`absa.offline.models.encoder`. Texts of a domain that the training data name are read with
weights of their own, and get categories as well. ``training/korean_encoder.py`` and
``training/korean_domains.py`` make the file; numpy reads it.
Nothing changes after loading, so one encoder may serve many threads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from absa.offline.models import folder
from absa.offline.models.blas import one_thread
from absa.offline.models.hashing import keys_of
from absa.offline.models.morpheme_inputs import Inputs, inputs_of
from absa.offline.models.network import softmax
from absa.offline.stopping import watched_closely
from absa.offline.text.annotations import Encoded, View

Array = npt.NDArray[np.float32]
#: How far apart two morphemes, or their clauses, make a difference; heads; layers of each kind.
REACH, CLAUSES, HEADS, CONVOLUTIONS, BLOCKS = 12, 3, 4, 2, 2
#: Longer texts are read in pieces of this number of morphemes.
PIECE = 120
_EPSILON = 1e-5
_NOTHING = np.zeros(0, np.uint8)
#: The tables of bytes, each with a scale for its columns.
TABLES = ("vectors", "own", "grams")
#: What the names of the weights for texts of known domains begin with.
OF_DOMAINS = "domains."
#: The array with the domains and their categories, one of each a line.
CATEGORIES = "category_names"
Weights = Mapping[str, Array]


@dataclass(frozen=True)
class _Read:
    """Scores of tags and polarities for each morpheme, of labels and unnamed judgements.

    And of categories for each morpheme and for the text: none where the domain is not known.
    """

    tags: Array
    polarities: Array
    labels: Array
    unnamed: Array
    categories: Array
    text_categories: Array


@dataclass(frozen=True, eq=False)
class MorphemeEncoder:
    """Reads Korean texts.

    Attributes:
        keys: The hashed names of the known morphemes, sorted.
        rows: The row of each in the tables.
        tables: The rows of vectors, of what was learned of morphemes (the first ones of the
            vectors only), and of pieces of syllables; row 0 stands for nothing.
        scales: By what the bytes of the tables are multiplied.
        weights: The weights of the layers by name.
        domain_weights: The same for texts of a known domain, if they have their own.
        category_names: Domains and categories, one for each column of the scores of categories.
    """

    keys: npt.NDArray[np.uint32]
    rows: npt.NDArray[np.int32]
    tables: Mapping[str, npt.NDArray[np.int8]]
    scales: Mapping[str, Array]
    weights: Weights
    domain_weights: Weights
    category_names: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, content: bytes, path: Path) -> MorphemeEncoder:
        """Take a model file's content.

        Raises:
            ValueError: if the file is not a Korean encoder.
        """
        with folder.read_as("a Korean encoder", path):
            data = folder.arrays(content)
            beside = {"keys", "rows", CATEGORIES, *TABLES, *(f"{name}_scale" for name in TABLES)}
            weights = {k: v.astype(np.float32) for k, v in data.items() if k not in beside}
            lines = bytes(data.get(CATEGORIES, _NOTHING)).decode("utf-8").splitlines()
            columns = len(weights.get(f"{OF_DOMAINS}category.bias", ()))
            if columns != len(lines):
                raise ValueError(f"{CATEGORIES} has {len(lines)} entries, not {columns}")
            return cls(
                data["keys"],
                data["rows"],
                {name: data[name] for name in TABLES},
                {name: data[f"{name}_scale"].astype(np.float32) for name in TABLES},
                {k: v for k, v in weights.items() if not k.startswith(OF_DOMAINS)},
                {
                    k.removeprefix(OF_DOMAINS): v
                    for k, v in weights.items()
                    if k.startswith(OF_DOMAINS)
                },
                tuple((domain, name) for domain, _, name in (s.partition("\t") for s in lines)),
            )

    @property
    def knows_domains(self) -> bool:
        """Whether texts of a known domain are read with weights of their own."""
        return bool(self.domain_weights)

    def encoded(self, view: View) -> View:
        """The text with what the encoder says about it."""
        if not view.tokens:
            return view
        inputs = inputs_of(view)
        with one_thread():
            read = [self._read(piece) for piece in watched_closely(_pieces(inputs))]
        sizes = [len(piece.tags) for piece in read]

        def averaged(scores: Sequence[Array]) -> Array:
            return np.asarray(np.average(scores, axis=0, weights=sizes), np.float32)

        unnamed = averaged([piece.unnamed for piece in read])
        categories = np.concatenate([piece.categories for piece in read])
        return replace(
            view,
            encoded=Encoded(
                first=tuple(token.start for token in view.tokens),
                pieces=tuple(range(len(view.tokens) + 1)),
                tags=softmax(np.concatenate([piece.tags for piece in read])),
                polarities=np.concatenate([piece.polarities for piece in read]),
                labels=tuple(softmax(averaged([piece.labels for piece in read])).tolist()),
                unnamed=tuple((1 / (1 + np.exp(-unnamed))).tolist()),
                category_names=self.category_names if categories.size else (),
                categories=categories,
                text_categories=averaged([piece.text_categories for piece in read]),
            ),
        )

    def _read(self, inputs: Inputs) -> _Read:
        w = self.domain_weights if inputs.domain and self.knows_domains else self.weights
        x = _linear(w, "enter", self._entered(inputs))
        x = np.concatenate([w["begin.weight"][inputs.domain][None], x])
        x = _normed(w, "norm", x)
        edge = np.zeros_like(x[:1])
        for layer in range(CONVOLUTIONS):
            around = [np.concatenate([edge, x[:-1]]), x, np.concatenate([x[1:], edge])]
            y = _gelu(_linear(w, f"convs.{layer}", np.concatenate(around, axis=1)))
            x = _normed(w, f"norms.{layer}", x + y)
        place = np.arange(len(x))
        near = np.clip(place[None] - place[:, None], -REACH, REACH) + REACH
        clauses = np.concatenate([inputs.clauses[:1], inputs.clauses])
        between = np.clip(clauses[None] - clauses[:, None], -CLAUSES, CLAUSES) + CLAUSES
        for block in range(BLOCKS):
            x = _looked_around(w, f"blocks.{block}", x, near, between)
        first, rest = x[0], x[1:]
        own = np.concatenate([rest, np.broadcast_to(first, rest.shape)], axis=1)
        text = np.concatenate([first, rest.mean(axis=0), rest.max(axis=0)])
        whole = _gelu(_linear(w, "whole", text))
        categories, of_text = rest[:, :0], text[:0]
        if "category.weight" in w:
            categories = _linear(w, "category", _gelu(_linear(w, "sort", own)))
            of_text = _linear(w, "text_category", _gelu(_linear(w, "sort_text", text)))
        return _Read(
            _linear(w, "tag", rest),
            _linear(w, "polarity", _gelu(_linear(w, "judge", own))),
            _linear(w, "label", whole),
            _linear(w, "unnamed", whole),
            categories,
            of_text,
        )

    def numbers(self, names: Collection[str]) -> npt.NDArray[np.int64]:
        """The row of each morpheme in the tables; 0 where it is not known."""
        wanted = keys_of(names)
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[places] == wanted, self.rows[places], 0)

    def _entered(self, inputs: Inputs) -> Array:
        rows = self.numbers(inputs.names)
        own = np.where(rows < len(self.tables["own"]), rows, 0)
        return np.concatenate(
            [
                self.tables["vectors"][rows] * self.scales["vectors"],
                self.tables["own"][own] * self.scales["own"],
                self.tables["grams"][inputs.grams].sum(axis=1, dtype=np.float32)
                * self.scales["grams"],
                inputs.facts,
            ],
            axis=1,
        )


def _looked_around(
    w: Weights, name: str, x: Array, near: npt.NDArray[np.int64], between: npt.NDArray[np.int64]
) -> Array:
    size, width = x.shape
    parts = _linear(w, f"{name}.qkv", x).reshape(size, 3, HEADS, width // HEADS)
    q, k, v = parts.transpose(1, 2, 0, 3)
    scores = q @ k.transpose(0, 2, 1) / np.float32((width // HEADS) ** 0.5)
    scores += w[f"{name}.near"][:, near]
    scores += w[f"{name}.clause"][:, between]
    read = (softmax(scores) @ v).transpose(1, 0, 2).reshape(size, width)
    x = _normed(w, f"{name}.norm1", x + _linear(w, f"{name}.out", read))
    y = _linear(w, f"{name}.down", _gelu(_linear(w, f"{name}.up", x)))
    return _normed(w, f"{name}.norm2", x + y)


def _linear(w: Weights, name: str, x: Array) -> Array:
    made: Array = x @ w[f"{name}.weight"].T + w[f"{name}.bias"]
    return made


def _normed(w: Weights, name: str, x: Array) -> Array:
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(_EPSILON))
    made: Array = x * w[f"{name}.weight"] + w[f"{name}.bias"]
    return made


def _pieces(inputs: Inputs) -> Iterator[Inputs]:
    """A text in pieces, cut where a clause begins if one does in the second half of a piece."""
    size, first = len(inputs.names), 0
    while first < size:
        last = min(size, first + PIECE)
        if last < size:
            cuts = [
                i
                for i in range(first + PIECE // 2, last)
                if inputs.clauses[i] != inputs.clauses[i - 1]
            ]
            last = cuts[-1] if cuts else last
        part = slice(first, last)
        yield Inputs(
            inputs.names[part],
            inputs.grams[part],
            inputs.facts[part],
            inputs.clauses[part],
            inputs.domain,
        )
        first = last


def _gelu(x: Array) -> Array:
    inner = np.float32(0.7978845608) * (x + np.float32(0.044715) * x * x * x)
    made: Array = np.float32(0.5) * x * (1 + np.tanh(inner))
    return made
