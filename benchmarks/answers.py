"""Recorded answers for one sentence, given after a set delay: a backend that costs nothing."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from absa.schemas.backend import Ask, Reply

TEXT = "사용감은 좋지만 가격은 비싸요."

ANSWERS: dict[str, dict[str, Any]] = {
    "ate": {
        "aspects": [
            {"term": "사용감", "span": {"start": 0, "end": 3}, "confidence": 0.9},
            {"term": "가격", "span": {"start": 9, "end": 11}, "confidence": 0.9},
        ]
    },
    "atsa": {
        "aspect_sentiments": [
            {
                "aspect_ref": "사용감",
                "polarity": "positive",
                "evidence": "좋지만",
                "confidence": 0.9,
            },
            {"aspect_ref": "가격", "polarity": "positive", "evidence": "비싸요", "confidence": 0.5},
        ]
    },
    "validator": {"structural_risks": [], "correction_proposals": []},
    "epm": {
        "agent": "EPM",
        "proposed_edits": [
            {
                "op": "set_polarity",
                "target": {"aspect_ref": "가격"},
                "value": "negative",
                "evidence": "비싸요",
            }
        ],
    },
    "tan": {
        "agent": "TAN",
        "proposed_edits": [
            {"op": "confirm_tuple", "target": {"aspect_ref": "사용감", "polarity": "positive"}}
        ],
    },
    "cj": {
        "agent": "CJ",
        "proposed_edits": [
            {"op": "set_polarity", "target": {"aspect_ref": "가격"}, "value": "negative"}
        ],
    },
    "judge": {
        "final_patch": [
            {"op": "set_polarity", "target": {"aspect_ref": "가격"}, "value": "negative"}
        ],
        "final_tuples": [
            {"aspect_term": "사용감", "polarity": "positive"},
            {"aspect_term": "가격", "polarity": "negative"},
        ],
        "sentence_polarity": "mixed",
        "sentence_evidence_spans": ["가격은 비싸요"],
        "aspect_evidence": [{"aspect_ref": "가격", "evidence": "비싸요"}],
    },
    "ate_review": {"aspect_review": [{"term": "사용감", "action": "keep"}]},
    "atsa_review": {"sentiment_review": [{"aspect_ref": "사용감", "action": "maintain"}]},
    "validator_review": {"structural_risks": [], "correction_proposals": []},
}
CALLS = len(ANSWERS)
CRITICAL_PATH = 7


class DelayedBackend:
    """Answers every agent after `delay` seconds."""

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay

    def ask(self, question: Ask) -> Reply:
        if self.delay:
            time.sleep(self.delay)
        return Reply(ANSWERS[question.node], backend="benchmark")

    async def aask(self, question: Ask) -> Reply:
        if self.delay:
            await asyncio.sleep(self.delay)
        return Reply(ANSWERS[question.node], backend="benchmark")
