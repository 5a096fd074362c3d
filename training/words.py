"""The table of English word classes and tags, derived once from two packages under MIT licence.

The classes are the Brown clusters of ``spacy-lookups-data``, the tags those of the Brill tagger's
lexicon in ``textblob``; both packages are needed only to make the table anew::

    pip download --no-deps spacy-lookups-data==1.0.5 textblob==0.20.1
    python -m training.words WHEEL_OF_SPACY WHEEL_OF_TEXTBLOB resources/models
"""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from pathlib import Path

from absa.offline.models.folder import record

NAME = "words_en.json.gz"
_FREQUENT = 40_000


def derive(spacy_wheel: Path, textblob_wheel: Path) -> dict[str, tuple[int, str]]:
    """Words with class number (0 for none) and usual tag ("" for unknown)."""
    with zipfile.ZipFile(spacy_wheel) as wheel:
        folder = "spacy_lookups_data/data/en_lexeme_"
        classes: dict[str, int] = json.loads(
            gzip.decompress(wheel.read(f"{folder}cluster.json.gz"))
        )
        likely: dict[str, float] = json.loads(gzip.decompress(wheel.read(f"{folder}prob.json.gz")))
    with zipfile.ZipFile(textblob_wheel) as wheel:
        lines = wheel.read("textblob/en/en-lexicon.txt").decode("utf-8").splitlines()
    tags = _tags(lines)
    words: dict[str, tuple[int, str]] = {}
    for word, _ in sorted(likely.items(), key=lambda item: (-item[1], item[0])):
        if word == word.lower() and word[0].isalpha() and (classes.get(word) or word in tags):
            words[word] = classes.get(word, 0), tags.get(word, "")
        if len(words) == _FREQUENT:
            break
    for word, tag in tags.items():
        if word.isalpha():
            words.setdefault(word, (classes.get(word, 0), tag))
    return dict(sorted(words.items()))


def _tags(lines: list[str]) -> dict[str, str]:
    """The first tag of each word; a word written small goes before one written large."""
    entries = [line.split() for line in lines if not line.startswith(";;;")]
    known = [(entry[0], entry[1]) for entry in entries if len(entry) > 1]
    tags: dict[str, str] = {}
    for word, tag in sorted(known, key=lambda item: item[0] != item[0].lower()):
        tags.setdefault(word.lower(), tag)
    return tags


def main(spacy_wheel: str, textblob_wheel: str, out: str) -> None:
    """Write the table."""
    words = derive(Path(spacy_wheel), Path(textblob_wheel))
    content = json.dumps(words, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    (Path(out) / NAME).write_bytes(gzip.compress(content, mtime=0))
    record(Path(out), [NAME])


if __name__ == "__main__":
    main(*sys.argv[1:])
