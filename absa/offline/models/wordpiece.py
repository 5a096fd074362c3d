"""Words in the pieces that the encoder knows (WordPiece, lower case, without accents)."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache

from absa.offline.text.annotations import Token, View
from absa.offline.text.lexicon import lexicon

CLS, SEP, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
#: The encoder reads at most this many pieces at once.
MAX_PIECES = 160
_MAX_WORD = 60
#: The encoder was trained without emoji: it reads what the lexicon holds of them.
_EMOTION = {True: "happy", False: "sad"}


class WordPiece:
    """Splits tokens into the numbers of their pieces; may be shared between threads."""

    def __init__(self, pieces: Sequence[str]) -> None:
        """Take the vocabulary, in the order of the embedding rows."""
        self._numbers: Mapping[str, int] = {piece: i for i, piece in enumerate(pieces)}
        self.first, self.last = self._numbers[CLS], self._numbers[SEP]
        self._unknown = self._numbers[UNKNOWN]
        self._word = lru_cache(maxsize=30_000)(self._split)

    def pieces(self, tokens: Sequence[Token]) -> tuple[list[int], list[int]]:
        """The numbers of the pieces of a text, and where the pieces of each token begin.

        The first list begins with `[CLS]` and ends with `[SEP]`. The second one has an entry more
        than there are tokens.
        """
        numbers, starts = [self.first], []
        for token in tokens:
            starts.append(len(numbers))
            numbers.extend(self._word(token.form, token.tag))
        starts.append(len(numbers))
        numbers.append(self.last)
        return numbers, starts

    def _split(self, form: str, tag: str) -> tuple[int, ...]:
        if tag == "EMO":
            emotions = lexicon("en").emotions
            score = emotions.get(form) or emotions.get(form[:2], 0.0)
            form = _EMOTION[score > 0] if score else form
        plain = unicodedata.normalize("NFD", form[:_MAX_WORD].lower())
        pieces: list[int] = []
        word = ""
        for letter in plain:
            if unicodedata.category(letter) == "Mn":
                continue
            if letter.isalnum():
                word += letter
                continue
            pieces += self._longest_first(word)
            pieces += self._longest_first(letter)
            word = ""
        pieces += self._longest_first(word)
        return tuple(pieces) or (self._unknown,)

    def _longest_first(self, word: str) -> list[int]:
        pieces: list[int] = []
        begin = 0
        while begin < len(word):
            for end in range(len(word), begin, -1):
                number = self._numbers.get(("##" if begin else "") + word[begin:end])
                if number is not None:
                    pieces.append(number)
                    begin = end
                    break
            else:
                return [self._unknown]
        return pieces


def chunks(view: View, starts: Sequence[int]) -> list[tuple[int, int]]:
    """A text as runs of tokens of at most `MAX_PIECES` pieces each."""
    found, first = [], 0
    for token in range(len(view.tokens)):
        if starts[token + 1] - starts[first] > MAX_PIECES - 2 and token > first:
            found.append((first, token))
            first = token
    return [*found, (first, len(view.tokens))]
