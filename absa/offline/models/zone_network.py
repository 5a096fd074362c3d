"""A small network that reads the words around an aspect by the zone each stands in.

A word has a vector, a zone (side, distance, aspects and clauses in between) says how much of each
component gets through; what arrives is summed and read by one hidden layer. It shares what it knows
of a word between all places the word can stand in, which a linear model of placed words cannot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from absa.offline.models.hashing import Table

Array = npt.NDArray[np.float32]
NAMES = ("gates", "inner", "inner_bias", "outer", "direct", "bias")


@dataclass(frozen=True)
class ZoneNet:
    """The network's weights: vectors of words, gates of zones, and the layers that read them."""

    vectors: Table
    gates: Array
    inner: Array
    inner_bias: Array
    outer: Array
    direct: Array
    bias: Array

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> ZoneNet:
        """Rebuild a network from :meth:`arrays`."""
        parts = {name: np.asarray(arrays[f"net_{name}"], np.float32) for name in NAMES}
        vectors = np.asarray(arrays["net_vectors"], np.float32)
        return cls(Table(np.asarray(arrays["net_keys"], np.uint32), vectors), **parts)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The weights by name, in half precision, for a file."""
        named = {f"net_{name}": getattr(self, name).astype(np.float16) for name in NAMES}
        vectors = self.vectors.weights.astype(np.float16)
        return {"net_keys": self.vectors.keys, "net_vectors": vectors, **named}

    def scores(self, found: Sequence[tuple[str, int]]) -> Array:
        """The three scores of words in zones."""
        is_present, vectors = self.vectors.find([word for word, _ in found])
        zones = np.array([zone for _, zone in found])[is_present]
        summed = (vectors * self.gates[zones]).sum(axis=0)
        hidden = np.tanh(summed @ self.inner + self.inner_bias)
        result: Array = hidden @ self.outer + summed @ self.direct + self.bias
        return result

    def mixed(self, mixture: npt.NDArray[np.floating]) -> ZoneNet:
        """The network whose scores are these times a 3 x 3 matrix."""
        factor = np.asarray(mixture, np.float32)
        return ZoneNet(
            self.vectors,
            self.gates,
            self.inner,
            self.inner_bias,
            self.outer @ factor,
            self.direct @ factor,
            self.bias @ factor,
        )
