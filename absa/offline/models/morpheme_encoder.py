"""The Korean encoder: a small network that reads the morphemes of a text once for all answers.

A morpheme enters with its vector in Kiwi's language model, with what was learned of it and of its
syllables, and with what the lexicon says of it. Two layers look at the neighbours and two at the
whole text; where they look depends on distance and on clauses. What comes out is as in
:mod:`absa.offline.models.encoder`. ``training/korean_encoder.py`` makes the file; numpy reads it.
Nothing changes after loading, so one encoder may serve many threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
#: The tables of bytes, each with a scale for its columns.
TABLES = ("vectors", "own", "grams")


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
    """

    keys: npt.NDArray[np.uint32]
    rows: npt.NDArray[np.int32]
    tables: Mapping[str, npt.NDArray[np.int8]]
    scales: Mapping[str, Array]
    weights: Mapping[str, Array]

    @classmethod
    def read(cls, content: bytes, path: Path) -> MorphemeEncoder:
        """Take a model file's content.

        Raises:
            ValueError: if the file is not a Korean encoder.
        """
        with folder.read_as("a Korean encoder", path):
            data = folder.arrays(content)
            beside = {"keys", "rows", *TABLES, *(f"{name}_scale" for name in TABLES)}
            return cls(
                data["keys"],
                data["rows"],
                {name: data[name] for name in TABLES},
                {name: data[f"{name}_scale"].astype(np.float32) for name in TABLES},
                {k: v.astype(np.float32) for k, v in data.items() if k not in beside},
            )

    def encoded(self, view: View) -> View:
        """The text with what the encoder says about it."""
        if not view.tokens:
            return view
        inputs = inputs_of(view)
        with one_thread():
            read = [self._read(piece) for piece in watched_closely(_pieces(inputs))]
        sizes = [len(tags) for tags, *_ in read]
        labels = np.average([label for *_, label, _ in read], axis=0, weights=sizes)
        unnamed = np.average([unnamed for *_, unnamed in read], axis=0, weights=sizes)
        return replace(
            view,
            encoded=Encoded(
                first=tuple(token.start for token in view.tokens),
                pieces=tuple(range(len(view.tokens) + 1)),
                tags=softmax(np.concatenate([tags for tags, *_ in read])),
                polarities=np.concatenate([polarities for _, polarities, *_ in read]),
                labels=tuple(softmax(labels).tolist()),
                unnamed=tuple((1 / (1 + np.exp(-unnamed))).tolist()),
            ),
        )

    def _read(self, inputs: Inputs) -> tuple[Array, Array, Array, Array]:
        """Scores of tags and polarities for each morpheme, of labels and unnamed judgements."""
        w = self.weights
        x = self._linear("enter", self._entered(inputs))
        x = np.concatenate([w["begin.weight"][inputs.domain][None], x])
        x = self._normed("norm", x)
        edge = np.zeros_like(x[:1])
        for layer in range(CONVOLUTIONS):
            around = [np.concatenate([edge, x[:-1]]), x, np.concatenate([x[1:], edge])]
            y = _gelu(self._linear(f"convs.{layer}", np.concatenate(around, axis=1)))
            x = self._normed(f"norms.{layer}", x + y)
        place = np.arange(len(x))
        near = np.clip(place[None] - place[:, None], -REACH, REACH) + REACH
        clauses = np.concatenate([inputs.clauses[:1], inputs.clauses])
        between = np.clip(clauses[None] - clauses[:, None], -CLAUSES, CLAUSES) + CLAUSES
        for block in range(BLOCKS):
            x = self._looked_around(f"blocks.{block}", x, near, between)
        first, rest = x[0], x[1:]
        judged = np.concatenate([rest, np.broadcast_to(first, rest.shape)], axis=1)
        whole = np.concatenate([first, rest.mean(axis=0), rest.max(axis=0)])
        whole = _gelu(self._linear("whole", whole))
        return (
            self._linear("tag", rest),
            self._linear("polarity", _gelu(self._linear("judge", judged))),
            self._linear("label", whole),
            self._linear("unnamed", whole),
        )

    def _entered(self, inputs: Inputs) -> Array:
        wanted = keys_of(inputs.names)
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        rows = np.where(self.keys[places] == wanted, self.rows[places], 0)
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
        self, name: str, x: Array, near: npt.NDArray[np.int64], between: npt.NDArray[np.int64]
    ) -> Array:
        size, width = x.shape
        parts = self._linear(f"{name}.qkv", x).reshape(size, 3, HEADS, width // HEADS)
        q, k, v = parts.transpose(1, 2, 0, 3)
        scores = q @ k.transpose(0, 2, 1) / np.float32((width // HEADS) ** 0.5)
        scores += self.weights[f"{name}.near"][:, near]
        scores += self.weights[f"{name}.clause"][:, between]
        read = (softmax(scores) @ v).transpose(1, 0, 2).reshape(size, width)
        x = self._normed(f"{name}.norm1", x + self._linear(f"{name}.out", read))
        y = self._linear(f"{name}.down", _gelu(self._linear(f"{name}.up", x)))
        return self._normed(f"{name}.norm2", x + y)

    def _linear(self, name: str, x: Array) -> Array:
        made: Array = x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]
        return made

    def _normed(self, name: str, x: Array) -> Array:
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(_EPSILON))
        made: Array = x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
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
