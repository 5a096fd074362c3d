"""Weights by name: names are hashed, the same on every machine, and looked up in a sorted table."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint32]
Array = npt.NDArray[np.float32]


def key_of(name: str) -> int:
    """The key of a name: 32 bits, so that two names hardly ever share one."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass"))


def keys_of(names: Collection[str]) -> Keys:
    """The keys of names, in their order."""
    return np.fromiter(map(key_of, names), np.uint32, len(names))


@dataclass(frozen=True)
class Table:
    """Rows of weights by key; ``keys`` are sorted, unknown keys have rows of zeros."""

    keys: Keys
    weights: Array

    @classmethod
    def empty(cls, width: int) -> Table:
        """A table that knows no name."""
        return cls(np.zeros(0, np.uint32), np.zeros((0, width), np.float32))

    def find(self, names: Collection[str]) -> tuple[npt.NDArray[np.bool_], Array]:
        """Which names are known, and the rows of those."""
        if not len(self.keys):
            return np.zeros(len(names), bool), self.weights
        wanted = keys_of(names)
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        is_present = self.keys[places] == wanted
        return is_present, self.weights[places[is_present]]

    def mixed(self, mixture: npt.NDArray[np.floating]) -> Table:
        """Every row multiplied by a matrix."""
        return Table(self.keys, (self.weights @ mixture).astype(np.float32))

    def without(self, tiny: float) -> Table:
        """The table without rows in which no weight reaches ``tiny``."""
        large = np.abs(self.weights).max(axis=1, initial=0.0) >= tiny
        return Table(self.keys[large], self.weights[large])


def added(tables: Iterable[Table]) -> Table:
    """The sum of tables."""
    parts = list(tables)
    keys = np.unique(np.concatenate([part.keys for part in parts]))
    weights = np.zeros((len(keys), parts[0].weights.shape[1]), np.float32)
    for part in parts:
        weights[np.searchsorted(keys, part.keys)] += part.weights
    return Table(keys, weights)
