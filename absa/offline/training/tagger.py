"""Training of the aspect tagger, for the shipped models and on one's own labelled data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pycrfsuite

from absa.offline.text.annotations import NEUTRAL, View
from absa.schemas.sample import GoldAspect

Rows = list[list[str]]

#: Strength of the penalties on weights; more of the first kind makes smaller models.
_L1, _L2 = 0.02, 1.0
_ITERATIONS = 80
#: A feature that is seen only once teaches nothing about other texts.
_SEEN = 2


def labels(view: View, aspects: Sequence[GoldAspect]) -> list[str]:
    """The label of each token: outside, or in a judged (J) or only mentioned (N) aspect.

    An aspect that does not begin and end where tokens do cannot be learned and is left out, as is
    one that overlaps a longer one.
    """
    first_at = {token.start: index for index, token in enumerate(view.tokens)}
    last_at = {token.end: index for index, token in enumerate(view.tokens)}
    polarities: dict[tuple[int, int], set[str]] = {}
    for aspect in aspects:
        if aspect.from_ is not None and aspect.to is not None:
            polarities.setdefault((aspect.from_, aspect.to), set()).add(aspect.polarity)
    tags = ["O"] * len(view.tokens)
    for (start, end), polarity in sorted(
        polarities.items(), key=lambda item: item[0][0] - item[0][1]
    ):
        first, last = first_at.get(start), last_at.get(end)
        if first is None or last is None or any(label != "O" for label in tags[first : last + 1]):
            continue
        kind = "N" if polarity == {NEUTRAL} else "J"
        tags[first : last + 1] = [f"B{kind}", *[f"I{kind}"] * (last - first)]
    return tags


def train(
    texts: Iterable[tuple[Rows, list[str]]],
    path: Path,
    on_iteration: Callable[[int, int], None] = lambda done, total: None,
    *,
    l1: float = _L1,
    l2: float = _L2,
    seen: int = _SEEN,
) -> None:
    """Fit a model to features and labels of texts and write it to a file.

    Args:
        texts: For each text the features and the labels of its tokens.
        path: The file to write.
        on_iteration: Called with the number of iterations done and their total.
        l1: Strength of the penalty that makes weights zero.
        l2: Strength of the penalty that keeps weights small.
        seen: How often a feature must occur to be used.
    """

    class Trainer(pycrfsuite.Trainer):  # type: ignore[misc]
        def on_iteration(self, log: object, info: dict[str, object]) -> None:
            on_iteration(int(str(info["num"])), _ITERATIONS)

    trainer = Trainer(verbose=False)
    for rows, wanted in texts:
        trainer.append(rows, wanted)
    trainer.set_params({"c1": l1, "c2": l2, "max_iterations": _ITERATIONS, "feature.minfreq": seen})
    trainer.train(str(path))
