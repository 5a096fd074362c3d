"""Few-shot demos: labelled examples in the prompt, the same for every protocol.

They come from a separate file. An example whose text is among the evaluated texts is never used,
because it would leak its gold.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rapidfuzz import fuzz, process

from absa.data import BadLine, DataError, read_samples
from absa.schemas.sample import Sample
from absa.schemas.settings import DemoSettings


def normalised(text: str) -> str:
    """A text without case, spaces and Unicode form, to recognise copies."""
    return "".join(text.split()).lower()


class Demos:
    """Chooses examples for a text."""

    def __init__(
        self,
        settings: DemoSettings,
        *,
        seed: int = 0,
        evaluated: Iterable[str] = (),
        are_used: bool = True,
    ) -> None:
        """Read the examples.

        Args:
            settings: Their number, file and selection.
            seed: The seed of a random selection.
            evaluated: The texts that must not be examples.
            are_used: False for the offline analyzer, which needs no full number of examples.

        Raises:
            DataError: The file has too few examples.
        """
        self._k = settings.k
        self._pick = settings.pick
        self._seed = seed
        self._pool: list[Sample] = []
        self.left_out = 0
        if not settings.k:
            return
        assert settings.path is not None, "the settings ask for a path with k"
        evaluated_texts = {normalised(text) for text in evaluated}
        for item in read_samples(Path(settings.path)):
            if isinstance(item, BadLine) or item.aspects is None or item.incomplete_gold:
                continue
            if normalised(item.text) in evaluated_texts:
                self.left_out += 1
                continue
            self._pool.append(item)
        if are_used and len(self._pool) < settings.k:
            raise DataError(
                settings.path,
                f"has {len(self._pool)} usable examples ({self.left_out} are among the evaluated "
                f"texts), but demos.k is {settings.k}.",
                "Use another file, or lower demos.k.",
            )
        self._texts = [sample.text for sample in self._pool]

    def for_text(self, text: str) -> list[dict[str, Any]]:
        """The examples for a text, the most similar last, because models weigh the end most."""
        if not self._k:
            return []
        own = normalised(text)
        if self._pick == "random":
            # Seeded by the text, so that the result does not depend on the order of a batch.
            digest = hashlib.sha256(f"{self._seed}\0{text}".encode()).digest()
            order = random.Random(digest).sample(range(len(self._pool)), len(self._pool))
        else:
            near = process.extract(
                text, self._texts, scorer=fuzz.token_set_ratio, limit=self._k + 1
            )
            order = [index for _, _, index in near]
        chosen = [self._pool[i] for i in order if normalised(self._texts[i]) != own][: self._k]
        return [as_demo(sample) for sample in reversed(chosen)]


def as_demo(sample: Sample) -> dict[str, Any]:
    """An example in the form that agents get."""
    return {
        "review": sample.text,
        "aspects": [
            {
                "aspect_term": aspect.term,
                # Shown only where a category set is in force.
                **({"category": aspect.category} if aspect.category else {}),
                "polarity": aspect.polarity,
                **({"evidence": aspect.opinion} if aspect.opinion else {}),
            }
            for aspect in sample.aspects or ()
        ],
    }
