"""Links from pages to files outside `docs/`, as the site has them."""

from __future__ import annotations

import re
from typing import Any

#: The model card lies beside the models; the site has it as a page.
_CARD = re.compile(r"\]\(\.\./\.\./resources/models/README\.md")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links at pages of the site."""
    return _CARD.sub("](../reference/model-card.md", markdown)
