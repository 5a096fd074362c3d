"""What `verify` checks about memory (S6): whom it recalled, and that it holds no words of a text.

| must hold                                                                                   |
|---------------------------------------------------------------------------------------------|
| what was recalled was recalled for this text                                                |
| no recalled case is the sample itself                                                       |
| none is of the evaluated split, unless that is the training split or the settings allow it  |
| a recalled case is a shape: aspects are numbered, polarities canonical, corrections names   |
| the advice is what the recalled cases teach, and nothing else                               |
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from absa.nodes.memory import TRAIN, advice_of, sample_id
from absa.schemas.answers import POLARITIES
from absa.schemas.memory import Episode
from absa.schemas.output import FinalOutput

Found = Iterator[tuple[str, str]]
_NUMBERED = re.compile(r"A[1-9][0-9]*")
_NAME = re.compile(r"[a-z0-9_]+/[A-Za-z_]+", re.ASCII)


def recalled_fairly(output: FinalOutput, split: str | None, *, any_split: bool) -> Found:
    """S6. What is wrong is named, never repeated: it may be what must not be seen."""
    if output.meta.memory is None:
        return
    recall, own = output.meta.memory.recall, sample_id(output.text)
    hidden = None if any_split or split == TRAIN else split
    if recall.sample != own:
        yield "S6", "memory: what was recalled was recalled for another text"
    for number, episode in enumerate(recall.episodes, 1):
        name = f"memory: recalled case {number}"
        if episode.sample == own:
            yield "S6", f"{name} is the sample itself"
        if hidden is not None and episode.split == hidden:
            yield "S6", f"{name} is of the evaluated split, {hidden}"
        if not _is_shape(episode):
            yield "S6", f"{name} holds more than its shape"
    if recall.advice != tuple(advice_of(episode) for episode in recall.episodes):
        yield "S6", "memory: the advice is not what the recalled cases teach"


def _is_shape(episode: Episode) -> bool:
    tuples = [*episode.stage1, *episode.final]
    return all(_NUMBERED.fullmatch(t.aspect) and t.polarity in POLARITIES for t in tuples) and all(
        map(_NAME.fullmatch, episode.corrections)
    )
