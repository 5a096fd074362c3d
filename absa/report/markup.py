"""Builds HTML and SVG from parts. Every text that is not `Markup` is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files

_VOID = frozenset(("meta", "br", "img", "hr", "input"))
_EMPTY = frozenset(("rect", "line", "circle", "path"))


class Markup(str):
    """Markup, which is not escaped again."""

    __slots__ = ()


def el(tag: str, *children: object, **attributes: object) -> Markup:
    """An element.

    `class_` is written as `class`, `aria_label` as `aria-label`. A child or an attribute that is
    None or False is left out.
    """
    attribute_text = "".join(
        f" {name.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{escape(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Markup(f"<{tag}{attribute_text}>")
    if tag in _EMPTY and not children:
        return Markup(f"<{tag}{attribute_text}/>")
    return Markup(f"<{tag}{attribute_text}>{join(children)}</{tag}>")


def join(children: Iterable[object]) -> Markup:
    """Parts one after the other. Whatever is not `Markup` is escaped."""
    return Markup("".join(map(_text, children)))


def _text(child: object) -> str:
    if child is None or child is False:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, list | tuple):
        return join(child)
    return escape(str(child))


# Parts that several pages have ------------------------------------------------------------------


def card(title: str, about: object, *content: object, class_: str = "card") -> Markup:
    """A section with its heading, a sentence about it, and its content."""
    heading = [el("h2", title), el("p", about, class_="about") if about else None]
    return el("section", el("div", heading, class_="section-head"), *content, class_=class_)


def quiet(text: object) -> Markup:
    """A paragraph in a quiet colour."""
    return el("p", text, class_="quiet")


def table(heads: Iterable[object], rows: Iterable[Markup], class_: str) -> Markup:
    """A table with a heading for each column. An empty heading is an empty cell."""
    head = el("tr", [el("th", name, scope="col") if name else el("td") for name in heads])
    return el("table", el("thead", head), el("tbody", list(rows)), class_=class_)


def row(name: object, cells: Iterable[object], class_: str | None = None) -> Markup:
    """A row of a table: its heading, and a cell for each value."""
    head = el("th", name, scope="row")
    return el("tr", head, [el("td", cell) for cell in cells], class_=class_)


def scroll(content: Markup, *below: object) -> Markup:
    """A wide part, which scrolls on a narrow screen and by the keyboard."""
    return el("div", content, *below, class_="scroll", tabindex="0")


def items(lines: Iterable[object], class_: str | None = None) -> Markup:
    """A list."""
    return el("ul", [el("li", line) for line in lines], class_=class_)


def tile(name: str, value: str, note: object, href: str | None = None) -> Markup:
    """A number with its name above and a note below; with `href` it is a link."""
    parts = [
        el("span", name, class_="tile-name"),
        el("span", value, class_="tile-value"),
        el("span", note, class_="tile-note"),
    ]
    return el("a" if href else "div", parts, class_="tile", href=href)


def document(
    title: str, style: str, body: Markup, *, scripts: Iterable[str] = (), styles: Iterable[str] = ()
) -> str:
    """A whole page that runs only `scripts` and loads nothing; `styles` are those of its body."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el(
            "meta",
            http_equiv="Content-Security-Policy",
            content=_content_policy(scripts, [style, *styles]),
        ),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", title),
        el("style", Markup(style)),
    )
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def _content_policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """A policy that allows these scripts and styles, by their hashes, and nothing else.

    With trusted types the browser refuses to parse markup at run time, also from the page's own
    script.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hashes(scripts)}",
            f"style-src {_hashes(styles)}",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _hashes(texts: Iterable[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in texts)
    return " ".join(dict.fromkeys(f"'sha256-{digest}'" for digest in digests)) or "'none'"


@cache
def asset(name: str) -> str:
    """The text of a file of this package."""
    return (files("absa.report") / name).read_text(encoding="utf-8")
