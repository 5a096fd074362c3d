"""The answer cache: a call that was answered once is not asked again.

The key is made of model, parameters, seed, prompt and answer type. The cache is shared between
runs. Each row also stores its owner: the call of the run that paid for it. When the same call comes
again after a crash, it gets the answer with its original cost. Every other call gets a cache hit,
which costs nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Container
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from weakref import WeakValueDictionary

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from absa.backends.claims import Claim, Claims
from absa.backends.likelihood import named
from absa.backends.wrapper import Wrapper
from absa.database import Database, StorageError
from absa.schemas.answers import Answer, read_answer
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import AnswerError
from absa.schemas.settings import BackendSettings

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, owner TEXT NOT NULL, reply TEXT NOT NULL
) WITHOUT ROWID;
"""
# The owner is not part of the key: the answer does not depend on it.
_KEYS = {"api_key_env", "api_key_keyring"}
_IF_DAMAGED = "the answer cache is damaged: delete the file; its answers will be requested again"


def default_path() -> Path:
    """The path of the cache file: `$ABSA_CACHE`, else a file in the user's cache folder."""
    if path := os.environ.get("ABSA_CACHE"):
        return Path(path).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "absa" / "answers.db"


@cache
def _asked_for(answer: type[Answer]) -> str:
    schema = json.dumps(answer.model_json_schema(), sort_keys=True)
    return f"{schema} {where}" if (where := named(answer)) else schema


@dataclass(frozen=True)
class AnswerKeys:
    """Makes the cache key and the owner of an answer, for the questions of one run.

    If `shared` is false, only the call that paid for an answer gets it again. A run without the
    cache therefore asks nothing twice when it is resumed.
    """

    settings: BackendSettings
    run_id: str
    shared: bool = True

    def of_sample(self, uid: str) -> str:
        """The prefix of the owner of every answer of a sample."""
        # As JSON, so that one uid cannot be a prefix of another.
        return json.dumps([self.run_id, self.settings.seed, uid])[:-1] + ", "

    def owner(self, question: Ask) -> str:
        """The run and the call that this question belongs to."""
        return f"{self.of_sample(question.uid)}{question.node}, {question.turn}]"

    def key(self, question: Ask) -> str:
        """The hash of everything that the answer depends on."""
        parts: list[Any] = [
            self.settings.role(question.node).model_dump(exclude=_KEYS),
            question.seed_offset,
            question.temperature,
            question.prompt_sha256,
            _asked_for(question.answer),
        ]
        if not self.shared:
            parts.append(self.owner(question))
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Answers:
    """The SQLite file with the cached answers."""

    def __init__(
        self,
        path: Path,
        *,
        gather_s: float = 0.0,
        ask_again: Container[str] = (),
        is_shared: bool = True,
    ) -> None:
        """Open or create the file.

        An answer may wait `gather_s` seconds, so that several are written in one transaction.
        Samples whose uid is in `ask_again` get no cached answer, because one made them fail. If the
        file is not shared with other processes, questions are not claimed.
        """
        self._ask_again = ask_again
        # A coroutine with a question that is already under way waits for its answer. There is one
        # lock per question; it disappears with the last coroutine that holds it.
        self._under_way: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._db = Database(path, _SCHEMA, if_damaged=_IF_DAMAGED, gather_s=gather_s)
        self._claims: Claims | None = None
        if is_shared:
            try:
                self._claims = Claims(path.with_name(f"{path.name}-claims"))
            except OSError as error:
                self._db.close()
                remedy = "check that there is space and permission"
                raise StorageError(path, error, remedy) from error

    def close(self) -> None:
        """Close the file."""
        if self._claims is not None:
            self._claims.close()
        self._db.close()

    def under_way(self, key: str) -> asyncio.Lock:
        """The lock to hold, in this process, while this question is looked up or asked."""
        return self._under_way.setdefault(key, asyncio.Lock())

    def claim(self, key: str) -> Claim:
        """The claim to hold while this question is asked: other processes wait for its answer."""
        return Claim(self._claims, key)

    def get(self, key: str, owner: str, uid: str) -> tuple[bool, str] | None:
        """The reply as text, and whether `owner` paid for it; None if it is not in the cache."""
        if uid in self._ask_again:
            return None
        # As bytes: a damaged row can hold any bytes, and must not make the whole file unreadable.
        row = self._db.one(
            "SELECT CAST(owner AS BLOB), CAST(reply AS BLOB) FROM answers WHERE key = ?", key
        )
        if row is None:
            return None
        return row[0] == owner.encode(), row[1].decode("utf-8", "replace")

    def put(self, key: str, owner: str, reply: str) -> Future[None]:
        """Store an answer. It replaces an unusable one with the same key."""
        return self._db.write("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", key, owner, reply)

    def forget(self, beginning: str) -> None:
        """Delete the answers whose owner starts with this prefix."""
        sql = "DELETE FROM answers WHERE substr(owner, 1, ?) = ?"
        self._db.write(sql, len(beginning), beginning)


@dataclass(eq=False)
class CachedBackend(Wrapper):
    """A backend that caches the answers of another backend."""

    keys: AnswerKeys
    answers: Answers

    async def aask(self, question: Ask) -> Reply:
        """Return the cached answer, or ask and cache the new one."""
        key, owner = self.keys.key(question), self.keys.owner(question)
        async with self.answers.under_way(key):
            with self.answers.claim(key) as claim:
                reply = self._recall(question, key, owner)
                if reply is None and not claim.is_held:
                    await claim.wait()
                    reply = self._recall(question, key, owner)
                if reply is not None:
                    return reply
                reply = await self.inner.aask(question)
                if (text := write_reply(question, reply)) is not None:
                    # The next agent is asked only after this answer is stored.
                    await asyncio.wrap_future(self.answers.put(key, owner, text))
        return reply

    def _recall(self, question: Ask, key: str, owner: str) -> Reply | None:
        stored = self.answers.get(key, owner, question.uid)
        return read_reply(question, stored[1], own=stored[0]) if stored else None


class _Stored(BaseModel):
    """A reply as it is stored in the cache."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    output: dict[str, Any]
    backend: str
    model: str | None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None
    usage: Any
    latency_ms: Annotated[float, Field(ge=0)] | None
    attempts: Annotated[int, Field(ge=0, lt=2**31)]
    notes: list[str]
    host: str | None = None


def write_reply(question: Ask, reply: Reply) -> str | None:
    """The reply as text for the cache; None if it cannot be used.

    A cached unusable reply would make its sample fail in every later run.
    """
    if not _is_usable(question, reply):
        return None
    fields = {name: getattr(reply, name) for name in _Stored.model_fields}
    try:
        text = json.dumps(fields, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return None
    # A model can write half a surrogate pair, which cannot be stored.
    return text.encode("utf-8", "replace").decode()


def read_reply(question: Ask, text: str, *, own: bool) -> Reply | None:
    """Read a stored reply. The call that paid for it gets its original cost, others cost zero.

    Returns None if the row is damaged or a newer version wrote it.
    """
    try:
        stored = _Stored.model_validate_json(text)
    except ValidationError:
        return None
    reply = Reply(**{**dict(stored), "notes": tuple(stored.notes)})
    if not _is_usable(question, reply):
        return None
    if own:
        return reply
    return replace(reply, usage=None, latency_ms=0.0, cached=True, attempts=0)


def _is_usable(question: Ask, reply: Reply) -> bool:
    try:
        read_answer(question.answer, dict(reply.output))
    except (AnswerError, RecursionError):
        return False
    return True
