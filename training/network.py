"""Training of the networks: Adam on mini-batches, in numpy, from fixed seeds.

Words are hidden at random while it learns, most of all their stems: what is left then are the
vector, the tag and the neighbours, which texts of other words have too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from absa.offline.models import vectors
from absa.offline.models.features import word_of
from absa.offline.models.hashing import Table, key_of
from absa.offline.models.network import (
    LABELS,
    REACHES,
    WEIGHTS,
    Array,
    Network,
    place_names,
    shifted,
    softmax,
    word_names,
)
from absa.offline.text.annotations import View

Index = npt.NDArray[np.int64]

#: How many networks are averaged, and how wide each is.
_MEMBERS = 3
_SIZE = 96
_EPOCHS = 12
_BATCH = 32
_RATE = 2e-3
_LEAST_RATE = 0.02
_DECAY = 1e-6
_CLIP_NORM = 2.0
#: A name that is rarer teaches nothing about other texts.
_MIN_COUNT = 3
#: Shares that are hidden in training: of stems, of other names, of vectors and of what layers see.
_STEM_DROPOUT = 0.4
_HIDDEN_NAMES = 0.1
_HIDDEN = 0.5
#: Empty tokens between two texts, so that no layer sees from one into the next.
_GAP = max(max(reach) for reach in REACHES)


@dataclass(frozen=True)
class Tokens:
    """The tokens of all texts: names as a sparse matrix, vectors, labels, and where texts are."""

    names: Any
    vectors: Array
    labels: Index
    texts: tuple[tuple[int, int], ...]


def train(texts: Sequence[tuple[View, list[str]]]) -> Network:
    """The networks of English texts with the label of each of their tokens."""
    named = [_names(view) for view, _ in texts]
    counts = Counter(chain.from_iterable(chain.from_iterable(named)))
    # In the order of their keys, as a table has them.
    known = sorted((name for name, n in counts.items() if n >= _MIN_COUNT), key=key_of)
    tokens = _tokens(texts, named, {name: place for place, name in enumerate(known)})
    hidden = np.array([_STEM_DROPOUT if name[:2] == "l=" else _HIDDEN_NAMES for name in known])
    made = [_fit(tokens, hidden, np.random.default_rng(seed)) for seed in range(_MEMBERS)]
    rows = np.hstack([weights["rows"] for weights in made])
    keys = np.array([key_of(name) for name in known], np.uint32)
    joined = {name: np.stack([weights[name] for weights in made]) for name in WEIGHTS}
    return Network(Table(keys, rows), joined)


def _names(view: View) -> list[tuple[str, ...]]:
    return [
        (*word_names(token), *place)
        for token, place in zip(view.tokens, place_names(view), strict=True)
    ]


def _tokens(
    texts: Sequence[tuple[View, list[str]]],
    named: Sequence[Sequence[tuple[str, ...]]],
    place: Mapping[str, int],
) -> Tokens:
    from scipy import sparse

    columns = [
        [place[name] for name in names if name in place] for names in chain.from_iterable(named)
    ]
    flat = np.array(list(chain.from_iterable(columns)))
    matrix = sparse.csr_matrix(
        (np.ones(len(flat), np.float32), flat, np.cumsum([0, *map(len, columns)])),
        (len(columns), len(place)),
    )
    ends = np.cumsum([len(view.tokens) for view, _ in texts]).tolist()
    stems = [word_of(token, "en").stem for view, _ in texts for token in view.tokens]
    labels = [LABELS.index(label) for _, wanted in texts for label in wanted]
    return Tokens(
        matrix,
        vectors.english().find(stems),
        np.array(labels),
        tuple(zip([0, *ends], ends, strict=False)),
    )


def _init_weights(names: int, width: int, random: np.random.Generator) -> dict[str, Array]:
    def drawn(*shape: int, spread: float) -> Array:
        return random.normal(0, spread, shape).astype(np.float32)

    guess = {
        "rows": drawn(names, _SIZE, spread=0.05),
        "vector": drawn(width, _SIZE, spread=width**-0.5),
        "bias": np.zeros(_SIZE, np.float32),
        "out": drawn(2 * _SIZE, len(LABELS), spread=0.5 * _SIZE**-0.5),
        "out_bias": np.zeros(len(LABELS), np.float32),
    }
    for number, reach in enumerate(REACHES):
        seen = len(reach) * _SIZE
        guess[f"layer{number}"] = drawn(len(reach), _SIZE, _SIZE, spread=seen**-0.5)
        guess[f"layer_bias{number}"] = np.zeros(_SIZE, np.float32)
    return guess


def _fit(tokens: Tokens, hidden: Array, random: np.random.Generator) -> dict[str, Array]:
    weights = _init_weights(tokens.names.shape[1], tokens.vectors.shape[1], random)
    mean = {name: np.zeros_like(value) for name, value in weights.items()}
    square = {name: np.zeros_like(value) for name, value in weights.items()}
    steps = _EPOCHS * -(-len(tokens.texts) // _BATCH)
    step = 0
    for _ in range(_EPOCHS):
        order = random.permutation(len(tokens.texts))
        for first in range(0, len(order), _BATCH):
            chosen = [tokens.texts[number] for number in order[first : first + _BATCH]]
            gradients = _gradients(weights, tokens, chosen, hidden, random)
            step += 1
            rate = _RATE * max(_LEAST_RATE, 1 - step / steps)
            length = np.sqrt(sum(float(np.sum(slope * slope)) for slope in gradients.values()))
            factor = min(1.0, _CLIP_NORM / max(length, 1e-9))
            for name, value in weights.items():
                slope = (gradients[name] * factor + _DECAY * value).astype(np.float32)
                mean[name] += 0.1 * (slope - mean[name])
                square[name] += 0.001 * (slope * slope - square[name])
                change = mean[name] / np.float32(1 - 0.9**step)
                spread = np.sqrt(square[name] / np.float32(1 - 0.999**step)) + 1e-8
                value -= np.float32(rate) * change / spread
    return weights


def _gradients(
    weights: Mapping[str, Array],
    tokens: Tokens,
    texts: Sequence[tuple[int, int]],
    hidden: Array,
    random: np.random.Generator,
) -> dict[str, Array]:
    """The slope of the loss on some texts, by weight."""
    gap = [-1] * _GAP
    rows = np.concatenate([np.array([*range(*text), *gap]) for text in texts])
    there = (rows >= 0).astype(np.float32)[:, None]
    rows = np.maximum(rows, 0)
    names = tokens.names[rows]
    names.data = names.data * (random.random(names.nnz) >= hidden[names.indices])

    def some(values: Array) -> tuple[Array, Array]:
        """The values with some of them hidden, and the factors that did it."""
        shown = random.random(values.shape, dtype=np.float32) >= _HIDDEN
        factors = (shown / np.float32(1 - _HIDDEN)).astype(np.float32)
        return values * factors, factors

    vector, _ = some(tokens.vectors[rows])
    entered = names @ weights["rows"] + vector @ weights["vector"] + weights["bias"]
    first = here = np.maximum(entered, 0.0) * there
    passed = []
    for number, reach in enumerate(REACHES):
        shown, factors = some(here)
        seen = weights[f"layer_bias{number}"] + sum(
            shifted(shown, by) @ weights[f"layer{number}"][place] for place, by in enumerate(reach)
        )
        passed.append((shown, factors, seen))
        here = here + np.maximum(seen, 0.0) * there
    read, factors = some(np.hstack([first, here]))
    wrong = softmax(read @ weights["out"] + weights["out_bias"])
    wrong[np.arange(len(rows)), tokens.labels[rows]] -= 1.0
    wrong *= there / there.sum()

    gradients = {"out": read.T @ wrong, "out_bias": wrong.sum(axis=0)}
    back = (wrong @ weights["out"].T) * factors
    on_first, on_here = back[:, :_SIZE], back[:, _SIZE:]
    for number in reversed(range(len(REACHES))):
        shown, factors, seen = passed[number]
        on_seen = on_here * (seen > 0) * there
        layer = weights[f"layer{number}"]
        gradients[f"layer_bias{number}"] = on_seen.sum(axis=0)
        gradients[f"layer{number}"] = np.stack(
            [shifted(shown, by).T @ on_seen for by in REACHES[number]]
        )
        on_shown = sum(
            shifted(on_seen @ layer[place].T, -by) for place, by in enumerate(REACHES[number])
        )
        on_here = on_here + on_shown * factors
    on_entered = (on_first + on_here) * (entered > 0) * there
    gradients["rows"] = names.T @ on_entered
    gradients["vector"] = vector.T @ on_entered
    gradients["bias"] = on_entered.sum(axis=0)
    return gradients
