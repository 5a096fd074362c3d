"""Server errors: which to retry, how long to wait, and the message for the user."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import openai
from tenacity import RetryCallState, wait_exponential, wait_random

from absa.backends.servers import PARAMETERS

REFUSALS = frozenset({400, 404, 415, 422, 501})
"""HTTP statuses of servers that do not support a parameter or a feature."""

# 404 comes last: every form of the request failed, so the model or the address does not exist.
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
_REFUSAL_REMEDY = "the server did not accept the request in any form; see its error message"
_SERVER_REMEDY = "the server has an internal error; try again later (finished samples are kept)"
_TIMEOUT_REMEDY = "raise backend.timeout_s or lower backend.max_concurrency"
_CONNECTION_REMEDY = "check backend.base_url and that the server is running"
_CERTIFICATE_REMEDY = (
    "check the host in backend.base_url; for a private certificate authority, set SSL_CERT_FILE "
    "to its certificate file"
)
_TLS_REMEDY = "check backend.base_url: the address of a server without TLS begins with http://"
_FILTER_REMEDY = "the text cannot be analyzed by this model"
_NOT_OPENAI_REMEDY = (
    "check that backend.base_url is an OpenAI-compatible API (often it ends in /v1)"
)
_GATEWAY_REMEDY = (
    "the server or a gateway before it has an error; see its log (finished samples are kept)"
)
_TOO_LARGE_REMEDY = "set backend.max_tokens, or use another model"
_REDIRECT_REMEDY = (
    "set backend.base_url to the address of the server that answers, or allow redirects with "
    "backend.allow_redirects"
)

_STATUSES = range(400, 600)
# OpenSSL's reasons for an answer in plain HTTP. A broken connection has other reasons.
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})


class NoAnswer(openai.OpenAIError):
    """A response that contains no answer, for example a web page with status 200."""

    def __init__(
        self,
        what: str,
        remedy: str,
        *,
        body: Any = None,
        words: str = "",
        status: int | None = None,
        code: str | None = None,
        passes: bool = True,
        hopeless: bool = False,
    ) -> None:
        """Describe the response. It `passes` if the same request can succeed a moment later."""
        super().__init__(words)
        self.what = what
        self.remedy = remedy
        self.body = body
        self.status_code = status
        self.code = code
        self.passes = passes
        self.hopeless = hopeless

    @classmethod
    def undecodable(cls, content: bytes) -> NoAnswer:
        """The error for a response with status 200 whose body is not JSON."""
        text = content.decode("utf-8", "replace").strip()
        if not text:
            return cls("an empty body instead of an answer", _GATEWAY_REMEDY, body=text)
        if text.startswith("<"):
            remedy = f"{_GATEWAY_REMEDY}; if it never answers, {_NOT_OPENAI_REMEDY}"
            return cls("a web page instead of an answer", remedy, body=text)
        try:
            content.decode("utf-8")
        except UnicodeDecodeError:
            return cls("an answer that is not in UTF-8", _GATEWAY_REMEDY, body=text)
        return cls("an answer that is not valid JSON", _GATEWAY_REMEDY, body=text)

    @classmethod
    def without_choices(cls, body: Any) -> NoAnswer:
        """The error for a response with status 200 whose JSON contains no answer."""
        if isinstance(body, Mapping) and (error := body.get("error")):
            return cls._of_error(error, body)
        if isinstance(body, Mapping) and not body.get("choices", True):
            return cls("an answer without choices", _GATEWAY_REMEDY, body=body)
        return cls("not a chat completion", _NOT_OPENAI_REMEDY, body=body)

    @classmethod
    def _of_error(cls, error: Any, body: Any) -> NoAnswer:
        parts = error if isinstance(error, Mapping) else {"message": error}
        code = str(parts.get("code") or "")
        status = int(code) if code.isdecimal() and len(code) == 3 else None
        return cls(
            "an error instead of an answer",
            _GATEWAY_REMEDY,
            body=body,
            words=str(parts.get("message") or json.dumps(error, default=str)),
            status=status if status in _STATUSES else None,
            code=code,
        )

    @classmethod
    def too_large(cls, most: int) -> NoAnswer:
        """The error for a response above the size limit; the rest was not read."""
        what = f"an answer of more than {most:,} bytes, which was not read to its end"
        return cls(what, _TOO_LARGE_REMEDY, passes=False)

    @classmethod
    def elsewhere(cls, origin: str) -> NoAnswer:
        """The error for a redirect to another server."""
        what = f"a redirect to another server, {origin}, which was not followed"
        return cls(what, _REDIRECT_REMEDY, passes=False, hopeless=True)


class Wait:
    """The wait before a retry: the server's `Retry-After`, else jittered exponential backoff."""

    def __init__(self, backoff_s: float) -> None:
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
    """The HTTP status of an error, also if it came in the body of a response with status 200."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def is_transient(error: BaseException) -> bool:
    """Whether the same request can succeed a moment later."""
    if isinstance(error, openai.APIConnectionError):  # timeouts are among them
        return _tls_failure(error) is None
    status = status_of(error)
    if status in REFUSALS or _is_about_the_text(error) or _quota_used_up(error):
        return False
    if status is None:
        return isinstance(error, NoAnswer) and error.passes
    return status in _BUSY or status >= 500


def _is_hopeless(error: BaseException) -> bool:
    if isinstance(error, NoAnswer) and error.hopeless:
        return True
    return status_of(error) in _UNUSABLE or _quota_used_up(error) or _tls_failure(error) is not None


def is_unreachable(error: BaseException) -> bool:
    """Whether the server sent nothing. A response with status 200 counts as sent."""
    if isinstance(error, NoAnswer) and status_of(error) is None:
        return error.hopeless
    return is_transient(error) or _is_hopeless(error)


def is_refusal(error: Exception) -> bool:
    """Whether the server rejected the form of the request."""
    if _is_about_the_text(error):
        return False
    if isinstance(error, TypeError):  # the SDK refuses arguments an endpoint does not have
        return any(f"'{name}'" in str(error) for name in PARAMETERS)
    # OpenAI answers 403 if its reasoning models are asked for token probabilities.
    forbidden = status_of(error) == 403 and "logprobs" in str(error)
    return forbidden or status_of(error) in REFUSALS


def is_in_its_words(error: BaseException) -> bool:
    """Whether the error's message comes from the server."""
    return status_of(error) is not None or isinstance(error, NoAnswer)


