"""What a server can do: from a table of known ones, else found out by asking, and remembered.

What was found out is kept per server and model, also between runs, and forgotten when it turns out
wrong or after a week: servers are updated.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from absa.nodes.assets import read_json
from absa.schemas.json_text import parse_json

logger = logging.getLogger(__name__)

TABLE = "servers.json"
FILE = "servers.json"
"""What was found out; it lies beside the answer cache."""

Mode = Literal["json_schema", "tool", "json_object", "text"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""Ways to ask for structure, the strictest first."""

PARAMETERS = ("temperature", "seed", "logprobs")
_LIMITS: tuple[str | None, ...] = ("max_tokens", "max_completion_tokens", None)
"""What servers call the longest answer; the last resort is not to send it."""

_REMEMBERED = timedelta(days=7)


@dataclass(frozen=True)
class Dialect:
    """How one server wants to be asked for one model."""

    mode: Mode = "json_schema"
    unsent: frozenset[str] = frozenset()
    limit: str | None = "max_tokens"

    def after_refusal(self, words: str) -> Dialect | None:
        """What to try next: without the parameter that the server names, else a simpler mode."""
        words = words.lower()
        for name in PARAMETERS:
            if name in words and name not in self.unsent:
                return replace(self, unsent=self.unsent | {name})
        if self.limit and self.limit in words:
            return replace(self, limit=_LIMITS[_LIMITS.index(self.limit) + 1])
        return self.simpler()

    def simpler(self) -> Dialect | None:
        """The next mode; None after the last."""
        rest = MODES[MODES.index(self.mode) + 1 :]
        return replace(self, mode=rest[0]) if rest else None


@cache
def known(base_url: str, model: str) -> Dialect:
    """What the table says about a server and a model; every row that fits adds to it."""
    parts = urlsplit(base_url)
    here = {"host": parts.hostname or "", "port": parts.port, "model": model}
    dialect = Dialect()
    for row in read_json(TABLE)["servers"]:
        if all(_fits(here[name], row[name]) for name in here if name in row):
            dialect = _dialect({**_facts(dialect), **row})
    return dialect


def _fits(value: Any, wanted: Any) -> bool:
    return fnmatchcase(value, wanted) if isinstance(wanted, str) else value == wanted


def _facts(dialect: Dialect) -> dict[str, Any]:
    return {"mode": dialect.mode, "unsent": sorted(dialect.unsent), "limit": dialect.limit}


def _dialect(facts: dict[str, Any]) -> Dialect:
    mode, limit = facts["mode"], facts["limit"]
    if mode not in MODES or limit not in _LIMITS:
        raise ValueError(f"not a way to ask: {facts}")
    return Dialect(mode, frozenset(facts["unsent"]), limit)


class Servers:
    """What is known about servers. With a path, what was found out outlives the process."""

    def __init__(self, path: Path | None) -> None:
        """Remember where; nothing is read before `load`."""
        self._path = path
        self._found: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self.is_loaded = path is None
        self.is_changed = False

    def renew(self) -> None:
        """Begin again in a forked process: a thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def load(self) -> None:
        """Read what earlier runs found out."""
        stored = self._read()
        with self._lock:
            self._found = {**stored, **self._found}
            self.is_loaded = True

    def dialect(self, base_url: str, model: str) -> Dialect:
        """How to ask this model."""
        with self._lock:
            facts = self._found.get(_key(base_url, model))
        return _dialect(facts) if facts else known(base_url, model)

    def learn(self, base_url: str, model: str, dialect: Dialect) -> None:
        """This is how it worked."""
        today = datetime.now(UTC).date().isoformat()
        with self._lock:
            self._found[_key(base_url, model)] = {**_facts(dialect), "found": today}
            self.is_changed = True
        logger.info("%s at %s is asked by %s from now on", model, base_url, dialect)

    def forget(self, base_url: str, model: str) -> bool:
        """What was found out is wrong: begin with the table again. Whether there was anything."""
        with self._lock:
            forgotten = self._found.pop(_key(base_url, model), None) is not None
            self.is_changed |= forgotten
        return forgotten

    def save(self) -> None:
        """Write it down. A cache that cannot be written costs a few questions, not the run."""
        with self._lock:
            text = json.dumps(self._found, ensure_ascii=False, indent=2)
            self.is_changed = False
            if self._path is None:
                return
            draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                draft.write_text(text, encoding="utf-8")
                draft.replace(self._path)
            except OSError as error:
                logger.warning("%s cannot be written: %s", self._path, error)

    def _read(self) -> dict[str, dict[str, Any]]:
        if self._path is None or not self._path.is_file():
            return {}
        oldest = datetime.now(UTC).date() - _REMEMBERED
        found = {}
        try:
            stored = parse_json(self._path.read_text(encoding="utf-8"))
            for key, facts in stored.items():
                _dialect(facts)
                if date.fromisoformat(facts["found"]) >= oldest:
                    found[key] = facts
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            logger.warning("%s is damaged and is written again: %s", self._path, error)
        return found


def _key(base_url: str, model: str) -> str:
    return f"{base_url} {model}"
