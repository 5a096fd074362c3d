"""Answers about one text that leave a person something to decide, and some that do not."""

from __future__ import annotations

from typing import Any

from scripted import ate, atsa, atsa_review, judge, said, set_polarity, turn

TEXT = "가격이 비싸고 맛은 좋아요."
GIVEN = {"text": TEXT, "uid": "u1", "lang": "ko"}
STAGE1 = {
    "ate": ate("가격", "맛"),
    "atsa": atsa(("가격", "positive", "비싸고", 0.6), ("맛", "positive", "좋아요", 0.8)),
}
CALM = said(**STAGE1)
OPEN = said(**STAGE1, judge={**judge(), "unresolved_conflicts": ["가격: 비싸고"]})
# The review turns 맛, about which the debate's tuples say otherwise.
BLOCKED = said(
    **STAGE1,
    epm=turn(set_polarity("가격", "negative", evidence="비싸고")),
    judge=judge(tuples=[("가격", "positive"), ("맛", "positive")]),
    atsa_review=atsa_review(("맛", "flip_polarity", "negative")),
)
THREAD: Any = {"configurable": {"thread_id": "t"}}
