"""A user's prompts and resources: files that replace shipped files of the same name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from absa.graph.steps import nearest
from absa.nodes.assets import OwnFiles, data_dir, read_json
from absa.schemas.errors import InputError
from absa.schemas.json_text import parse_json
from absa.schemas.settings import Settings
from absa.small_files import read_small, visible_files

# Shipped resources that a folder cannot replace, and what to use instead.
_ELSEWHERE = {
    "models": "train a model with `absa train` and name it in backend.model",
    "prices.json": "set the environment variable ABSA_PRICES to your price file",
    "servers.json": "the features of a server are detected at the first call",
}


def read_own_files(settings: Settings) -> OwnFiles | None:
    """Read the files of `prompts.dir` and `resources.dir`; None without such a folder.

    Raises:
        InputError: A folder or file cannot be read, or a file does not replace a shipped one.
    """
    prompts, resources = settings.prompts.dir, settings.resources.dir
    if prompts is None and resources is None:
        return None
    return OwnFiles(
        _texts("prompts", prompts, data_dir("prompts").glob("*.md")),
        _texts("resources", resources, data_dir("resources").rglob("*.json")),
    )


def _texts(kind: str, folder: str | None, shipped: Iterable[Path]) -> dict[str, str]:
    if folder is None:
        return {}
    setting, root = f"{kind}.dir", Path(folder)
    if not root.is_dir():
        raise InputError(f"{setting}: {folder} is not a folder")
    names = {path.relative_to(data_dir(kind)).as_posix() for path in shipped}
    names = {name for name in names if _replacement(name) is None}
    texts = {}
    for path in visible_files(root):
        name = path.relative_to(root).as_posix()
        if replacement := _replacement(name):
            raise InputError(f"{setting}: {path} has no effect; {replacement}")
        if name not in names:
            raise InputError(
                f"{setting}: {path} does not replace a shipped file{nearest(name, names)}; "
                f"these can be replaced: {', '.join(sorted(names))}"
            )
        try:
            texts[name] = read_small(path).decode("utf-8")
            if path.suffix == ".json":
                _check(parse_json(texts[name]), read_json(name), keys_are_fixed="/" in name)
        except (OSError, ValueError) as error:
            raise InputError(f"{setting}: {path} cannot be used: {error}") from error
    return texts


def _replacement(name: str) -> str | None:
    return _ELSEWHERE.get(name.partition("/")[0])


def _check(own: Any, shipped: dict[str, Any], *, keys_are_fixed: bool) -> None:
    """Reject a file whose structure differs from the shipped one."""
    if not isinstance(own, dict):
        raise ValueError("it must contain a JSON object like the shipped file")
    if not keys_are_fixed:
        return
    if unknown := own.keys() - shipped.keys():
        name = min(unknown)
        raise ValueError(f"it has an unknown key {name!r}{nearest(name, shipped)}")
    for name, value in shipped.items():
        if not isinstance(value, str) and type(own.get(name)) is not type(value):
            kind = "list" if isinstance(value, list) else "object"
            raise ValueError(f"{name!r} must be present and contain a JSON {kind}")
