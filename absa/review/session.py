"""A review session: the effect of each key, without the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from absa.nodes.human_answer import check
from absa.nodes.human_question import question_of
from absa.review.file import Review
from absa.review.queue import Item, Queue
from absa.schemas.human import (
    Add,
    CandidateTuple,
    Decision,
    Drop,
    Flip,
    HumanQuestion,
    Keep,
    SetLabel,
)


class Session:
    """Goes through the texts. Every decision is on the disk before the next key is read."""

    def __init__(self, queue: Queue, items: Sequence[Item], reviewer: str) -> None:
        self.queue = queue
        self.items = list(items)
        self.reviewer = reviewer
        self.position = 0
        self.message = ""
        self._open(next((n for n, i in enumerate(items) if not queue.finished(i)), 0))

    def _open(self, position: int) -> None:
        self.position = position
        self.row = 0
        if self.done:
            return
        review = self.queue.review(self.item)
        self.decisions: list[Decision] = list(review.decisions) if review else []
        self.question: HumanQuestion = question_of(self.item.output, self.item.reasons)

    @property
    def done(self) -> bool:
        """Whether the person is past the last text."""
        return self.position >= len(self.items)

    @property
    def item(self) -> Item:
        """The current text."""
        return self.items[self.position]

    @property
    def is_finished(self) -> bool:
        """Whether the review of the current text is finished."""
        return self.queue.finished(self.item)

    @property
    def candidate(self) -> CandidateTuple | None:
        """The current tuple; None in a text without tuples."""
        candidates = self.question.candidates
        return candidates[self.row] if candidates else None

    def decision_on(self, candidate: CandidateTuple) -> Decision | None:
        """The decision about a tuple."""
        for decision in self.decisions:
            if isinstance(decision, Keep | Flip | Drop) and candidate.in_result:
                named = decision.of in (None, candidate.polarity)
                if decision.aspect == candidate.aspect and named:
                    return decision
            if isinstance(decision, Add) and not candidate.in_result:
                if (decision.aspect, decision.polarity) == (candidate.aspect, candidate.polarity):
                    return decision
        return None

    @property
    def label(self) -> str:
        """The label after the decisions so far."""
        return self.item.reviewed(self._review(finished=False)).final_result.label

    @property
    def additions(self) -> list[Add]:
        """Tuples that the person added and no agent proposed."""
        shown = [self.decision_on(c) for c in self.question.candidates]
        return [d for d in self.decisions if isinstance(d, Add) and d not in shown]

    # Keys ------------------------------------------------------------------------------------

    def move(self, by: int) -> None:
        """Select another tuple."""
        last = len(self.question.candidates) - 1
        self.row = max(0, min(last, self.row + by))
        self.message = ""

    def keep(self) -> None:
        """Keep the current tuple."""
        if (at := self._in_result()) is not None:
            self._decide(Keep(aspect=at.aspect, of=at.polarity))

    def flip(self, polarity: str) -> None:
        """Change the polarity of the current tuple."""
        if (at := self._in_result()) is not None:
            self._decide(Flip(aspect=at.aspect, of=at.polarity, polarity=polarity))

    def drop(self) -> None:
        """Drop the current tuple."""
        if (at := self._in_result()) is not None:
            self._decide(Drop(aspect=at.aspect, of=at.polarity))

    def add(self, aspect: str, polarity: str, evidence: str) -> None:
        """Add a missing tuple."""
        self._decide(Add(aspect=aspect, polarity=polarity, evidence=evidence))

    def set_label(self, label: str) -> None:
        """Set the label of the text."""
        self._decide(SetLabel(label=label))

    def undo(self) -> None:
        """Undo the last decision about this text."""
        if not self.decisions:
            self.message = "there is nothing to undo in this text"
            return
        taken = self.decisions.pop()
        self._write(finished=False)
        self.message = f"undone: {taken.action}"

    def next(self) -> None:
        """Finish this text; tuples without a decision are kept."""
        self._write(finished=True)
        self.message = ""
        self._open(self.position + 1)

    def skip(self) -> None:
        """Go to the next text without finishing this one."""
        self.message = ""
        self._open(self.position + 1)

    def back(self) -> None:
        """Go to the previous text."""
        if self.position == 0:
            self.message = "this is the first text"
            return
        self.message = ""
        self._open(self.position - 1)

    def _in_result(self) -> CandidateTuple | None:
        at = self.candidate
        if at is None:
            self.message = "this text has no tuple; press a to add one"
        elif not at.in_result:
            self.message = f"{at.aspect} {at.polarity} is not in the result; press a to add it"
            return None
        return at

    def _decide(self, decision: Decision) -> None:
        """Add a valid decision; it replaces an earlier one on the same tuple."""
        at = self.candidate
        replaced: Decision | None = None
        if isinstance(decision, SetLabel):
            replaced = next((d for d in self.decisions if isinstance(d, SetLabel)), None)
        elif not isinstance(decision, Add) and at is not None:
            replaced = self.decision_on(at)
        wanted = [*(d for d in self.decisions if d is not replaced), decision]
        if problems := check(wanted, self.item.output):
            self.message = problems[0].partition(": ")[2] or problems[0]
            return
        self.decisions = wanted
        self._write(finished=False)
        self.message = ""

    def _write(self, *, finished: bool) -> None:
        self.queue.file.write(self._review(finished=finished))

    def _review(self, *, finished: bool) -> Review:
        return Review(
            uid=self.item.uid,
            seed=self.item.seed,
            shown=self.item.shown,
            reviewer=self.reviewer,
            decisions=tuple(self.decisions),
            finished=finished,
        )
