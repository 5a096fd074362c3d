"""Parses JSON from outside: a user's files, records of a run.

`json.loads` raises `RecursionError` for deeply nested JSON, and recursive code fails at an even
smaller depth. This parser raises a `ValueError` for too deep JSON, as for invalid JSON.
"""

from __future__ import annotations

import json
from typing import Any

# Records of this project have about 10 levels.
MAX_DEPTH = 100


def parse_json(text: str | bytes) -> Any:
    """The value that a JSON text holds.

    Raises:
        ValueError: The text is not valid JSON (`json.JSONDecodeError`), is not UTF-8, or has more
            than `MAX_DEPTH` levels (also a `json.JSONDecodeError`).
    """
    try:
        value = json.loads(text)  # noqa: TID251
    except RecursionError:
        raise _too_deep() from None
    if isinstance(value, dict | list) and _is_too_deep(value):
        raise _too_deep()
    return value


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _too_deep() -> json.JSONDecodeError:
    return json.JSONDecodeError(f"nested more than {MAX_DEPTH} levels deep", "", 0)
