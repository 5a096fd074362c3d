"""Sentences rated by people: the data of VADER, in the source archive of ``vaderSentiment``.

Some 23,700 tweets and sentences of film reviews, product reviews and newspapers, each with the mean
of twenty ratings from -4 to 4 (Hutto and Gilbert, 2014; MIT licence). `sentences` yields the 21,800
with a clear rating. ``pip download --no-deps
--no-binary :all: vaderSentiment==3.3.2`` gets the archive. The project does not hold it.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from absa.offline.text.annotations import NEGATIVE, NEUTRAL, POSITIVE

_DATA = "additional_resources/hutto_ICWSM_2014.tar.gz"
_KINDS = ("tweets", "movieReviewSnippets", "amazonReviewSnippets", "nytEditorialSnippets")
#: From which mean rating a sentence is one of praise or blame, and up to which one it is neither.
_CLEAR, _NEITHER = 0.6, 0.3
#: What the makers put in place of names and addresses.
_PLACEHOLDERS = re.compile(r"@anonymous|http://url_removed")


def sentences(archive: Path) -> Iterator[tuple[str, str]]:
    """The clear sentences, each with its label; those between two labels are left out."""
    with tarfile.open(archive) as outer:
        inner = next(name for name in outer.getnames() if name.endswith(_DATA))
        content = _content(outer, inner)
    with tarfile.open(fileobj=BytesIO(content)) as files:
        for kind in _KINDS:
            name = next(n for n in files.getnames() if n.endswith(f"{kind}_GroundTruth.txt"))
            for line in _content(files, name).decode("utf-8").splitlines():
                _, mean, text = line.split("\t")
                label = _label(float(mean))
                if label is not None:
                    yield _PLACEHOLDERS.sub("", text).strip(), label


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is not a file in the archive")
    return file.read()


def _label(mean: float) -> str | None:
    if abs(mean) <= _NEITHER:
        return NEUTRAL
    if abs(mean) < _CLEAR:
        return None
    return POSITIVE if mean > 0 else NEGATIVE
