"""Where prompts, configs and resources live, in a checkout and in an installed wheel."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """The folder `configs`, `prompts` or `resources`.

    In a checkout they stand beside the packages; a wheel carries them inside `absa`, so that no
    generic name lands in site-packages.
    """
    packaged = _ROOT / "absa" / name
    return packaged if packaged.is_dir() else _ROOT / name


@cache
def read_json(relative: str) -> Any:
    """A JSON resource by its path below `resources/`, or None where there is none."""
    path = data_dir("resources") / relative
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


@cache
def prompt(name: str) -> str:
    """The text of `prompts/<name>.md`."""
    return (data_dir("prompts") / f"{name}.md").read_text(encoding="utf-8")


@cache
def prompt_names() -> frozenset[str]:
    """The agents that have a prompt of their own."""
    return frozenset(path.stem for path in data_dir("prompts").glob("*.md"))
