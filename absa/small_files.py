"""Reads files with a size limit: settings, prices, lines of answers.

Separate from `files`, because this module must import quickly.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

SMALL = 16_000_000


def bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file with a limit on their length.

    Raises:
        OSError: A line has more than 16 MB.
    """
    number = 0
    while line := file.readline(SMALL + 1):
        number += 1
        if len(line) > SMALL:
            reason = f"line {number} has more than {SMALL // 1_000_000} MB"
            raise OSError(errno.EFBIG, reason, getattr(file, "name", "the input"))
        yield line


def read_small(path: Path) -> bytes:
    """Read a small file, such as settings. The limit guards against endless devices.

    Raises:
        OSError: It cannot be read, or it has more than 16 MB.
    """
    with path.open("rb") as file:
        content = file.read(SMALL + 1)
    if len(content) > SMALL:
        raise OSError(errno.EFBIG, f"more than {SMALL // 1_000_000} MB", str(path))
    return content


def visible_files(folder: Path) -> list[Path]:
    """The files of a folder. Hidden ones (`.git`, `.DS_Store`) belong to other programs."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(
        p for p in files if not any(n.startswith(".") for n in p.relative_to(folder).parts)
    )
