"""Training of the zone network: Adam on mini-batches, in numpy, from a fixed seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from absa.offline.models.cues import ZONES
from absa.offline.models.hashing import Table, key_of
from absa.offline.models.zone_network import NAMES, ZoneNet

Placed = Sequence[tuple[str, int]]
Array = npt.NDArray[np.float32]
Index = npt.NDArray[np.int64]

_SIZE = 16
_EPOCHS = 4
_BATCH = 64
_RATE = 3e-3
#: Share of words hidden in training: more than a few epochs or words learnt by heart do harm.
_HIDDEN = 0.4
_DECAY = 1e-5
_VECTOR_DECAY = 3e-4
_MIN_COUNT = 5
#: First guess of what gets through: by distance step, by aspects and by clauses in between.
_BY_STEP = (1.0, 0.9, 0.8, 0.6, 0.4, 0.2)
_BY_ASPECTS = (1.0, 0.5, 0.3)
_BY_CLAUSES = (1.0, 0.6, 0.4)


def train(cases: Sequence[Placed], labels: Index, weights: Array, members: int) -> ZoneNet:
    """The average of a few networks from different seeds, as one network."""
    counts = Counter(word for case in cases for word in {word for word, _ in case})
    frequent = {key_of(word) for word, count in counts.items() if count >= _MIN_COUNT}
    keys = np.array(sorted(frequent), np.uint32)
    place = {key: number for number, key in enumerate(keys.tolist())}
    number_of = {word: place.get(key_of(word)) for word in counts}
    encoded = [
        (
            np.array([number_of[word] for word, _ in case if number_of[word] is not None], int),
            np.array([zone for word, zone in case if number_of[word] is not None], int),
        )
        for case in cases
    ]
    made = [_member(encoded, labels, weights, len(keys), seed) for seed in range(members)]
    return _joined(keys, made)


def _init_weights(words: int, random: np.random.Generator) -> dict[str, Array]:
    gates = np.ones((ZONES, _SIZE))
    for zone in range(ZONES - 2):
        step, aspects, clauses = zone // 9 % len(_BY_STEP), zone // 3 % 3, zone % 3
        gates[zone] = _BY_STEP[step] * _BY_ASPECTS[aspects] * _BY_CLAUSES[clauses]
    spread = 1 / np.sqrt(_SIZE)
    guess = {
        "vectors": random.normal(0, 0.1, (words, _SIZE)),
        "gates": gates,
        "inner": random.normal(0, spread, (_SIZE, _SIZE)),
        "inner_bias": np.zeros(_SIZE),
        "outer": random.normal(0, spread, (_SIZE, 3)),
        "direct": random.normal(0, spread, (_SIZE, 3)),
        "bias": np.zeros(3),
    }
    return {name: value.astype(np.float32) for name, value in guess.items()}


def _member(
    cases: Sequence[tuple[Index, Index]], labels: Index, weights: Array, words: int, seed: int
) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    now = _init_weights(words, random)
    mean = {name: np.zeros_like(value) for name, value in now.items()}
    square = {name: np.zeros_like(value) for name, value in now.items()}
    moment = 0

    def adam(name: str, at: Any, gradient: Array, rate: float) -> None:
        mean[name][at] = 0.9 * mean[name][at] + 0.1 * gradient
        square[name][at] = 0.999 * square[name][at] + 0.001 * gradient * gradient
        step = mean[name][at] / (1 - 0.9**moment)
        now[name][at] -= rate * step / (np.sqrt(square[name][at] / (1 - 0.999**moment)) + 1e-8)

    for epoch in range(_EPOCHS):
        rate = _RATE * (1 - epoch / _EPOCHS)
        order = random.permutation(len(cases))
        for begin in range(0, len(cases), _BATCH):
            moment += 1
            batch = order[begin : begin + _BATCH]
            gradients, known = _gradients(
                now, [cases[i] for i in batch], labels[batch], weights[batch], random
            )
            for name, gradient in gradients.items():
                if name == "vectors":
                    adam(name, known, gradient + _VECTOR_DECAY * now[name][known], rate)
                else:
                    adam(name, ..., gradient + _DECAY * now[name], rate)
    return now


def _sums(groups: Index, values: Array, size: int) -> Array:
    """Sum rows of ``values`` by group."""
    from scipy import sparse

    ones = np.ones(len(groups), np.float32)
    return np.asarray(
        sparse.csr_matrix((ones, (groups, np.arange(len(groups)))), (size, len(groups))) @ values,
        np.float32,
    )


def _gradients(
    now: dict[str, Array],
    cases: Sequence[tuple[Index, Index]],
    labels: Index,
    weights: Array,
    random: np.random.Generator,
) -> tuple[dict[str, Array], Index]:
    words = np.concatenate([case[0] for case in cases])
    zones = np.concatenate([case[1] for case in cases])
    owners = np.repeat(np.arange(len(cases)), [len(case[0]) for case in cases])
    seen = random.random(len(words)) > _HIDDEN
    words, zones, owners = words[seen], zones[seen], owners[seen]
    vectors, gates = now["vectors"][words], now["gates"][zones]
    summed = _sums(owners, vectors * gates, len(cases)) / np.float32(1 - _HIDDEN)
    hidden = np.tanh(summed @ now["inner"] + now["inner_bias"])
    shown = ((random.random(hidden.shape) > _HIDDEN) / (1 - _HIDDEN)).astype(np.float32)
    scores = (hidden * shown) @ now["outer"] + summed @ now["direct"] + now["bias"]
    scores -= scores.max(axis=1, keepdims=True)
    error = np.exp(scores)
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(len(cases)), labels] -= 1
    error *= (weights / np.float32(len(cases)))[:, None]
    inner_error = (error @ now["outer"].T) * shown * (1 - hidden * hidden)
    summed_error = inner_error @ now["inner"].T + error @ now["direct"].T
    arriving = summed_error[owners] / np.float32(1 - _HIDDEN)
    known, group = np.unique(words, return_inverse=True)
    return {
        "vectors": _sums(group, arriving * gates, len(known)),
        "gates": _sums(zones, arriving * vectors, ZONES),
        "inner": summed.T @ inner_error,
        "inner_bias": inner_error.sum(axis=0),
        "outer": (hidden * shown).T @ error,
        "direct": summed.T @ error,
        "bias": error.sum(axis=0),
    }, known


def _joined(keys: npt.NDArray[np.uint32], members: Sequence[dict[str, Array]]) -> ZoneNet:
    """Several networks side by side, their scores averaged."""
    count = len(members)
    parts: dict[str, Array] = {
        name: np.concatenate([member[name] for member in members], axis=-1)
        for name in ("vectors", "gates", "inner_bias")
    }
    for name in ("outer", "direct"):
        parts[name] = np.concatenate([member[name] / np.float32(count) for member in members])
    parts["bias"] = np.mean([member["bias"] for member in members], axis=0, dtype=np.float32)
    inner = np.zeros((count * _SIZE, count * _SIZE), np.float32)
    for number, member in enumerate(members):
        here = slice(number * _SIZE, (number + 1) * _SIZE)
        inner[here, here] = member["inner"]
    parts["inner"] = inner
    return ZoneNet(Table(keys, parts["vectors"]), **{name: parts[name] for name in NAMES})
