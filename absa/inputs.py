"""What a graph is given for one text. Python, the command line and batches assemble it here."""

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
    """The input of a graph; `besides` holds what only some graphs take, where it is known."""
    return {
        "text": text,
        "uid": uid,
        "lang": lang,
        "domain": domain,
        "demos": list(demos),
        "given_aspects": list(given_aspects) if given_aspects is not None else None,
        **{key: value for key, value in (besides or {}).items() if value is not None},
    }
