"""Human review of one sample on the page, with the rules and the file of `absa review`."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

from absa.review.file import ReviewFile
from absa.review.queue import Item, Queue
from absa.review.session import Session
from absa.schemas.errors import InputError
from absa.schemas.output import FinalOutput

Json = dict[str, Any]

# Building the queue reads all outputs of a run, so the latest one is kept until the file changes.
_latest: dict[Path, tuple[tuple[int, int], Queue]] = {}


def question(directory: Path, output: FinalOutput) -> Json:
    """The candidates of a sample with the decisions about them."""
    queue, item = _item(directory, output)
    return _shown(Session(queue, [item], ""))


def decide(directory: Path, output: FinalOutput, body: Json) -> Json:
    """Carry out an action, write it to the file, and return the new state of the sample.

    Raises:
        InputError: Another process reviews this run, or the action is not possible.
    """
    queue, item = _item(directory, output)
    with queue.file.open():
        session = Session(queue, [item], str(body.get("reviewer") or getpass.getuser()))
        _act(session, body)
    if session.message:
        raise InputError(session.message)
    return _shown(Session(queue, [item], ""))


def _act(session: Session, body: Json) -> None:
    row = body.get("row", 0)
    size = len(session.question.candidates)
    session.row = row if isinstance(row, int) and 0 <= row < size else 0
    match body.get("action"):
        case "keep":
            session.keep()
        case "flip":
            session.flip(str(body.get("polarity")))
        case "drop":
            session.drop()
        case "add":
            fields = ("aspect", "polarity", "evidence")
            session.add(*(str(body.get(name) or "").strip() for name in fields))
        case "label":
            session.set_label(str(body.get("label")))
        case "undo":
            session.undo()
        case "done":
            session.next()
        case other:
            raise InputError(f"there is no action {other!r}")


def _item(directory: Path, output: FinalOutput) -> tuple[Queue, Item]:
    state = (directory / "outputs.jsonl").stat()
    stamp = (state.st_mtime_ns, state.st_size)
    if directory not in _latest or _latest[directory][0] != stamp:
        _latest.clear()
        _latest[directory] = (stamp, Queue(directory))
    queue = _latest[directory][1]
    # Another process may have written decisions since.
    queue.file = ReviewFile(directory)
    items = queue.chosen(uid=output.uid)
    seed = output.meta.seed or 0
    if not items or items[0].seed != seed:
        raise InputError("a text with several seeds is reviewed once: choose its first seed")
    return queue, items[0]


def _shown(session: Session) -> Json:
    asked = session.question
    review = session.queue.review(session.item)
    return {
        "label": session.label,
        "reasons": [reason.model_dump() for reason in asked.reasons],
        "candidates": [
            {
                "aspect": c.aspect,
                "polarity": c.polarity,
                "evidence": c.evidence,
                "in_result": c.in_result,
                "said": [[v.who, v.says] for v in c.said],
                "decision": d.model_dump() if (d := session.decision_on(c)) else None,
            }
            for c in asked.candidates
        ],
        "added": [d.model_dump() for d in session.additions],
        "decisions": len(session.decisions),
        "finished": review is not None and review.finished,
        "reviewer": review.reviewer if review else None,
    }
