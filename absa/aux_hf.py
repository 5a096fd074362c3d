"""An auxiliary Hugging Face text classifier, asked after the graph and seen by no agent.

Its opinion goes to `aux_signals.hf` and to metrics only: where it disagrees with the result is a
place to look, never a vote.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from absa.nodes.polarity import read
from absa.schemas.answers import LABELS
from absa.schemas.errors import InputError
from absa.schemas.output import FinalOutput
from absa.schemas.settings import AuxHfSettings

if TYPE_CHECKING:
    from transformers import Pipeline

_STARS = re.compile(r"([1-5])\s*stars?", re.IGNORECASE)
_BY_STARS = {1: "negative", 2: "negative", 3: "neutral", 4: "positive", 5: "positive"}
# What a text classifier can read at most; a longer review is judged by its beginning.
_MAX_TOKENS = 512


def with_signal(output: FinalOutput, settings: AuxHfSettings) -> FinalOutput:
    """The output with the classifier's opinion beside it."""
    assert settings.checkpoint is not None, "the settings ask for a checkpoint"
    answer = _classifier(settings.checkpoint)(output.text, truncation=True, max_length=_MAX_TOKENS)[
        0
    ]
    polarity = polarity_of(str(answer["label"]), dict(settings.labels))
    signal = {
        "checkpoint": settings.checkpoint,
        "label": answer["label"],
        "score": float(answer["score"]),
        "polarity": polarity,
        "disagrees_with_stage1": disagrees(polarity, output.stage1_ate.label),
        "disagrees_with_final": disagrees(polarity, output.final_result.label),
    }
    return output.model_copy(update={"aux_signals": {"hf": signal}})


def polarity_of(label: str, labels: dict[str, str]) -> str | None:
    """What a classifier's label means: by the settings, by its stars, or by its name."""
    if label in labels:
        return read(labels[label], LABELS).value
    if stars := _STARS.fullmatch(label.strip()):
        return _BY_STARS[int(stars[1])]
    return read(label, LABELS).value


def disagrees(polarity: str | None, label: str) -> bool | None:
    """Whether it says something else; unknown where its label means nothing to us."""
    return None if polarity is None else polarity != label


@cache
def _classifier(checkpoint: str) -> Pipeline:
    try:
        from transformers import pipeline
    except ImportError as error:
        raise InputError(
            "aux_hf needs the optional extra: pip install 'absa-debate-graph[hf]'"
        ) from error
    try:
        return pipeline("text-classification", model=checkpoint)
    except (OSError, ValueError) as error:
        raise InputError(
            f"aux_hf.checkpoint {checkpoint!r} cannot be loaded: {error}; "
            "give a local folder or the name of a text classifier"
        ) from error
