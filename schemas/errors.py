"""As many error types as there are distinct reactions to them."""

from __future__ import annotations

from typing import Any


class InputError(ValueError):
    """The text itself cannot be analysed (empty, not encodable). The user is told."""


class BackendError(RuntimeError):
    """An agent got no usable answer. The sample fails with everything that is known about why.

    `retryable` tells the graph's retry policy whether asking again could help; backends that
    have already retried say no. `unreachable`: nobody answered, whoever had asked.
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
        """Keep the evidence of the failure beside its message."""
        super().__init__(message)
        self.node = node
        self.turn = turn
        self.raw = raw
        self.attempts = attempts
        self.retryable = retryable
        self.unreachable = unreachable
        self.details = details or {}


class WiringError(InputError):
    """A graph that cannot work: an unknown node, a key without a writer, a cycle without a router.

    The user has to change the wiring.
    """


class AnswerError(ValueError):
    """An answer that does not have the shape its agent was asked for, not even in part."""