def explain(error: Exception, key: str) -> tuple[str, str]:
    """What happened and what the user can do. `key` says where the key comes from."""
    if (tls := _tls_failure(error)) is not None:
        return tls
    if isinstance(error, openai.APITimeoutError) and not _was_cut_off(error):
        return "no answer in time", _TIMEOUT_REMEDY
    if isinstance(error, openai.APIConnectionError):
        return "no connection", _CONNECTION_REMEDY
    if _is_filtered(error):
        return "the answer was withheld by a content filter", _FILTER_REMEDY
    status = status_of(error)
    if status is None:
        if isinstance(error, NoAnswer):
            return error.what, _CONTEXT_REMEDY if _is_too_long(error) else error.remedy
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
    if not is_in_its_words(error) or status_of(error) in _BUSY:
        return False
    return bool(_TOO_LONG.search(_server_words(error)))


def _is_filtered(error: BaseException) -> bool:
    if isinstance(error, openai.ContentFilterFinishReasonError):
        return True
    return is_in_its_words(error) and bool(_FILTERED.search(_server_words(error)))


def _server_words(error: BaseException) -> str:
    return f"{getattr(error, 'code', '')} {getattr(error, 'type', '')} {error}".lower()


def _was_cut_off(error: BaseException) -> bool:
    """Whether there was no connection. With aiohttp the SDK reports that as a timeout."""
    for cause in _causes(error):
        if isinstance(cause, aiohttp.ClientConnectionError):
            return not isinstance(cause, TimeoutError)
    return False


def _tls_failure(error: BaseException) -> tuple[str, str] | None:
    """The TLS error and what to do about it. A retry would not help."""
    for cause in _causes(error):
        # aiohttp's own errors have these types too, but do not give the reason.
        if isinstance(cause, aiohttp.ClientError):
            continue
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = cause.verify_message
            return f"its certificate is not trusted ({why})", _CERTIFICATE_REMEDY
        if isinstance(cause, ssl.SSLError) and cause.reason in _NOT_TLS:
            return "the server does not use TLS", _TLS_REMEDY
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    while (cause := error.__cause__) is not None:
        yield (error := cause)
