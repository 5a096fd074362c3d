"""The answer cache: a call that was answered once is not asked again.

Keyed by model, parameters, seed, prompt and answer schema, shared between runs. Each answer also
remembers which call of which run paid for it: when that very call comes again, after a crash, it is
given back as it was; to anyone else it is a cache hit, which costs nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from absa.database import Database
from schemas.answers import Answer, read_answer
from schemas.backend import Ask, Backend, Reply
from schemas.errors import AnswerError
from schemas.settings import BackendSettings

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, owner TEXT NOT NULL, reply TEXT NOT NULL
) WITHOUT ROWID;
"""
_IF_DAMAGED = "the answer cache is damaged: delete the file, its answers are asked for again"


def default_path() -> Path:
    """Where answers are kept: `$ABSA_CACHE`, else the user's cache folder."""
    if given := os.environ.get("ABSA_CACHE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "absa" / "answers.db"


@cache
def _schema_of(answer: type[Answer]) -> str:
    return json.dumps(answer.model_json_schema(), sort_keys=True)


class CachedBackend:
    """Another backend with a memory."""

    def __init__(
        self,
        inner: Backend,
        settings: BackendSettings,
        path: Path,
        *,
        run_id: str,
        shared: bool = True,
    ) -> None:
        """Remember the answers of `inner` in `path`.

        Not shared, an answer is given back only to the call that asked for it: a run without the
        cache still asks nothing twice when it is resumed.
        """
        self._inner = inner
        self._settings = settings
        self._run_id = run_id
        self._shared = shared
        # Whoever asks what is being asked already waits for that answer. One lock per question
        # under way: they vanish with the last coroutine that holds them.
        self._under_way: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._db = Database(path, _SCHEMA, if_damaged=_IF_DAMAGED)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def forget(self, uid: str) -> None:
        """Drop the answers of a finished sample that nobody else may use."""
        if not self._shared:
            mine = self._prefix(uid)
            self._db.write("DELETE FROM answers WHERE substr(owner, 1, ?) = ?", len(mine), mine)

    def ask(self, question: Ask) -> Reply:
        """The remembered answer, or a new one that is remembered."""
        key, owner = self._key(question), self._owner(question)
        reply = self._recall(key, owner)
        if reply is None:
            reply = self._inner.ask(question)
            if is_usable(question, reply):
                self._store(key, owner, reply).result()
        return reply

    async def aask(self, question: Ask) -> Reply:
        """The remembered answer, or a new one that is remembered."""
        key, owner = self._key(question), self._owner(question)
        lock = self._under_way.setdefault(key, asyncio.Lock())
        async with lock:
            reply = self._recall(key, owner)
            if reply is None:
                reply = await self._inner.aask(question)
                if is_usable(question, reply):
                    # The next agent is asked only when this answer is safe.
                    await asyncio.wrap_future(self._store(key, owner, reply))
        return reply

    def _prefix(self, uid: str) -> str:
        # As JSON, so that no uid can look like the beginning of another.
        return json.dumps([self._run_id, self._settings.seed, uid])[:-1] + ", "

    def _owner(self, question: Ask) -> str:
        return f"{self._prefix(question.uid)}{question.node}, {question.turn}]"

    def _key(self, question: Ask) -> str:
        parts: list[Any] = [
            self._settings.role(question.node).model_dump(),
            question.seed_offset,
            question.temperature,
            question.prompt_sha256,
            _schema_of(question.answer),
        ]
        if not self._shared:
            parts.append(self._owner(question))
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _recall(self, key: str, owner: str) -> Reply | None:
        row = self._db.one("SELECT owner, reply FROM answers WHERE key = ?", key)
        if row is None:
            return None
        stored = json.loads(row[1])
        reply = Reply(**{**stored, "notes": tuple(stored["notes"])})
        if row[0] == owner:
            return reply
        return Reply(
            reply.output,
            backend=reply.backend,
            model=reply.model,
            seed=reply.seed,
            latency_ms=0.0,
            cached=True,
            attempts=0,
            notes=reply.notes,
        )

    def _store(self, key: str, owner: str, reply: Reply) -> Future[None]:
        text = json.dumps(
            {
                "output": reply.output,
                "backend": reply.backend,
                "model": reply.model,
                "seed": reply.seed,
                "usage": reply.usage,
                "latency_ms": reply.latency_ms,
                "attempts": reply.attempts,
                "notes": reply.notes,
            }
        )
        return self._db.write("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", key, owner, text)


def is_usable(question: Ask, reply: Reply) -> bool:
    """Whether an answer can be read: a bad one, remembered, would fail its sample for ever."""
    try:
        read_answer(question.answer, dict(reply.output))
    except AnswerError:
        return False
    return True
