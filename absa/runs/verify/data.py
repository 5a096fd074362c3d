"""Finds the data file of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from absa.runs.data_file import beginning_sha256


class DataGone(Exception):
    """The data file is missing or unreadable, so it cannot be compared."""


class DataChanged(Exception):
    """The data file is not the one that was analyzed."""


def find_data(directory: Path, about: Mapping[str, Any], chosen: Path | None) -> Path:
    """Return the data file with the recorded content. Rows appended since the run are ignored.

    The manifest has the path as it was typed. A relative path starts at the folder where the run
    was started, which can be any folder above the run directory.

    Raises:
        DataGone: The file was not found.
        DataChanged: The file at the recorded or chosen path has other content.
    """
    recorded = Path(str(about.get("path")))
    here = directory.resolve()
    above = [here, *here.parents]
    named, beside = [chosen or recorded], [folder / recorded.name for folder in above]
    if chosen is not None:
        beside = []
    elif not recorded.is_absolute():
        named += [folder / recorded for folder in above]
    other: Path | None = None
    for path in dict.fromkeys([*named, *beside]):
        try:
            if not path.is_file():
                continue
            if beginning_sha256(path, size_of(about)) == about.get("sha256"):
                return path
        except OSError as error:
            raise DataGone(f"the data file {path} cannot be read ({error.strerror})") from error
        # A file of the same name in another folder can be a different file.
        other = other or (path if path in named else None)
    if other is not None:
        raise DataChanged(f"the data file {other} has changed since the run")
    raise DataGone(f"the data file {chosen or recorded} does not exist")


def size_of(about: Mapping[str, Any]) -> int | None:
    """The number of bytes that the run read; None for all."""
    size = about.get("bytes")
    return size if isinstance(size, int) and size >= 0 else None
