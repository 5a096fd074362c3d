"""Small convolutional networks that read English texts beside the tagger.

A word enters as the sum of what is known about it (its stem, tag, class, spelling, the opinion and
the domain it stands in) and of its vector, so that a word of no training text is read like those
that mean the like. Three layers look at the neighbours; what comes out are the tagger's labels. The
tagger knows words by heart, a network what they are about; the mean of both does better on texts of
other sources. There are several networks that began at different guesses, and their mean counts:
all weights have one more axis in front, which tells them apart.

A word's own part is computed once and kept. Nothing else changes after loading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from absa.offline.models import folder, vectors
from absa.offline.models.blas import one_thread
from absa.offline.models.features import places_of, shape_of, word_of
from absa.offline.models.hashing import Table
from absa.offline.text.annotations import Token, View

Array = npt.NDArray[np.float32]

LABELS = ("O", "BJ", "IJ", "BN", "IN")
#: Which neighbours each layer looks at.
REACHES = ((-2, -1, 0, 1, 2), (-1, 0, 1), (-2, 0, 2))
#: How far a token's labels depend on others, and how many tokens are read at a time.
_SIGHT = sum(max(reach) for reach in REACHES)
_PIECE = 2_000
#: Weights beside the table of names, as they are called in a file.
WEIGHTS = (
    *("vector", "bias"),
    *(f"{part}{layer}" for layer in range(len(REACHES)) for part in ("layer", "layer_bias")),
    *("out", "out_bias"),
)


@dataclass(frozen=True, eq=False)
class Network:
    """The rows of names, those of all networks side by side, and the weights of layers by name.

    Compared by identity, so that what is computed from one can be kept beside it cheaply.
    """

    names: Table
    weights: Mapping[str, Array]

    @classmethod
    def read(cls, content: bytes, path: Path) -> Self:
        """Take a model file's content.

        Raises:
            ValueError: if the file is not a network.
        """
        with folder.read_as("a network", path):
            data = folder.arrays(content)
            keys, rows = data["keys"], data["rows"].astype(np.float32)
            weights = {name: data[name].astype(np.float32) for name in WEIGHTS}
            if rows.shape != (len(keys), weights["bias"].size):
                raise ValueError("rows has another size than keys and bias")
            return cls(Table(keys, rows), weights)

    def save(self, path: Path) -> None:
        """Write a model file; equal networks give equal bytes."""
        arrays: dict[str, Any] = {name: self.weights[name].astype(np.float16) for name in WEIGHTS}
        arrays |= {"keys": self.names.keys, "rows": self.names.weights.astype(np.float16)}
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)

    def probabilities(self, view: View) -> Array:
        """For each token the probabilities of LABELS."""
        tokens = list(zip(view.tokens, place_names(view), strict=True))
        pieces = []
        for first in range(0, len(tokens), _PIECE):
            begin = max(0, first - _SIGHT)
            shares = self._shares(tokens[begin : first + _PIECE + _SIGHT])
            pieces.append(shares[first - begin :][:_PIECE])
        return np.concatenate(pieces)

    def _shares(self, tokens: Sequence[tuple[Token, tuple[str, ...]]]) -> Array:
        words = [_word(self, token.form, token.lemma, token.tag) for token, _ in tokens]
        places = [_place(self, names) for _, names in tokens]
        entered = np.stack(words, axis=1) + np.stack(places, axis=1)
        with one_thread():
            mean: Array = softmax(scores(self.weights, entered)).mean(axis=0)
        return mean


@lru_cache(maxsize=30_000)
def _word(network: Network, form: str, lemma: str, tag: str) -> Array:
    """What enters of a word alone."""
    token = Token(form, lemma, tag, 0, 0)
    vector = vectors.english().find([word_of(token, "en").stem])[0]
    own: Array = vector @ network.weights["vector"] + network.weights["bias"]
    return own + _summed(network, word_names(token))


@lru_cache(maxsize=2_000)
def _place(network: Network, names: tuple[str, ...]) -> Array:
    """What enters of a word's place."""
    return _summed(network, names)


def _summed(network: Network, names: tuple[str, ...]) -> Array:
    """What enters of names: for each network a row."""
    rows: Array = network.names.find(names)[1].sum(axis=0)
    return rows.reshape(network.weights["bias"].shape)


def word_names(token: Token) -> tuple[str, ...]:
    """What is known about a word alone."""
    word = word_of(token, "en")
    return (
        f"l={word.stem}",
        f"t={word.tag}",
        f"c8={word.path[:8]}",
        f"c4={word.path[:4]}",
        f"s={shape_of(token.form)}",
    )


def place_names(view: View) -> list[tuple[str, ...]]:
    """What is known about each token's place: opinions in its clause, the domain of the text."""
    places = places_of(view)
    about = (f"D={view.domain}",) if view.domain else ()
    names = []
    for sign, left, right in zip(places.sign, places.left, places.right, strict=True):
        judged = 1 if sign or left or right else 0
        names.append((f"o={sign}", f"j={judged}", *about))
    return names


def shifted(rows: Array, by: int) -> Array:
    """Each token's row replaced by that of the token `by` places later; zeros beyond the edge."""
    if not by:
        return rows
    moved = np.zeros_like(rows)
    if by > 0:
        moved[..., :-by, :] = rows[..., by:, :]
    else:
        moved[..., -by:, :] = rows[..., :by, :]
    return moved


def scores(weights: Mapping[str, Array], entered: Array) -> Array:
    """The scores of the labels: networks x tokens x labels."""
    first = here = np.maximum(entered, 0.0)
    for number, reach in enumerate(REACHES):
        layer, bias = weights[f"layer{number}"], weights[f"layer_bias{number}"]
        seen = bias[:, None] + sum(
            shifted(here, by) @ layer[:, place] for place, by in enumerate(reach)
        )
        here = here + np.maximum(seen, 0.0)
    read = np.concatenate([first, here], axis=-1)
    result: Array = read @ weights["out"] + weights["out_bias"][:, None]
    return result


def softmax(rows: Array) -> Array:
    """Rows of probabilities."""
    powers = np.exp(rows - rows.max(axis=-1, keepdims=True))
    shares: Array = powers / powers.sum(axis=-1, keepdims=True)
    return shares
