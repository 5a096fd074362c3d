"""Recognises API keys, which must not be in settings and must not be shown in messages."""

from __future__ import annotations

import re

HIDDEN = "***"

#: Formats that only API keys have.
LOOKS_LIKE_KEY = re.compile(
    r"\bsk-[A-Za-z0-9_-]{12,}"  # OpenAI and compatible providers
    r"|\bBearer\s+[A-Za-z0-9._~+/-]{8,}=*"
    r"|\b(?:gh[pousr]_|github_pat_|hf_|gsk_|xai-|xox[abprs]-|AIza|AKIA)[A-Za-z0-9_-]{12,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+"  # a JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----",
    re.IGNORECASE,
)
# A long word of letters and digits, which is probably a key.
_MAY_BE_KEY = re.compile(r"(?=\S*[A-Za-z])(?=\S*[0-9])[A-Za-z0-9_.+/=~-]{20,}")


def may_be_key(text: str) -> bool:
    """Whether a text can be a key, so that a message should not show it."""
    return bool(LOOKS_LIKE_KEY.search(text) or _MAY_BE_KEY.fullmatch(text.strip()))


def hide_keys(text: str) -> str:
    """Replace everything that looks like a key."""
    return LOOKS_LIKE_KEY.sub(HIDDEN, text)
