"""The checks of memory (S6): which cases were recalled, and that they contain no text.

| must hold                                                                                   |
|---------------------------------------------------------------------------------------------|
| the cases were recalled for this text                                                       |
| no recalled case is the sample itself                                                       |
| none is from the evaluated split, except the training split or if the settings allow it     |
| a case has no words: aspects are numbered, polarities canonical, corrections are names      |
| the advice follows from the recalled cases                                                  |
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from absa.nodes.memory import TRAIN, advice_of, sample_id
from absa.schemas.answers import POLARITIES
from absa.schemas.memory import Episode
from absa.schemas.output import FinalOutput

Findings = Iterator[tuple[str, str]]
_NUMBERED = re.compile(r"A[1-9][0-9]*")
_NAME = re.compile(r"[a-z0-9_]+/[A-Za-z_]+", re.ASCII)


def recalled_fairly(output: FinalOutput, split: str | None, *, any_split: bool) -> Findings:
    """S6. A message never repeats the wrong value, because it can be a secret."""
    if output.meta.memory is None:
        return
    recall, own = output.meta.memory.recall, sample_id(output.text)
    hidden = None if any_split or split == TRAIN else split
    if recall.sample != own:
        yield "S6", "memory: the cases were recalled for another text"
    for number, episode in enumerate(recall.episodes, 1):
        name = f"memory: recalled case {number}"
        if episode.sample == own:
            yield "S6", f"{name} is the sample itself"
        if hidden is not None and episode.split == hidden:
            yield "S6", f"{name} is from the evaluated split, {hidden}"
        if not _is_shape(episode):
            yield "S6", f"{name} contains more than its shape"
    if recall.advice != tuple(advice_of(episode) for episode in recall.episodes):
        yield "S6", "memory: the advice does not follow from the recalled cases"


def _is_shape(episode: Episode) -> bool:
    tuples = [*episode.stage1, *episode.final]
    return all(_NUMBERED.fullmatch(t.aspect) and t.polarity in POLARITIES for t in tuples) and all(
        map(_NAME.fullmatch, episode.corrections)
    )
