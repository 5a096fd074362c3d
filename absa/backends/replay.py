"""Recorded answers from a run's `traces.jsonl`. The rules run again without a model call."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import zlib
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from absa.schemas.answers import read_answer
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import AnswerError, BackendError, InputError
from absa.schemas.json_text import parse_json
from absa.small_files import bounded_lines

Key = tuple[str, str, int]
_GZIP = b"\x1f\x8b"


class Place(NamedTuple):
    """The file position of an answer, and the seed of its run."""

    offset: int
    length: int
    line: int
    seed: int | None


class ReplayBackend:
    """Answers from a file. Only the positions of the answers are held in memory."""

    def __init__(self, path: str, seed: int | None = None) -> None:
        """Index the recorded answers of a `traces.jsonl`, or of a run directory that has one.

        The file may be gzip-compressed; it is then unpacked into a temporary file.

        `seed` chooses among the answers of a run with several seeds. A sample that was recorded
        under one seed only serves every seed. The exception: if the file has answers under the
        requested seed but none for this sample, the sample was not analyzed under that seed.
        """
        recording = Path(path)
        self._path = recording / "traces.jsonl" if recording.is_dir() else recording
        if not self._path.is_file():
            raise InputError(
                f"no recorded answers at {self._path}: "
                "backend.path must be a traces.jsonl or a run directory"
            )
        self._seed = seed
        self._own: dict[Key, Place] = {}
        # Answers under another seed; None where there are several such seeds.
        self._other: dict[Key, Place | None] = {}
        self._own_uids: set[str] = set()
        try:
            self._fd = _opened(self._path)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{self._path}: not recorded answers: {error}") from error
        self._index()

    def __del__(self) -> None:
        if fd := getattr(self, "_fd", None):
            os.close(fd)

    def _index(self) -> None:
        """Index the position of each answer; a later line replaces an earlier one."""
        offset = 0
        try:
            with os.fdopen(os.dup(self._fd), "rb") as file:
                file.seek(0)
                for number, line in enumerate(bounded_lines(file), 1):
                    if line.strip():
                        key, seed = self._read_key(line, number)
                        self._note(key, Place(offset, len(line), number, seed))
                    offset += len(line)
        except OSError as error:
            raise InputError(f"{self._path}: {error.strerror}: not recorded answers") from error

    def _note(self, key: Key, place: Place) -> None:
        if place.seed == self._seed:
            self._own[key] = place
            self._own_uids.add(key[0])
            return
        earlier = self._other.get(key, place)
        self._other[key] = place if earlier is not None and earlier.seed == place.seed else None

    def _read_key(self, line: bytes, number: int) -> tuple[Key, int | None]:
        try:
            record = parse_json(line)
            key = str(record["uid"]), str(record["node"]), int(record.get("turn") or 0)
            seed = record.get("seed")
            return key, None if seed is None else int(seed)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{self._path}:{number}: not a recorded answer ({error!r}): "
                "each line needs uid, node, turn and output"
            ) from error

    def _fail(self, question: Ask, why: str, raw: str | None = None) -> BackendError:
        return BackendError(
            f"{question.node}: {why}", node=question.node, turn=question.turn, raw=raw
        )

    def _find(self, question: Ask) -> Place:
        key = (question.uid, question.node, question.turn)
        place = self._own.get(key)
        if place is None and (not self._own or question.uid in self._own_uids):
            if key in self._other and self._other[key] is None:
                raise self._fail(
                    question,
                    f"{self._path} has answers for uid {question.uid!r} under several seeds and "
                    f"none under seed {self._seed}: choose one of the recorded seeds",
                )
            place = self._other.get(key)
        if place is None:
            under = f", seed {self._seed}" if self._seed is not None and self._own else ""
            raise self._fail(
                question,
                f"no recorded answer for uid {question.uid!r}, node {question.node!r}, "
                f"turn {question.turn}{under} in {self._path}",
            )
        return place

    def recorded(self, question: Ask) -> Reply | None:
        """The recorded answer; None if it is missing."""
        try:
            return self.ask(question)
        except BackendError:
            return None

    def ask(self, question: Ask) -> Reply:
        """The recorded answer. Raises an error with the node's name if it is missing."""
        place = self._find(question)
        record: dict[str, Any] = parse_json(os.pread(self._fd, place.length, place.offset))
        output = record.get("output")
        if not isinstance(output, dict):
            why = record.get("error") or "the recorded output is not an object"
            raise self._fail(question, f"{self._path}:{place.line}: {why}", json.dumps(output))
        return Reply(
            output,
            backend="replay",
            model=record.get("model"),
            seed=record.get("seed"),
            usage=record.get("usage"),
            notes=backend_notes(question, output, record.get("notes")),
        )

    async def aask(self, question: Ask) -> Reply:
        """The recorded answer. The read is a few kilobytes, so it does not block the loop."""
        return self.ask(question)


def _opened(path: Path) -> int:
    """A descriptor of the file, unpacked if it is gzip-compressed."""
    with path.open("rb") as file:
        if file.read(2) != _GZIP:
            return os.dup(file.fileno())
        file.seek(0)
        with TemporaryFile() as unpacked, gzip.GzipFile(fileobj=file) as packed:
            shutil.copyfileobj(packed, unpacked)
            unpacked.flush()
            return os.dup(unpacked.fileno())


def backend_notes(question: Ask, output: dict[str, Any], recorded: Any) -> tuple[str, ...]:
    """The recorded notes that the backend wrote, without those of the parser.

    The parser writes its notes again when it reads the answer again.
    """
    notes = tuple(map(str, recorded)) if isinstance(recorded, list | tuple) else ()
    try:
        _, made_again = read_answer(question.answer, output)
    except AnswerError:
        return notes
    own = len(notes) - len(made_again)
    return notes[:own] if own >= 0 and list(notes[own:]) == made_again else notes
