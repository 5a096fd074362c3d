"""Atomic file writes: a reader sees the old content or the new one, never a part."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from absa.database import CHECK_PLACE, StorageError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file for the new content of `path`, and rename it at the end.

    A symbolic link is kept and its target is replaced. A device or FIFO is written to directly,
    because a regular file must not replace it.

    Raises:
        StorageError: The file cannot be written. The old content is still there.
    """
    part: Path | None = None
    try:
        if _is_special(path):
            with path.open("wb") as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        part = target.with_name(f"{target.name}.part")
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as error:
        if part is not None:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        raise StorageError(path, error.strerror, CHECK_PLACE) from error


def _is_special(path: Path) -> bool:
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False
