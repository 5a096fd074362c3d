"""What can go wrong with a server: what may be tried again, how long to wait, what to tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp
import openai
from tenacity import RetryCallState, wait_exponential, wait_random

from absa.backends.servers import PARAMETERS

REFUSALS = frozenset({400, 404, 415, 422, 501})
"""Statuses by which servers say that they do not know a parameter or a feature."""

# 404 at the end: no form of the request helped, so the model or the address is not there.
_UNUSABLE = frozenset({401, 402, 403, 404})
_BUSY = frozenset({408, 409, 425, 429})
_LONGEST_WAIT_S = 60.0
_TOO_LONG = re.compile(
    r"context.?(length|size|window)|exceed_context"
    r"|too many (input )?tokens|(prompt|input) is too long|token count.{0,40}exceeds"
)
_FILTERED = re.compile(r"content.?(filter|policy)|responsibleaipolicy")

_REMEDIES: Mapping[int, str] = {
    401: "give a key that this server accepts ({key})",
    402: "check the account's credit",
    403: "the key ({key}) may not use this model; check backend.model",
    404: "check backend.model, and that backend.base_url ends where the API begins (often /v1)",
    429: "lower backend.max_concurrency or raise backend.max_retries; finished samples are kept",
}
_QUOTA_REMEDY = "the account's quota is used up; check its plan and billing"
_CONTEXT_REMEDY = (
    "the text is too long for this model; use one with a larger context, or start the server with "
    "a larger one"
)
_REFUSAL_REMEDY = "the server did not accept the request in any form; see its own words"
_SERVER_REMEDY = "the server is in trouble; try again later, finished samples are kept"
_TIMEOUT_REMEDY = "raise backend.timeout_s or lower backend.max_concurrency"
_CONNECTION_REMEDY = "check backend.base_url and that the server is running"
_FILTER_REMEDY = "the text cannot be analysed by this model"
_NOT_OPENAI_REMEDY = (
    "check that backend.base_url is an OpenAI-compatible API (often it ends in /v1)"
)


class Wait:
    """What the server asks for by `Retry-After`, else jittered exponential backoff."""

    def __init__(self, backoff_s: float) -> None:
        """Begin with waits of about this length."""
        growing = wait_exponential(multiplier=backoff_s, max=_LONGEST_WAIT_S)
        self._backoff = growing + wait_random(0, backoff_s)

    def __call__(self, state: RetryCallState) -> float:
        """Seconds until the next attempt."""
        asked = _retry_after(state.outcome.exception() if state.outcome else None)
        return self._backoff(state) if asked is None else min(asked, _LONGEST_WAIT_S)


def _retry_after(error: BaseException | None) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get("retry-after") if headers else None
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def status_of(error: BaseException) -> int | None:
    """The HTTP status of an error, also where it came in the body of a 200."""
    status = getattr(error, "status_code", None)
    if status is None and error.args and isinstance(error.args[0], Mapping):
        status = error.args[0].get("code")
    return status if isinstance(status, int) else None


def is_transient(error: BaseException) -> bool:
    """Whether the same request may be answered a moment later."""
    if isinstance(error, openai.APIConnectionError):  # timeouts are among them
        return True
    status = status_of(error)
    if status is None or status in REFUSALS or _is_about_the_text(error) or _quota_used_up(error):
        return False
    return status in _BUSY or status >= 500


def is_hopeless(error: BaseException) -> bool:
    """Whether the next call would fare no better, whatever it asks."""
    return status_of(error) in _UNUSABLE or _quota_used_up(error)


def is_refusal(error: Exception) -> bool:
    """Whether the server did not like how it was asked."""
    if _is_about_the_text(error):
        return False
    if isinstance(error, TypeError):  # the SDK refuses arguments an endpoint does not have
        return any(f"'{name}'" in str(error) for name in PARAMETERS)
    # OpenAI forbids to ask its reasoning models for probabilities, as it forbids a key a model.
    forbidden = status_of(error) == 403 and "logprobs" in str(error)
    return forbidden or status_of(error) in REFUSALS


def explain(error: Exception, key: str) -> tuple[str, str]:
    """What happened, and what the user can do about it; `key` says where the key comes from."""
    if isinstance(error, openai.APITimeoutError) and not _was_cut_off(error):
        return "no answer in time", _TIMEOUT_REMEDY
    if isinstance(error, openai.APIConnectionError):
        return "no connection", _CONNECTION_REMEDY
    if _is_filtered(error):
        return "the answer was withheld by a content filter", _FILTER_REMEDY
    status = status_of(error)
    if status is None:
        return f"not a chat completion [{type(error).__name__}]", _NOT_OPENAI_REMEDY
    if _quota_used_up(error):
        remedy = _QUOTA_REMEDY
    elif _is_too_long(error):
        remedy = _CONTEXT_REMEDY
    else:
        remedy = _REMEDIES.get(status, _SERVER_REMEDY if status >= 500 else _REFUSAL_REMEDY)
    return f"HTTP {status}", remedy.format(key=key)


def _quota_used_up(error: BaseException) -> bool:
    return getattr(error, "code", None) == "insufficient_quota"


def _is_about_the_text(error: BaseException) -> bool:
    return _is_too_long(error) or _is_filtered(error)


def _is_too_long(error: BaseException) -> bool:
    """A busy server may speak of too many tokens, too: those of the last minute."""
    status = status_of(error)
    return status is not None and status not in _BUSY and bool(_TOO_LONG.search(_said(error)))


def _is_filtered(error: BaseException) -> bool:
    if isinstance(error, openai.ContentFilterFinishReasonError):
        return True
    return status_of(error) is not None and bool(_FILTERED.search(_said(error)))


def _said(error: BaseException) -> str:
    return f"{getattr(error, 'code', '')} {getattr(error, 'type', '')} {error}".lower()


def _was_cut_off(error: BaseException) -> bool:
    """Whether there was no connection: over aiohttp the SDK reports that as a timeout too."""
    while (cause := error.__cause__) is not None:
        error = cause
        if isinstance(cause, aiohttp.ClientConnectionError):
            return not isinstance(cause, TimeoutError)
    return False
