"""An auxiliary Hugging Face text classifier. It runs after the graph; agents do not see it.

A checkpoint with a label "entailment" is used zero-shot with `aux_hf.candidate_labels`.

Its label goes only to `aux_signals.hf` and to metrics. A disagreement marks a text worth a look; it
never changes the result.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from absa.nodes.polarity import read
from absa.schemas.answers import LABELS
from absa.schemas.errors import InputError
from absa.schemas.output import FinalOutput
from absa.schemas.settings import AuxHfSettings

_STARS = re.compile(r"([1-5])\s*stars?", re.IGNORECASE)
_BY_STARS = {1: "negative", 2: "negative", 3: "neutral", 4: "positive", 5: "positive"}
# The maximum input of a text classifier. Of a longer text it reads only the beginning.
_MAX_TOKENS = 512
_ZERO_SHOT = "zero-shot-classification"


def with_signal(output: FinalOutput, settings: AuxHfSettings) -> FinalOutput:
    """Add the classifier's label to the output."""
    assert settings.checkpoint is not None, "the settings ask for a checkpoint"
    classifier = _classifier(settings.checkpoint)
    if classifier.task == _ZERO_SHOT:
        ranked = classifier(
            output.text,
            candidate_labels=list(settings.candidate_labels),
            hypothesis_template=settings.hypothesis_template,
        )
        label, score = str(ranked["labels"][0]), float(ranked["scores"][0])
    else:
        (best,) = classifier(output.text, truncation=True)
        label, score = str(best["label"]), float(best["score"])
    polarity = polarity_of(label, dict(settings.labels))
    signal = {
        "checkpoint": settings.checkpoint,
        "task": classifier.task,
        "label": label,
        "score": score,
        "polarity": polarity,
        "disagrees_with_stage1": disagrees(polarity, output.stage1_ate.label),
        "disagrees_with_final": disagrees(polarity, output.final_result.label),
    }
    return output.model_copy(update={"aux_signals": {"hf": signal}})


def polarity_of(label: str, labels: dict[str, str]) -> str | None:
    """The polarity of a classifier's label: by the settings, its stars, or its name."""
    if label in labels:
        return read(labels[label], LABELS).value
    if stars := _STARS.fullmatch(label.strip()):
        return _BY_STARS[int(stars[1])]
    return read(label, LABELS).value


def disagrees(polarity: str | None, label: str) -> bool | None:
    """Whether the classifier disagrees; None if its label has no known polarity."""
    return None if polarity is None else polarity != label


@cache
def _classifier(checkpoint: str) -> Any:
    try:
        from transformers import AutoConfig, pipeline
    except ImportError as error:
        raise InputError(
            "aux_hf needs the optional extra: pip install 'absa-debate-graph[hf]'"
        ) from error
    try:
        labels = AutoConfig.from_pretrained(checkpoint).label2id
        # A model trained on entailment judges whether the text entails a sentence.
        entails = any(label.lower().startswith("entail") for label in labels)
        task: Any = _ZERO_SHOT if entails else "text-classification"
        classifier = pipeline(task, model=checkpoint)
    except (OSError, ValueError) as error:
        raise InputError(
            f"aux_hf.checkpoint {checkpoint!r} cannot be loaded: {error}; "
            "give a local folder or the name of a text classifier"
        ) from error
    tokenizer = classifier.tokenizer
    tokenizer.model_max_length = min(tokenizer.model_max_length, _MAX_TOKENS)
    return classifier
