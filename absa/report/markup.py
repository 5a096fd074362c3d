"""HTML and SVG put together from parts: every text is escaped, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_VOID = frozenset(("meta", "br", "img", "hr", "rect", "line", "circle", "path", "input"))


class Markup(str):
    """Markup that may go into the page as it is."""

    __slots__ = ()


def el(tag: str, *children: object, **attributes: object) -> Markup:
    """An element. `class_` is `class`, `aria_label` is `aria-label`; None and False leave out."""
    attribute_text = "".join(
        f" {name.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{escape(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID and not children:
        return Markup(
            f"<{tag}{attribute_text}/>"
            if tag not in ("meta", "br", "input")
            else f"<{tag}{attribute_text}>"
        )
    return Markup(f"<{tag}{attribute_text}>{join(children)}</{tag}>")


def join(children: Iterable[object]) -> Markup:
    """Parts one after the other; what is no markup is escaped."""
    return Markup("".join(map(_text, children)))


def _text(child: object) -> str:
    if child is None or child is False:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, list | tuple):
        return join(child)
    return escape(str(child))
