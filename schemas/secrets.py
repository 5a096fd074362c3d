"""What a key looks like: settings must not hold one, and no message may repeat one."""

from __future__ import annotations

import re

HIDDEN = "***"

#: Something that cannot be anything but a key, whoever issued it.
LOOKS_LIKE_KEY = re.compile(
    r"\bsk-[A-Za-z0-9_-]{12,}"  # OpenAI and those that imitate it
    r"|\bBearer\s+[A-Za-z0-9._~+/-]{8,}=*"
    r"|\b(?:gh[pousr]_|github_pat_|hf_|gsk_|xai-|xox[abprs]-|AIza|AKIA)[A-Za-z0-9_-]{12,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+"  # a JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----",
    re.IGNORECASE,
)
# Long, in one word, of letters and digits: more likely a key than anything that is worth repeating.
_MAY_BE_KEY = re.compile(r"(?=\S*[A-Za-z])(?=\S*[0-9])[A-Za-z0-9_.+/=~-]{20,}")


def may_be_key(text: str) -> bool:
    """Whether a text is better not repeated in a message."""
    return bool(LOOKS_LIKE_KEY.search(text) or _MAY_BE_KEY.fullmatch(text.strip()))


def hide_keys(text: str) -> str:
    """A text without what looks like a key."""
    return LOOKS_LIKE_KEY.sub(HIDDEN, text)
