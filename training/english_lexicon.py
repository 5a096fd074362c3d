"""Writes the English expressions of ``training/data/en_*.txt`` into the lexicon.

``python -m training.english_lexicon`` (then train the models that read the lexicon again).
"""

from __future__ import annotations

import json
from pathlib import Path

from absa.offline.text.english import tokenize
from absa.schemas.json_text import parse_json
from training.everyday_data import DATA

LEXICON = Path("resources/lexicons/en.json")
CONTEXT = "en_context.txt"


def expressions() -> dict[str, float]:
    """Each expression with its score, as the tokenizer reads it."""
    scores: dict[str, float] = {}
    score = 0.0
    for line in (DATA / "en_expressions.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            score = float(line.strip("[]"))
        elif line and not line.startswith("#"):
            for expression in filter(None, map(str.strip, line.split(","))):
                words = " ".join(token.lemma for token in tokenize(expression))
                scores.setdefault(words, score)
    return scores


def context() -> dict[str, dict[str, float]]:
    """Words whose score depends on a noun: word, noun, score."""
    signs: dict[str, dict[str, float]] = {}
    for line in (DATA / CONTEXT).read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        words, groups = line.split(":")
        for group in groups.split(";"):
            score, *nouns = group.split()
            for word in words.split(","):
                signs.setdefault(word.strip(), {}).update(dict.fromkeys(nouns, float(score)))
    return signs


def main() -> None:
    """Add what the lexicon does not have yet."""
    lexicon = parse_json(LEXICON.read_text("utf-8"))
    for word, nouns in context().items():
        own = lexicon["context"].setdefault(word, {})
        lexicon["context"][word] = nouns | own
    for words, score in expressions().items():
        part = "phrases" if " " in words else "opinions"
        lexicon[part].setdefault(words, score)
    for part in ("opinions", "phrases"):
        lexicon[part] = dict(sorted(lexicon[part].items()))
    LEXICON.write_text(json.dumps(lexicon, ensure_ascii=False, indent=0) + "\n", "utf-8")


if __name__ == "__main__":
    main()
