"""Reading what a person writes: settings, prices. Apart from `files`, to be imported quickly."""

from __future__ import annotations

import errno
from pathlib import Path

SMALL = 16_000_000


def read_small(path: Path) -> bytes:
    """The content of a file that a person writes, such as settings; never an endless device.

    Raises:
        OSError: It cannot be read, or it has more than 16 MB.
    """
    with path.open("rb") as file:
        content = file.read(SMALL + 1)
    if len(content) > SMALL:
        raise OSError(errno.EFBIG, f"more than {SMALL // 1_000_000} MB", str(path))
    return content
