"""English adjectives that name nothing by themselves, derived once from tags and training data.

::

    python -m training.adjectives DATA_DIR resources/patterns

The tags are those of the table of words (`training.words`). Of the adjectives among
them those stay that reviews use and hardly ever annotate as an aspect or as part of one: "interior"
and "pistachio" are too often.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

from absa.offline.models.features import word_classes
from absa.schemas.json_text import parse_json

NAME = "en_adjectives.json"
ABOUT = (
    "Adjectives by the lexicon of Brill's tagger (MIT, see resources/models/README.md) that occur "
    "in the training reviews of MAMS and M-ABSA and are seldom an aspect or part of one there."
)
_FILES = ("mams.jsonl", "mabsa_en.jsonl")
_SEEN = 2
_SHARE = 0.02
_SHARE_AS_PART = 0.25
#: What the embedded analyzer calls an aspect without a name, and nouns with a wrong tag.
_NAMES = frozenset({"overall", "con", "liquid", "perk", "restuarant"})


def derive(train: Path) -> list[str]:
    """The adjectives, in order of the alphabet."""
    seen, named, parts = Counter[str](), Counter[str](), Counter[str]()
    for name in _FILES:
        for line in (train / name).read_text(encoding="utf-8").splitlines():
            row = parse_json(line)
            seen.update(re.findall(r"[a-z]{3,}", row["text"].lower()))
            terms = {a["from"]: a["term"].lower() for a in row["aspects"] if a["term"]}.values()
            named.update(terms)
            parts.update(word for term in terms for word in re.findall(r"[a-z]{3,}", term))
    return sorted(
        word
        for word, (_, tag) in word_classes().items()
        if tag == "JJ"
        and seen[word] >= _SEEN
        and named[word] < _SHARE * seen[word]
        and parts[word] < _SHARE_AS_PART * seen[word]
        and word not in _NAMES
    )


def main(data: str, out: str) -> None:
    """Write the list."""
    content = {"about": ABOUT, "words": derive(Path(data) / "train")}
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    (Path(out) / NAME).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
