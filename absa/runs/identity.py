"""The identity of a run: everything that can change an answer, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from absa.nodes.assets import data_dir
from absa.runs.directory import TRACES
from absa.schemas.errors import InputError
from absa.schemas.settings import Settings
from absa.small_files import visible_files

# Increased when this version cannot resume runs of an older one.
SCHEMA_VERSION = 2
# Transport settings do not change an answer.
TRANSPORT = (
    *("timeout_s", "max_retries", "max_concurrency", "requests_per_second", "path"),
    *("allow_redirects", "api_key_env", "api_key_keyring"),
    "trust_model",  # Model files count by their content.
)
# Prices do not change an answer either.
_NO_ANSWERS = ("README.md", "prices.json", "manifest.json")
_PACKAGES = ("absa-debate-graph", "langgraph", "langchain-openai", "pydantic", "kiwipiepy")


#: Suffixes of the data files: texts, tables and models.
_READ = frozenset({".md", ".json", ".crf", ".npz", ".gz"})


def _model(settings: Settings) -> str | None:
    """The folder of an offline model. None for a server's model, which is only a name."""
    return settings.backend.model if settings.backend.kind == "offline" else None


def _recorded_answers(settings: Settings) -> str | None:
    """The traces of a recorded run. No other file of its directory is read."""
    path = settings.backend.path if settings.backend.kind == "replay" else None
    return str(Path(path) / TRACES) if path and Path(path).is_dir() else path


def _demos(settings: Settings) -> str | None:
    return settings.demos.path if settings.demos.k else None


def _checkpoint(settings: Settings) -> str | None:
    """The path of a local classifier. None if the checkpoint is the name of a published one."""
    path = settings.aux_hf.checkpoint if settings.aux_hf.enabled else None
    return path if path and Path(path).exists() else None


def _wiring(settings: Settings) -> str | None:
    if settings.wiring is None:
        return None
    from absa.wired import wiring_file  # imported here because it imports LangGraph

    return str(wiring_file(settings.wiring))


#: Settings that name a file or folder whose content can change an answer, each with a function
#: that returns its path. A new setting of this kind needs one line here.
NAMED_FILES: Mapping[str, Callable[[Settings], str | None]] = {
    "backend.model": _model,
    "backend.path": _recorded_answers,
    "demos.path": _demos,
    "aux_hf.checkpoint": _checkpoint,
    "wiring": _wiring,
    "prompts.dir": lambda settings: settings.prompts.dir,
    "resources.dir": lambda settings: settings.resources.dir,
}
#: Those that each cluster worker reads itself.
READ_BY_WORKERS = ("backend.model", "aux_hf.checkpoint", "wiring", "prompts.dir", "resources.dir")


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


def named_file_hashes(
    settings: Settings, keys: Iterable[str] = NAMED_FILES
) -> dict[str, str | dict[str, str]]:
    """The hashes of the files that settings name, by key; for a folder, one hash per file.

    Raises:
        InputError: A file is missing or cannot be read.
    """
    paths = {key: NAMED_FILES[key](settings) for key in keys}
    return {key: _content(key, Path(path)) for key, path in paths.items() if path is not None}


def _content(key: str, path: Path) -> str | dict[str, str]:
    try:
        if path.is_dir():
            return {str(p.relative_to(path)): file_sha256(p) for p in visible_files(path)}
        if path.exists() and not path.is_file():
            raise InputError(f"{key}: {path} is not a regular file; copy its content to one")
        return file_sha256(path)
    except OSError as error:
        raise InputError(f"{key}: {path} cannot be read: {error.strerror}") from error


def identity(settings: Settings, data: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of a run over `data` (its hash and how it is read)."""
    chosen = settings.model_dump(mode="json")
    backend = {k: v for k, v in chosen.pop("backend").items() if k not in TRANSPORT}
    return {
        "schema_version": SCHEMA_VERSION,
        "settings": {**chosen, "backend": backend},
        "files": named_file_hashes(settings),
        "prompts": folder_hashes("prompts"),
        "resources": folder_hashes("resources"),
        "data": dict(data),
    }


def differences(old: Any, new: Any, key: str = "") -> list[str]:
    """The differences of two identities, one line per dotted key."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for name in sorted({*old, *new})
            for line in differences(old.get(name), new.get(name), f"{key}.{name}" if key else name)
        ]
    return [] if old == new else [f"{key}: was {old!r}, is {new!r}"]


def versions() -> dict[str, str]:
    """The versions of the packages that the result depends on."""
    return {name: version(name) for name in _PACKAGES}
