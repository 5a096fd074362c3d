"""`intake`: checks the input and detects its language."""

from __future__ import annotations

import hashlib

from absa.nodes.language import detect, normalise_code
from absa.nodes.memory import own_recall
from absa.schemas.errors import InputError
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import IntakeUpdate, State


def intake(state: State, pipeline: PipelineSettings) -> IntakeUpdate:
    """Check the input. At the same time, the graph resets the rest of the state."""
    text = checked_text(state.get("text"), pipeline.max_text_chars)
    lang = state.get("lang")
    return {
        "text": text,
        "uid": state.get("uid") or text_uid(text),
        "lang": normalise_code(lang) if lang else detect(text),
        "domain": state.get("domain"),
        "demos": state.get("demos") or [],
        "given_aspects": checked_aspects(state.get("given_aspects")),
        "split": state.get("split"),
        "memory_recall": own_recall(state.get("memory_recall"), text),
    }


def checked_text(text: object, max_chars: int) -> str:
    """Return the text, or raise an error that explains the problem."""
    if not isinstance(text, str):
        raise InputError(f"text must be a string, got {type(text).__name__}")
    if len(text) > max_chars:
        raise InputError(
            f"text has {len(text):,} characters, pipeline.max_text_chars allows {max_chars:,}: "
            "split the text, or raise the setting"
        )
    if not text.strip():
        raise InputError("text is empty: there is nothing to analyze")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"text has a lone surrogate at position {error.start}: it is not valid Unicode; "
            "decode the source correctly, or replace the character"
        ) from None
    return text


def checked_aspects(given: object) -> list[str] | None:
    """Return the given aspects, or raise an error that explains the problem."""
    if given is None:
        return None
    if not isinstance(given, list | tuple) or not all(isinstance(g, str) for g in given):
        raise InputError('given_aspects must be a list of terms, such as ["food", "service"]')
    if any(not term.strip() for term in given):
        raise InputError("given_aspects contains an empty term")
    return [term.strip() for term in given]


def text_uid(text: str) -> str:
    """A stable id for a text without an id."""
    return f"text-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
