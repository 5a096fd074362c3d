"""Reads prompts, configs and resources: the shipped files, or a user's replacements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from absa.schemas.json_text import parse_json

_ROOT = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """The folder `configs`, `prompts` or `resources`.

    It is beside `nodes`: at the top of a checkout, or inside `absa` in a wheel.
    """
    return _ROOT / name


@dataclass(frozen=True, eq=False)
class OwnFiles:
    """A user's files (`prompts.dir`, `resources.dir`): their texts by path in the folder."""

    prompts: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)


_ONLY_SHIPPED = OwnFiles()
_own_files = ContextVar("own_files", default=_ONLY_SHIPPED)


def own_files() -> OwnFiles:
    """The user's files in the current context."""
    return _own_files.get()


@contextmanager
def using(files: OwnFiles) -> Iterator[None]:
    """Use these files instead of the shipped ones, in this context and threads it starts."""
    before = _own_files.set(files)
    try:
        yield
    finally:
        _own_files.reset(before)


def read_json(relative: str) -> Any:
    """A JSON resource by its path below `resources/`; None if it does not exist."""
    return _parsed(relative, own_files().resources.get(relative))


@lru_cache(maxsize=64)
def _parsed(relative: str, own: str | None) -> Any:
    if own is not None:
        return parse_json(own)
    path = data_dir("resources") / relative
    return parse_json(path.read_text(encoding="utf-8")) if path.is_file() else None


@cache
def override_profiles() -> dict[str, dict[str, Any]]:
    """The thresholds of each override profile."""
    path = data_dir("configs") / "debate_override_thresholds.json"
    return dict(parse_json(path.read_text(encoding="utf-8"))["profiles"])


_EXAMPLES = "\nExamples\n"
Examples = tuple[tuple[str, str], ...]


def prompt(source: str | Path) -> str:
    """The instructions of a prompt: the part before its examples.

    `source` is the name of a file in `prompts/`, the path of another file, or the text itself.
    """
    return _divided(source, own_files().prompts.get(f"{source}.md"))[0]


def examples(source: str | Path) -> Examples:
    """The examples at the end of a prompt, as pairs of question and answer."""
    return _divided(source, own_files().prompts.get(f"{source}.md"))[1]


@lru_cache(maxsize=256)
def _divided(source: str | Path, own: str | None) -> tuple[str, Examples]:
    instructions, _, rest = (_text(source) if own is None else own).partition(_EXAMPLES)
    lines = [line for line in rest.splitlines() if line]
    return instructions.strip(), tuple(zip(lines[::2], lines[1::2], strict=True))


def _text(source: str | Path) -> str:
    if isinstance(source, Path):
        return source.read_text(encoding="utf-8")
    if len(source.split()) > 1:
        return source
    return (data_dir("prompts") / f"{source}.md").read_text(encoding="utf-8")


@cache
def prompt_names() -> frozenset[str]:
    """The names of the shipped prompts."""
    return frozenset(path.stem for path in data_dir("prompts").glob("*.md"))
