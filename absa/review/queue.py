"""The review queue: the texts of a finished run, ordered by doubt."""

from __future__ import annotations

import hashlib
import json
import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from absa.nodes.doubts import doubts, urgency
from absa.nodes.human_answer import apply_human_review, check, without_human_review
from absa.nodes.human_review import answered
from absa.review.file import Review, ReviewFile
from absa.runs.directory import OUTPUTS, SCORECARDS, NoRun, RunDirectory
from absa.runs.indexed_file import Artefact
from absa.schemas.human import Doubt
from absa.schemas.output import FinalOutput

# The fraction of a run's texts that are queued only for a low confidence.
LOWEST = 0.1


@dataclass
class Item:
    """One text and the reasons to review it. The record is read on demand."""

    uid: str
    seed: int
    reasons: tuple[Doubt, ...]
    confidence: float
    _read: Callable[[], tuple[FinalOutput, dict[str, Any]]]

    @cached_property
    def _record(self) -> tuple[FinalOutput, dict[str, Any]]:
        return self._read()

    @property
    def output(self) -> FinalOutput:
        """The agents' output."""
        return self._record[0]

    @property
    def card(self) -> Mapping[str, Any]:
        """Its scorecard."""
        return self._record[1]

    @property
    def shown(self) -> str:
        """A short hash of the result that is shown to the person."""
        result = self.output.final_result
        tuples = sorted((t.name, t.polarity) for t in result.final_tuples)
        facts = json.dumps([self.output.text, result.label, tuples])
        return hashlib.sha256(facts.encode()).hexdigest()[:16]

    def reviewed(self, review: Review) -> FinalOutput:
        """The output with a person's decisions, by the same rules as for a graph's interrupt."""
        return apply_human_review(self.output, answered(review, self.reasons))


class Queue:
    """A run's texts with the decisions so far; doubtful texts come first."""

    def __init__(self, directory: Path) -> None:
        """Index the run. Only the positions of its texts are kept.

        Raises:
            NoRun: It is not a run directory, or its files do not match.
            InputError: Its reviews cannot be read.
        """
        self._run = RunDirectory(directory).require(OUTPUTS, SCORECARDS)
        _ = self._run.manifest  # a damaged line is reported here, not in the middle of a review
        self.directory = directory
        self.file = ReviewFile(directory)
        self._outputs = Artefact(directory / OUTPUTS)
        self._cards = Artefact(directory / SCORECARDS)
        for file in (self._outputs, self._cards):
            weakref.finalize(self, file.close)
        items: dict[str, Item] = {}
        for record in self._outputs.index():
            output = self._run.output(record)
            seed = output.meta.seed or 0
            load = partial(self._load, output.uid, seed)
            confidence = output.final_result.confidence
            item = Item(output.uid, seed, _reasons(output), confidence, load)
            # Of the repetitions of a text, the first doubtful one is shown, else the first.
            if item.uid not in items or (item.reasons and not items[item.uid].reasons):
                items[item.uid] = item
        for _ in self._cards.index():
            pass  # only the positions are needed
        if broken := [*self._outputs.broken, *self._cards.broken]:
            raise NoRun(f"{directory}: {broken[0]}: see absa verify")
        self.items = sorted(items.values(), key=lambda i: (*urgency(i.reasons), i.confidence))
        self._add_lowest()

    def _add_lowest(self) -> None:
        """Queue the other texts with the lowest confidences."""
        rest = [item for item in self.items if not item.reasons]
        place = "among the lowest of this run" if len(self.items) > 1 else "the run's only text"
        for item in rest[: math.ceil(LOWEST * len(self.items))]:
            detail = f"confidence {item.confidence:.2f}, {place}"
            item.reasons = (Doubt(code="low_confidence", detail=detail),)

    def _load(self, uid: str, seed: int) -> tuple[FinalOutput, dict[str, Any]]:
        outputs = (self._run.output(line.record) for line in self._outputs.of(uid))
        output = next(o for o in outputs if (o.meta.seed or 0) == seed)
        cards = (line.record for line in self._cards.of(uid) if line.record.get("seed") == seed)
        card = next(cards, None)
        if card is None:
            raise NoRun(f"{self.directory}: {SCORECARDS} does not have {uid!r}: see absa verify")
        return without_human_review(output), card

    def review(self, item: Item) -> Review | None:
        """The decisions about a text; None if there are none, or they are outdated."""
        latest = self.file.latest.get(item.uid)
        if latest is None or (latest.seed, latest.shown) != (item.seed, item.shown):
            return None
        # The file can have been edited by hand.
        return None if check(latest.decisions, item.output) else latest

    def finished(self, item: Item) -> bool:
        """Whether the review of a text is finished."""
        review = self.review(item)
        return review is not None and review.finished

    def reviewed(self) -> Iterator[tuple[Item, Review]]:
        """The texts whose review is finished."""
        for item in self.items:
            if (review := self.review(item)) is not None and review.finished:
                yield item, review

    @property
    def outdated(self) -> list[str]:
        """Texts whose reviews are about an earlier result of a run that was repeated or resumed."""
        items = {item.uid: item for item in self.items}
        return [
            uid for uid in self.file.latest if uid not in items or self.review(items[uid]) is None
        ]

    def chosen(self, *, everything: bool = False, uid: str | None = None) -> list[Item]:
        """The items to review: one text, all texts, or the doubtful ones."""
        if uid is not None:
            return [item for item in self.items if item.uid == uid]
        return [item for item in self.items if everything or item.reasons]


def _reasons(output: FinalOutput) -> tuple[Doubt, ...]:
    """The recorded reasons, else those computed from the output."""
    word = output.meta.human_review
    return word.reasons if word is not None else doubts(output)
