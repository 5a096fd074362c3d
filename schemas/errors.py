"""Error types: one per distinct reaction of the caller."""

from __future__ import annotations

from typing import Any


class InputError(ValueError):
    """The input cannot be used, for example an empty text. The user has to change it."""


class BackendError(RuntimeError):
    """An agent got no usable answer. The sample fails, and the error records the details.

    `retryable` is for the graph's retry policy; backends that have already retried set it to false.
    `unreachable`: the server did not answer at all.
    """

    def __init__(
        self,
        message: str,
        *,
        node: str,
        turn: int = 0,
        raw: str | None = None,
        attempts: int = 1,
        retryable: bool = False,
        unreachable: bool = False,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.node = node
        self.turn = turn
        self.raw = raw
        self.attempts = attempts
        self.retryable = retryable
        self.unreachable = unreachable
        self.details = details or {}


class WiringError(InputError):
    """An invalid graph: an unknown node, a key without a writer, a cycle without a router.

    The user has to change the wiring.
    """


class AnswerError(ValueError):
    """An answer without any part of the requested format."""
