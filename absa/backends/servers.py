"""What each server supports: from a table, else found by trying, and stored.

The results are stored per server and model, also between runs. They are deleted when they turn out
wrong, and after a week, because servers are updated.
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
"""The file with the results, beside the answer cache."""

Mode = Literal["json_schema", "tool", "json_object", "text"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""Modes of structured output, the strictest first."""

PARAMETERS = ("temperature", "seed", "logprobs")
_LIMITS: tuple[str | None, ...] = ("max_tokens", "max_completion_tokens", None)
"""The servers' names for the maximum answer length. None: do not send it."""

_REMEMBERED = timedelta(days=7)


@dataclass(frozen=True)
class Dialect:
    """The request options that a server accepts for a model."""

    mode: Mode = "json_schema"
    unsent: frozenset[str] = frozenset()
    limit: str | None = "max_tokens"

    def after_refusal(self, words: str) -> Dialect | None:
        """The next dialect to try: without the rejected parameter, else with a simpler mode."""
        words = words.lower()
        for name in PARAMETERS:
            if name in words and name not in self.unsent:
                return replace(self, unsent=self.unsent | {name})
        if self.limit and self.limit in words:
            return replace(self, limit=_LIMITS[_LIMITS.index(self.limit) + 1])
        return self.simpler()

    def simpler(self) -> Dialect | None:
        """The dialect with the next simpler mode; None after the last."""
        rest = MODES[MODES.index(self.mode) + 1 :]
        return replace(self, mode=rest[0]) if rest else None


@cache
def known(base_url: str, model: str) -> Dialect:
    """The dialect of a server and model by the table; every matching row adds to it."""
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
        raise ValueError(f"not a valid dialect: {facts}")
    return Dialect(mode, frozenset(facts["unsent"]), limit)


class Servers:
    """The dialects of servers. With a path they are stored between runs."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self.is_loaded = path is None
        self.is_changed = False

    def renew(self) -> None:
        """Make a new lock in a forked process: a thread of the parent may have held the old one."""
        self._lock = threading.Lock()

    def load(self) -> None:
        """Read the results of earlier runs."""
        stored = self._read()
        with self._lock:
            self._found = {**stored, **self._found}
            self.is_loaded = True

    def dialect(self, base_url: str, model: str) -> Dialect:
        """The dialect to use for this model."""
        with self._lock:
            facts = self._found.get(_key(base_url, model))
        return _dialect(facts) if facts else known(base_url, model)

    def learn(self, base_url: str, model: str, dialect: Dialect) -> None:
        """Store the dialect that worked."""
        today = datetime.now(UTC).date().isoformat()
        with self._lock:
            self._found[_key(base_url, model)] = {**_facts(dialect), "found": today}
            self.is_changed = True
        logger.info("%s at %s is asked by %s from now on", model, base_url, dialect)

    def forget(self, base_url: str, model: str) -> bool:
        """Delete a stored dialect that failed. Returns whether there was one."""
        with self._lock:
            forgotten = self._found.pop(_key(base_url, model), None) is not None
            self.is_changed |= forgotten
        return forgotten

    def save(self) -> None:
        """Write the results. If that fails, later runs make a few more requests."""
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
        dialects = {}
        try:
            stored = parse_json(self._path.read_text(encoding="utf-8"))
            for key, facts in stored.items():
                _dialect(facts)
                if date.fromisoformat(facts["found"]) >= oldest:
                    dialects[key] = facts
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            logger.warning("%s is damaged and will be overwritten: %s", self._path, error)
        return dialects


def _key(base_url: str, model: str) -> str:
    return f"{base_url} {model}"
