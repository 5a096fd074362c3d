"""Makes the input of a graph for one text, for Python, the command line and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def graph_input(
    text: str,
    *,
    uid: str | None = None,
    lang: str | None = None,
    domain: str | None = None,
    given_aspects: Sequence[str] | None = None,
    demos: Sequence[Mapping[str, Any]] = (),
    besides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The input of a graph; `besides` has fields that only some graphs accept."""
    return {
        "text": text,
        "uid": uid,
        "lang": lang,
        "domain": domain,
        "demos": list(demos),
        "given_aspects": list(given_aspects) if given_aspects is not None else None,
        **{key: value for key, value in (besides or {}).items() if value is not None},
    }
