"""Draws SVG figures as PNG files, by the optional package resvg-py."""

from __future__ import annotations

import re
from importlib.util import find_spec

SCALE = 2.0
HINT = "PNG files need the package resvg-py: pip install 'absa-debate-graph[png]'"
NO_FONT = "This system has no font, so the PNG files have no letters: install one, or use the SVG"

_CJK = re.compile("[ᄀ-ᇿ⺀-鿿가-힣豈-﫿]")
# resvg takes the first font of the system that has a letter, with or without serifs. These come
# first if a figure has Korean, Chinese or Japanese letters.
_CJK_FONTS = (
    "'Noto Sans CJK KR', 'Noto Sans KR', 'Apple SD Gothic Neo', 'Malgun Gothic', NanumGothic"
)


def is_available() -> bool:
    """Whether the package is installed."""
    return find_spec("resvg_py") is not None


def png(svg: str) -> bytes:
    """The figure on white, with two pixels for each unit."""
    import resvg_py

    if _CJK.search(svg):
        svg = svg.replace("Helvetica, Arial", f"{_CJK_FONTS}, Helvetica, Arial")
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=SCALE, background="#ffffff"))


def has_font() -> bool:
    """Whether a letter leaves a mark. resvg leaves out letters that no font of the system has."""
    page = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">{}</svg>'
    return png(page.format('<text y="16">A</text>')) != png(page.format(""))
