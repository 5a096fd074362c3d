"""The records of one sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from absa.nodes.categories import CategorySet
from absa.nodes.language import Language, language
from absa.nodes.polarity import read
from absa.runs.engine import UNNAMED_SPLIT
from absa.runs.indexed_file import Line
from absa.runs.verify.conflict_review import PROTOCOL as CONFLICT_REVIEW
from absa.runs.verify.words import judgement, mapping_of, text_of
from absa.schemas.answers import JudgeAnswer, name_of, read_answer
from absa.schemas.errors import AnswerError
from absa.schemas.output import AspectTuple, FinalOutput

Tuples = frozenset[tuple[str, str]]
Findings = Iterator[tuple[str, str]]
"""Violations as (check, what is wrong)."""


@dataclass(frozen=True)
class SampleRecords:
    """All records of one sample under one seed.

    `card` is the scorecard, `calls` are the traces, `gate` the lines of the gate's file.
    """

    line: Line
    output: FinalOutput
    card: dict[str, Any] | None
    calls: list[Line]
    gate: list[Line]
    min_name_probability: float = 0.0
    categories: CategorySet | None = None

    @property
    def raw(self) -> dict[str, Any]:
        """The unparsed output."""
        return self.line.record

    @property
    def lang(self) -> Language:
        """The language of the text."""
        return language(self.output.lang)

    @property
    def is_debate(self) -> bool:
        """Whether the stages are those of the debate protocol."""
        return self.output.meta.protocol == "debate"

    @property
    def is_conflict_review(self) -> bool:
        """Whether it was a conflict review."""
        return self.output.meta.protocol == CONFLICT_REVIEW

    @property
    def split(self) -> str | None:
        """The split that was under evaluation."""
        card = self.card or {}
        annotated = mapping_of(card.get("gold")).get("aspects") is not None
        return text_of(card.get("split")) or (UNNAMED_SPLIT if annotated else None)

    @property
    def adopted(self) -> bool:
        """Whether Stage 2 was adopted."""
        return self.output.meta.adopt_decision == "adopted"

    def answer(self, node: str) -> dict[str, Any] | None:
        """The answer of a node in its last turn."""
        answers = [c.record.get("output") for c in self.calls if c.record.get("node") == node]
        return answers[-1] if answers and isinstance(answers[-1], dict) else None

    def keyed(self, tuples: Iterable[AspectTuple]) -> Tuples:
        """Tuples by aspect key, each with its judgement."""
        return frozenset((self.lang.key(t.name), judgement(t.category, t.polarity)) for t in tuples)

    def debate_tuples(self) -> set[tuple[str, str]]:
        """The valid tuples of the judge, with the names that the debate used."""
        judge_answer = self.answer("judge")
        try:
            summary = (
                read_answer(JudgeAnswer, judge_answer)[0]
                if judge_answer is not None
                else JudgeAnswer()
            )
        except AnswerError:
            return set()
        return {
            (key, judgement(category, polarity))
            for t in summary.final_tuples
            for category in (self.category(t.category),)
            if (key := self.lang.key(name_of(t.aspect_term, category)))
            and (polarity := read(t.polarity).value)
        }

    def category(self, word: str | None) -> str | None:
        """The category of the set that a word spells; None if there is none."""
        return self.categories.find(word) if self.categories else None

    def sizes(self) -> dict[str, int]:
        """The number of items per check."""
        meta = self.output.meta
        return {
            "S1": 1,
            "S2": 1,
            "S3": int(bool(self.debate_tuples())),
            "S4": sum(c.applied for c in meta.correction_applied_log)
            + sum(a.applied for a in meta.arbiter_actions),
            "S5": len(self.output.final_result.final_aspects),
            "S6": len(self.calls),
        }
