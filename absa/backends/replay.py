"""Recorded answers from a run's `traces.jsonl`: the decision layer again, and no model called."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from schemas.backend import Ask, Reply
from schemas.errors import BackendError, InputError

Key = tuple[str, str, int]


class ReplayBackend:
    """Answers from a file. Only the places of the answers are held in memory."""

    def __init__(self, path: str) -> None:
        """Index the recorded answers of a `traces.jsonl`, or of a run directory that has one."""
        given = Path(path)
        self._path = given / "traces.jsonl" if given.is_dir() else given
        if not self._path.is_file():
            raise InputError(
                f"no recorded answers at {self._path}: "
                "backend.path names a traces.jsonl or a run directory"
            )
        self._fd = os.open(self._path, os.O_RDONLY)
        self._places = self._index()

    def __del__(self) -> None:
        """Close the file."""
        if fd := getattr(self, "_fd", None):
            os.close(fd)

    def _index(self) -> dict[Key, tuple[int, int, int]]:
        """Offset, length and line number of each answer; a later line replaces an earlier one."""
        places: dict[Key, tuple[int, int, int]] = {}
        offset = 0
        with self._path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    places[self._key(line, number)] = (offset, len(line), number)
                offset += len(line)
        return places

    def _key(self, line: bytes, number: int) -> Key:
        try:
            record = json.loads(line)
            return str(record["uid"]), str(record["node"]), int(record.get("turn") or 0)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{self._path}:{number}: not a recorded answer ({error!r}): "
                "each line needs uid, node, turn and output"
            ) from error

    def _fail(self, question: Ask, why: str, raw: str | None = None) -> BackendError:
        return BackendError(
            f"{question.node}: {why}", node=question.node, turn=question.turn, raw=raw
        )

    def ask(self, question: Ask) -> Reply:
        """The recorded answer; a missing one is an error that names the node."""
        place = self._places.get((question.uid, question.node, question.turn))
        if place is None:
            raise self._fail(
                question,
                f"no recorded answer for uid {question.uid!r}, node {question.node!r}, "
                f"turn {question.turn} in {self._path}",
            )
        offset, length, number = place
        record: dict[str, Any] = json.loads(os.pread(self._fd, length, offset))
        output = record.get("output")
        if not isinstance(output, dict):
            why = record.get("error") or "the recorded output is not an object"
            raise self._fail(question, f"{self._path}:{number}: {why}", json.dumps(output))
        return Reply(
            output,
            backend="replay",
            model=record.get("model"),
            seed=record.get("seed"),
            usage=record.get("usage"),
        )

    async def aask(self, question: Ask) -> Reply:
        """The recorded answer: a read of a few kilobytes."""
        return self.ask(question)
