"""English adjectives that name nothing by themselves, derived once from tags and training data.

::

    python -m absa.offline.training.adjectives DATA_DIR resources/patterns

The tags are those of the table of words (`absa.offline.training.words`). Of the adjectives among
them those stay that reviews use and hardly ever annotate as an aspect: "interior" is one too often.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

from absa.offline.features import word_classes

NAME = "en_adjectives.json"
ABOUT = (
    "Adjectives by the lexicon of Brill's tagger (MIT, see resources/models/README.md) that occur "
    "in the training reviews of MAMS and M-ABSA and are hardly ever an aspect there."
)
_FILES = ("mams.jsonl", "mabsa_en.jsonl")
_SEEN = 2
_SHARE = 0.02
#: What the embedded analyser calls an aspect without a name.
_NAMES = frozenset({"overall"})


def derive(train: Path) -> list[str]:
    """The adjectives, in order of the alphabet."""
    seen, named = Counter[str](), Counter[str]()
    for name in _FILES:
        for line in (train / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            seen.update(re.findall(r"[a-z]{3,}", row["text"].lower()))
            named.update(a["term"].lower() for a in row["aspects"] if a["term"])
    return sorted(
        word
        for word, (_, tag) in word_classes().items()
        if tag == "JJ"
        and seen[word] >= _SEEN
        and named[word] < _SHARE * seen[word]
        and word not in _NAMES
    )


def main(data: str, out: str) -> None:
    """Write the list."""
    content = {"about": ABOUT, "words": derive(Path(data) / "train")}
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    (Path(out) / NAME).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
