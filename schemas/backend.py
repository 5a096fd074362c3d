"""The one seam between agents and whatever answers for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from schemas.answers import Answer


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


@dataclass(frozen=True)
class Reply:
    """A backend's answer as it came, with what it cost."""

    output: Mapping[str, Any]
    backend: str
    model: str | None = None
    seed: int | None = None
    usage: dict[str, int] | None = None
    latency_ms: float | None = None
    cached: bool = False
    attempts: int = 1
    notes: tuple[str, ...] = field(default=())


class Backend(Protocol):
    """Answers questions, synchronously and asynchronously; raises `BackendError` if it cannot."""

    def ask(self, question: Ask) -> Reply:
        """Answer now."""
        ...

    async def aask(self, question: Ask) -> Reply:
        """Answer without blocking the event loop."""
        ...
