"""Word vectors: what words mean beyond those of the training texts, as a table of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from absa.offline.models import folder
from absa.offline.models.hashing import keys_of

NAME = "vectors_en.npz"
#: Steps of a byte for one unit; vectors are of spread one, and hardly any goes beyond four.
_STEPS = 32


@dataclass(frozen=True)
class Vectors:
    """Rows by the key of a word; ``keys`` are sorted."""

    keys: npt.NDArray[np.uint32]
    rows: npt.NDArray[np.int8]

    @classmethod
    def of(cls, words: Sequence[str], vectors: npt.NDArray[np.float32]) -> Vectors:
        """A table of words; of two with one key the first in order of the keys stays."""
        keys, first = np.unique(keys_of(words), return_index=True)
        return cls(keys, np.clip(np.round(vectors * _STEPS), -127, 127).astype(np.int8)[first])

    @classmethod
    def read(cls, content: bytes, path: Path) -> Vectors:
        """Take a file's content.

        Raises:
            ValueError: if the file is not a table of vectors.
        """
        with folder.read_as("a table of vectors", path):
            data = folder.arrays(content)
            return cls(data["keys"], data["rows"])

    def save(self, path: Path) -> None:
        """Write a file; equal tables give equal bytes."""
        with path.open("wb") as file:
            np.savez_compressed(file, keys=self.keys, rows=self.rows)

    def find(self, words: Sequence[str]) -> npt.NDArray[np.float32]:
        """The vectors of words; zeros for one that is not known."""
        wanted = keys_of(words)
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        vectors = self.rows[places].astype(np.float32) / np.float32(_STEPS)
        vectors[self.keys[places] != wanted] = 0.0
        return vectors


@cache
def english() -> Vectors:
    """The shipped table."""
    shipped = folder.shipped()
    return Vectors.read(shipped.read(NAME), shipped.path / NAME)
