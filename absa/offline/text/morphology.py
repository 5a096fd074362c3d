"""Korean morphemes with offsets, from Kiwi, for any string whatsoever."""

from __future__ import annotations

import re
from functools import cache

from absa.nodes.assets import OwnFiles, own_files
from absa.nodes.morphemes import kiwi
from absa.offline.stopping import watched_closely
from absa.offline.text.annotations import Token
from absa.offline.text.english import EMOTION_RE
from absa.offline.text.lexicon import lexicon

#: Kiwi searches a lattice whose cost grows with the length of an unbroken run.
_PIECE = 160

_NOUNS = ("NNG", "NNP", "XR")
_BREAK = re.compile(r"(?<=[.!?\n])\s+|\n+")
#: A character repeated without end ("가가가…") says nothing after the eighth time.
_RUN = re.compile(r"([^\s])\1{8,}")
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufff0-\uffff]")


def hangul_share(text: str) -> float:
    """Share of Hangul among the letters of a text (of its first 2,000 characters)."""
    letters = [char for char in text[:2000] if char.isalpha()]
    if not letters:
        return 0.0
    return sum("가" <= char <= "힣" or "ㄱ" <= char <= "ㅣ" for char in letters) / len(letters)


def _pieces(text: str) -> list[tuple[int, int]]:
    """Cut a text at sentence ends, and long sentences at spaces, into pieces Kiwi likes."""
    pieces: list[tuple[int, int]] = []
    start = 0
    cuts = [match.end() for match in _BREAK.finditer(text)] + [len(text)]
    for cut in cuts:
        while cut - start > _PIECE:
            space = text.rfind(" ", start + _PIECE // 2, start + _PIECE)
            end = space + 1 if space > 0 else start + _PIECE
            pieces.append((start, end))
            start = end
        if cut > start:
            pieces.append((start, cut))
            start = cut
    return pieces


def tokenize(text: str) -> list[Token]:
    """Split Korean text into morphemes; emoticons and emoji get the tag ``EMO``."""
    # Same length, so offsets hold: what Kiwi cannot take becomes a space.
    safe = _UNSAFE.sub(" ", text)
    safe = _RUN.sub(lambda match: match[1] * 8 + " " * (len(match[0]) - 8), safe)
    safe = _spelled(safe)
    emotions = {match.start(): match.end() for match in EMOTION_RE.finditer(safe)}
    if emotions:
        safe = EMOTION_RE.sub(lambda match: " " * len(match.group()), safe)
    analyser = kiwi()
    tokens = [
        Token(text[start:end], text[start:end], "EMO", start, end)
        for start, end in emotions.items()
    ]
    for offset, end in watched_closely(_pieces(safe)):
        piece = safe[offset:end]
        if not piece.strip():
            continue
        for morpheme in analyser.tokenize(piece):
            start = offset + morpheme.start
            tokens.append(
                Token(
                    morpheme.form,
                    morpheme.lemma,
                    str(morpheme.tag).split("-")[0],
                    start,
                    start + morpheme.len,
                )
            )
    tokens.sort(key=lambda token: token.start)
    return _join_prefixes(tokens)


@cache
def _misspelt(files: OwnFiles) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, lexicon("ko").spellings)) or "(?!)")


def _spelled(text: str) -> str:
    """A text with spellings of haste replaced by their right ones, which are as long."""
    spellings = lexicon("ko").spellings
    return _misspelt(own_files()).sub(lambda match: spellings[match[0]], text)


def _join_prefixes(tokens: list[Token]) -> list[Token]:
    """불 + 친절 is one word, 불친절: half of it means the opposite."""
    joined: list[Token] = []
    for token in tokens:
        before = joined[-1] if joined else None
        if before and before.tag == "XPN" and before.end == token.start and token.tag in _NOUNS:
            form, lemma = before.form + token.form, before.form + token.lemma
            joined[-1] = Token(form, lemma, token.tag, before.start, token.end)
        else:
            joined.append(token)
    return joined
