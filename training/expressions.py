"""Puts the hand-written Korean expressions of `training/data` into the lexicon.

``python -m training.expressions`` has Kiwi analyze the dictionary forms, so that they are found in
texts by the morphemes that Kiwi finds there. What the lexicon has beside them stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from absa.offline.text.morphology import tokenize
from absa.offline.text.opinions import CONTENT
from absa.schemas.json_text import parse_json

DATA = Path(__file__).parent / "data"
LEXICON = Path(__file__).parent.parent / "resources" / "lexicons" / "ko.json"
#: What says that something bad is absent or gets less.
ABSENCE = (
    "없다 없어지다 사라지다 적다 줄다 줄어들다 덜하다 덜 "
    "방지 제로 감소 막다 개선 해결 차단 완화 제거"
)
#: What Kiwi leaves of an expression, where it is said in other senses as well.
_NO_PHRASES = frozenset(
    (
        "별 개,기대 것,전 못,얼마 못 가다 다,뒤꿈치 다,개 주다,산 가다,또 살다 것,다 하다,"
        "다 남기다,물 빠지다,문 닫다,보다 만,끝 듣다,역 가깝다,두 번 아니다"
    ).split(",")
)
#: A bare verb of existence judges nothing by itself.
_NO_OPINION = frozenset({"있다", "하다", "되다", "나다", "주다", "보다", "들다", "이다", "같다"})


def sections(path: Path) -> Iterator[tuple[float, str]]:
    """The lines of a file, each with the score of its section."""
    score = 0.0
    for line in path.read_text("utf-8").splitlines():
        head = re.fullmatch(r"\[(-?[\d.]+)\]", line)
        if head:
            score = float(head[1])
        elif line and not line.startswith("#"):
            yield score, line


def lemmas(expression: str) -> tuple[tuple[str, ...], bool]:
    """The content morphemes of an expression, and whether an auxiliary verb negates it."""
    tokens = tokenize(expression)
    negated = any(token.tag == "VX" and token.lemma in ("않다", "못하다") for token in tokens)
    return tuple(token.lemma for token in tokens if token.tag in CONTENT), negated


def add_expressions(lexicon: dict[str, Any]) -> None:
    """Put expressions into opinions and phrases."""
    for score, line in sections(DATA / "ko_expressions.txt"):
        for expression in filter(None, map(str.strip, line.split(","))):
            words, negated = lemmas(expression)
            # The rule of negation reads "나쁘지 않다" itself.
            if not words or negated:
                continue
            if " ".join(words) in _NO_PHRASES:
                continue
            if len(words) > 1:
                lexicon["phrases"][" ".join(words)] = score
            elif words[0] not in _NO_OPINION and score and len(words[0]) > 1:
                root = words[0].removesuffix("하다")
                lexicon["opinions"][root if len(root) > 1 else words[0]] = score


def add_context(lexicon: dict[str, Any]) -> None:
    """Put the words whose sign depends on a noun into the lexicon."""
    for _, line in sections(DATA / "ko_context.txt"):
        word, _, rest = line.partition(":")
        options: dict[str, float] = {}
        for group in rest.split(";"):
            score, *nouns = group.split()
            options.update(dict.fromkeys(nouns, float(score)))
        lexicon["opinions"].pop(word, None)
        lexicon["context"][word] = {**lexicon["context"].get(word, {}), **options}


def add_presence(lexicon: dict[str, Any]) -> None:
    """Put the nouns that are good or bad by being there into the lexicon."""
    presence = {}
    for score, line in sections(DATA / "ko_presence.txt"):
        for noun in line.split():
            tokens = tokenize(noun)
            # A part that Kiwi takes for a verb shows that it does not know the noun.
            whole = all(token.tag[0] in "NXS" for token in tokens)
            presence[" ".join(token.lemma for token in tokens) if whole else noun] = score
    for noun in (noun for noun, score in presence.items() if score < 0):
        lexicon["opinions"].pop(noun, None)
        lexicon["phrases"].pop(noun, None)
    lexicon["presence"] = dict(sorted(presence.items()))


def add_spellings(lexicon: dict[str, Any]) -> None:
    """Put the spellings of haste into the lexicon."""
    lines = (line for _, line in sections(DATA / "ko_spellings.txt"))
    pairs = dict(pair.split() for line in lines for pair in line.split(";"))
    assert all(len(wrong) == len(right) for wrong, right in pairs.items())
    lexicon["spellings"] = pairs


def main() -> None:
    """Write the lexicon."""
    lexicon = parse_json(LEXICON.read_text("utf-8"))
    add_expressions(lexicon)
    add_context(lexicon)
    add_presence(lexicon)
    add_spellings(lexicon)
    lexicon["opinions"]["없다"] = -0.5
    lexicon["absence"] = ABSENCE.split()
    for key in ("opinions", "phrases", "context"):
        lexicon[key] = dict(sorted(lexicon[key].items()))
    LEXICON.write_text(json.dumps(lexicon, ensure_ascii=False, indent=0) + "\n", "utf-8")


if __name__ == "__main__":
    main()
