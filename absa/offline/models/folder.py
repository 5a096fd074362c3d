"""The files of a model folder: bounded, read once, and checked before anything else sees them.

CRFsuite reads a model file without checking it: a damaged one ends the process. The folder's
manifest has size and SHA-256 of each file, and bytes that differ are refused. It guards against
damage. It does not guard against an author who means harm, who would write the manifest as well.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, TypeAdapter, ValidationError

from absa.nodes.assets import data_dir
from absa.schemas.errors import InputError

MANIFEST = "manifest.json"
#: The largest shipped file has 24 MB.
MAX_FILE_BYTES = 512 * 2**20
MAX_UNPACKED_BYTES = 512 * 2**20

_TRAIN = "make the model again with `absa train`"
_INSTALL = "install the package again"
_TRUST = "set backend.trust_model to true if you know where the model comes from"


class Entry(BaseModel, frozen=True):
    """What a manifest has of a file."""

    size: int
    sha256: str


@dataclass(frozen=True)
class ModelFolder:
    """A folder with model files.

    Attributes:
        path: The folder.
        trusted: Whether files are taken that the manifest does not vouch for.
        remedy: What to do about a file that is refused.
    """

    path: Path
    trusted: bool = False
    remedy: str = f"{_TRAIN}, or {_TRUST}"

    def has(self, name: str) -> bool:
        """Whether the folder has a file, or should have it."""
        return (self.path / name).exists() or (not self.trusted and name in self._manifest)

    def read(self, name: str) -> bytes:
        """The content of a file, which is what the manifest says.

        Raises:
            InputError: The file is missing, too large, damaged, or of unknown origin.
        """
        path = self.path / name
        try:
            content = read_bounded(path)
        except OSError as error:
            why = f"{self.path} is an incomplete model: {name} cannot be read ({error.strerror})"
            raise InputError(f"{why}; {self.remedy}") from error
        if not self.trusted:
            self._check(path, content)
        return content

    def check(self) -> None:
        """Read every file that the manifest names.

        Raises:
            InputError: One of them is missing or damaged.
        """
        for name in self._manifest:
            self.read(name)

    def _check(self, path: Path, content: bytes) -> None:
        entry = self._manifest.get(path.name)
        if entry is None:
            raise InputError(f"{path} is not in {self.path / MANIFEST}; {self.remedy}")
        if entry.size != len(content):
            sizes = f"it has {len(content):,} bytes instead of {entry.size:,}"
            raise InputError(f"{path} is damaged: {sizes}; {self.remedy}")
        if entry.sha256 != hashlib.sha256(content).hexdigest():
            raise InputError(
                f"{path} is damaged or was changed: its SHA-256 is not that of {MANIFEST}; "
                f"{self.remedy}"
            )

    @cached_property
    def _manifest(self) -> Mapping[str, Entry]:
        path = self.path / MANIFEST
        try:
            return _entries(path)
        except FileNotFoundError as error:
            why = f"{self.path} has no {MANIFEST}, which says whether its files are undamaged"
            raise InputError(f"{why}; {self.remedy}") from error
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}; {self.remedy}") from error
        except ValidationError as error:
            raise InputError(f"{path} is damaged; {self.remedy}") from error


@cache
def shipped() -> ModelFolder:
    """The folder that comes with the package."""
    return ModelFolder(data_dir("resources") / "models", remedy=_INSTALL)


def record(folder: Path, names: Iterable[str]) -> None:
    """Enter files, as they are now, in the manifest of their folder; others keep their entry."""
    from absa.files import replacing  # with SQLite, which reading a model does not need

    path = folder / MANIFEST
    try:
        entries = dict(_entries(path))
    except (FileNotFoundError, ValidationError):
        entries = {}
    for name in names:
        content = (folder / name).read_bytes()
        entries[name] = Entry(size=len(content), sha256=hashlib.sha256(content).hexdigest())
    rows = {name: entry.model_dump() for name, entry in sorted(entries.items())}
    text = json.dumps(rows, indent=1) + "\n"
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def _entries(path: Path) -> dict[str, Entry]:
    return TypeAdapter(dict[str, Entry]).validate_json(read_bounded(path), strict=True)


def read_bounded(path: Path) -> bytes:
    """The content of a regular file that is not too large to be a model's.

    Raises:
        InputError: It is something else, or too large.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE_BYTES:
            raise InputError(
                f"{path} has {size:,} bytes; a model file has at most {MAX_FILE_BYTES:,}"
            )
        return file.read()


@contextmanager
def read_as(kind: str, path: Path) -> Iterator[None]:
    """Whatever goes wrong in reading a file's bytes is a `ValueError` that names it."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path} is not {kind}: {error} is missing") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        reason = f"{place}: {first['msg']}" if place else first["msg"]
        raise ValueError(f"{path} is not {kind}: {reason}") from error
    except Exception as error:  # zipfile, zlib and numpy raise many kinds for damaged bytes
        raise ValueError(f"{path} is not {kind}: {error}") from error


def arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an `.npz` file, by name.

    Raises:
        ValueError: They would take too much memory, or a number in them is not finite. Damaged
            bytes raise whatever the libraries make of them.
    """
    with ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
    # Nothing is unpacked beyond the size in the directory; other methods do not keep to it.
    if {member.compress_type for member in members} - {ZIP_STORED, ZIP_DEFLATED}:
        raise ValueError("an array is packed by an unknown method")
    size = sum(member.file_size for member in members)
    if size > MAX_UNPACKED_BYTES:
        raise ValueError(f"it unpacks to {size:,} bytes, more than {MAX_UNPACKED_BYTES:,}")
    with np.load(io.BytesIO(content), allow_pickle=False) as data:
        read = dict(data)
    for name, array in read.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} has a number that is not finite")
    return read
