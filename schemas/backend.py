"""The one seam between agents and whatever answers for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from absa.schemas.answers import Answer


@dataclass(frozen=True)
class Ask:
    """One question to a backend.

    `system` is the agent's prompt and `examples` are questions like this one with their answers,
    shown as a conversation that went before; both are the same for every text. `user` is the
    rendered `inputs`.
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
    # A vote asks the same question several times: with other seeds, and warmer than usual.
    seed_offset: int = 0
    temperature: float | None = None


_TOKENS = ("prompt_tokens", "completion_tokens")
# No answer has more tokens; the sum over a run still fits into the 64 bits of a database.
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
    """A backend's answer as it came, with what it cost. Unknown token counts are None."""

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
    """The server that answered, perhaps after a redirect."""

    def __post_init__(self) -> None:
        """Whoever gave the answer, a server, a file or a test: a count is one or is unknown."""
        object.__setattr__(self, "usage", known_usage(self.usage))


class Backend(Protocol):
    """Answers questions, synchronously and asynchronously; raises `BackendError` if it cannot."""

    def ask(self, question: Ask) -> Reply:
        """Answer now."""
        ...

    async def aask(self, question: Ask) -> Reply:
        """Answer without blocking the event loop."""
        ...
