"""Everyday sentences written for training: ``training/data/everyday_<lang>.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from absa.schemas.json_text import parse_json

DATA = Path(__file__).parent / "data"


def rows(lang: str) -> Iterator[dict[str, Any]]:
    """The texts of a language, each aspect with the place of its term."""
    path = DATA / f"everyday_{lang}.jsonl"
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        row = parse_json(line)
        for aspect in row["aspects"]:
            aspect["from"], aspect["to"] = place(row["text"], aspect)
        yield row


#: The number of first sentences. Later ones are by other writers: models that were trained without
#: them read them, and readers and decisions are fitted to what those say.
EARLIER = {"ko": 2610}

#: One text in this number is kept to calibrate with.
CALIBRATION = 7


def learned_from(number: int) -> bool:
    """Whether a text of this number is trained on; the others show how far models are right."""
    return number % CALIBRATION != 0


def place(text: str, aspect: dict[str, Any]) -> tuple[int, int]:
    """Where the term stands: of several places the one nearest to the evidence."""
    term = aspect["term"]
    if not term:
        return 0, 0
    at = text.find(aspect["evidence"])
    starts = [i for i in range(len(text)) if text.startswith(term, i)]
    start = min(starts, key=lambda i: abs(i - at))
    return start, start + len(term)
