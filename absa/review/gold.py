"""Exports reviewed texts as gold: JSONL that every command reads as labelled data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from absa.review.queue import Queue
from absa.runs.artefacts import write_lines
from absa.runs.replay import sample_line
from absa.schemas.errors import InputError
from absa.schemas.output import FinalAspect, FinalOutput


def export_gold(queue: Queue, path: Path) -> int:
    """Write the finished texts; return their number.

    Raises:
        InputError: The path is a directory.
        StorageError: The file cannot be written.
    """
    if path.is_dir():
        raise InputError(f"{path} is a directory; give a file name")
    lines = [json.dumps(line, ensure_ascii=False) for line in _gold(queue)]
    write_lines(path, lines)
    return len(lines)


def _gold(queue: Queue) -> Iterator[dict[str, Any]]:
    for item, review in queue.reviewed():
        output = item.reviewed(review)
        about = {"uid": output.uid, "text": output.text, "lang": output.lang, "meta": {}}
        line = sample_line(about, {**item.card, "gold": None})
        yield {**line, "label": output.final_result.label, "aspects": gold_aspects(output)}


def gold_aspects(output: FinalOutput) -> list[dict[str, Any]]:
    """The unique final tuples as gold; two opinions on one aspect are one tuple."""
    aspects = {
        (a.aspect_term, _place(a), a.polarity): {
            "term": a.aspect_term,
            "from": _place(a)[0],
            "to": _place(a)[1],
            "polarity": a.polarity,
        }
        for a in output.final_result.final_aspects
    }
    return list(aspects.values())


def _place(aspect: FinalAspect) -> tuple[int | None, int | None]:
    return (aspect.span.start, aspect.span.end) if aspect.span else (None, None)
