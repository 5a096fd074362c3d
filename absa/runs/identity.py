"""What makes a run this run: everything that can change an answer, and nothing that cannot."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nodes.assets import data_dir
from schemas.settings import Settings

# Raised when records of an older version could not be continued by this one.
SCHEMA_VERSION = 1
# How an answer travels does not change what it says.
TRANSPORT = (
    *("timeout_s", "max_retries", "max_concurrency", "requests_per_second", "path"),
    *("api_key_env", "api_key_keyring"),
)
# What a token costs does not change it either.
_NO_ANSWERS = ("README.md", "prices.json")
_PACKAGES = ("absa-debate-graph", "langgraph", "langchain-openai", "pydantic", "kiwipiepy")


#: Files that are read: texts, tables and models.
_READ = frozenset({".md", ".json", ".crf", ".npz", ".gz"})


class RunMismatch(ValueError):
    """The directory holds another run. Wrong use; the differences are named."""


def file_sha256(path: Path) -> str:
    """The hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def folder_hashes(name: str) -> dict[str, str]:
    """The hash of each file of a data folder that can change an answer."""
    root = data_dir(name)
    files = sorted(p for p in root.rglob("*") if p.is_file() and p.suffix in _READ)
    answers = [p for p in files if p.name not in _NO_ANSWERS]
    return {str(p.relative_to(root)): file_sha256(p)[:16] for p in answers}


def identity(settings: Settings, data: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of a run over `data` (its hash and how it is read)."""
    chosen = settings.model_dump(mode="json")
    backend = {k: v for k, v in chosen.pop("backend").items() if k not in TRANSPORT}
    answers = None
    if settings.backend.kind == "replay" and settings.backend.path:
        given = Path(settings.backend.path)
        answers = file_sha256(given / "traces.jsonl" if given.is_dir() else given)
    return {
        "schema_version": SCHEMA_VERSION,
        "settings": {**chosen, "backend": backend},
        "recorded_answers": answers,
        "demos": file_sha256(Path(settings.demos.path)) if settings.demos.path else None,
        "prompts": folder_hashes("prompts"),
        "resources": folder_hashes("resources"),
        "data": dict(data),
    }


def differences(old: Any, new: Any, key: str = "") -> list[str]:
    """What differs between two identities, one line each, by dotted key."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for name in sorted({*old, *new})
            for line in differences(old.get(name), new.get(name), f"{key}.{name}" if key else name)
        ]
    return [] if old == new else [f"{key}: was {old!r}, is {new!r}"]


def versions() -> dict[str, str]:
    """The versions of what the result depends on."""
    return {name: version(name) for name in _PACKAGES}
