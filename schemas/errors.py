"""Error types: one per distinct reaction of the caller."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any


class InputError(ValueError):
    """The input cannot be used, for example an empty text. The user has to change it."""


@dataclass(eq=False, repr=False)
class BackendError(RuntimeError):
    """An agent got no usable answer. The sample fails, and the error records the details.

    `retryable` is for the graph's retry policy; backends that have already retried set it to false.
    `unreachable`: the server did not answer at all.
    """

    message: str
    _: KW_ONLY
    node: str
    turn: int = 0
    raw: str | None = None
    attempts: int = 1
    retryable: bool = False
    unreachable: bool = False
    details: dict[str, Any] = field(default_factory=dict)


class WiringError(InputError):
    """An invalid graph: an unknown node, a key without a writer, a cycle without a router.

    The user has to change the wiring.
    """


class AnswerError(ValueError):
    """An answer without any part of the requested format."""
