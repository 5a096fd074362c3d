"""The interface between agents and backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from absa.schemas.answers import Answer


@dataclass(frozen=True)
class Ask:
    """One question to a backend.

    `system` is the agent's prompt. `examples` are similar questions with their answers, sent as an
    earlier conversation. Both are equal for all texts. `user` is the rendered `inputs`.
    """

    node: str
    turn: int
    uid: str
    system: str
    user: str
    prompt_sha256: str
    inputs: Mapping[str, Any]
    answer: type[Answer]
    examples: tuple[tuple[str, str], ...] = ()
    # A vote asks the same question several times with other seeds and a higher temperature.
    seed_offset: int = 0
    temperature: float | None = None


_TOKENS = ("prompt_tokens", "completion_tokens")
# No answer has more tokens, and the sum over a run fits into the 64 bits of a database.
_MOST_TOKENS = 10**9


def known_usage(usage: object) -> dict[str, int] | None:
    """The token counts of an answer; None if one is missing or cannot be a count of tokens."""
    if not isinstance(usage, Mapping):
        return None
    counts: dict[str, int] = {}
    for name in _TOKENS:
        count = usage.get(name)
        if type(count) is not int or not 0 <= count <= _MOST_TOKENS:
            return None
        counts[name] = count
    return counts


@dataclass(frozen=True)
class Reply:
    """A backend's unparsed answer with its cost. Unknown token counts are None."""

    output: Mapping[str, Any]
    backend: str
    model: str | None = None
    seed: int | None = None
    usage: dict[str, int] | None = None
    latency_ms: float | None = None
    cached: bool = False
    attempts: int = 1
    notes: tuple[str, ...] = field(default=())
    host: str | None = None
    """The server that answered. It can differ from `base_url` after a redirect."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "usage", known_usage(self.usage))


class Backend(Protocol):
    """Answers questions, synchronously and asynchronously; raises `BackendError` on failure."""

    def ask(self, question: Ask) -> Reply:
        """Answer now."""
        ...

    async def aask(self, question: Ask) -> Reply:
        """Answer without blocking the event loop."""
        ...


def recorded_reply(backend: Backend, question: Ask) -> Reply | None:
    """The recorded answer to a question; None for a backend that is not a replay."""
    find: Callable[[Ask], Reply | None] | None = getattr(backend, "recorded", None)
    return find(question) if find else None
