"""Where prompts, configs and resources live, in a checkout and in an installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from absa.schemas.json_text import parse_json

_ROOT = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """The folder `configs`, `prompts` or `resources`.

    They stand beside `nodes`: at the top of a checkout, in a wheel inside `absa`.
    """
    return _ROOT / name


@cache
def read_json(relative: str) -> Any:
    """A JSON resource by its path below `resources/`, or None where there is none."""
    path = data_dir("resources") / relative
    return parse_json(path.read_text(encoding="utf-8")) if path.is_file() else None


@cache
def override_profiles() -> dict[str, dict[str, Any]]:
    """The thresholds of each override profile."""
    path = data_dir("configs") / "debate_override_thresholds.json"
    return dict(parse_json(path.read_text(encoding="utf-8"))["profiles"])


_EXAMPLES = "\nExamples\n"


@cache
def prompt(source: str | Path) -> str:
    """The instructions of a prompt: what stands before its examples.

    `source` is the name of a file in `prompts/`, the path of another file, or the text itself.
    """
    return _words(source).partition(_EXAMPLES)[0].strip()


@cache
def examples(source: str | Path) -> tuple[tuple[str, str], ...]:
    """The examples at the end of a prompt: what is asked and what is answered, a line each."""
    lines = [line for line in _words(source).partition(_EXAMPLES)[2].splitlines() if line]
    return tuple(zip(lines[::2], lines[1::2], strict=True))


def _words(source: str | Path) -> str:
    if isinstance(source, Path):
        return source.read_text(encoding="utf-8")
    if len(source.split()) > 1:
        return source
    return (data_dir("prompts") / f"{source}.md").read_text(encoding="utf-8")


@cache
def prompt_names() -> frozenset[str]:
    """The agents that have a prompt of their own."""
    return frozenset(path.stem for path in data_dir("prompts").glob("*.md"))
