"""The English encoder: a small transformer that reads a text once for all learned answers.

One pass gives for each piece of a word what it says about aspect tags and about the polarity and
the category of an aspect that it is part of, and for the text its label, what it judges without
naming it, and the category of that. Most weights are bytes (`encoder_en.onnx`, made by
``training/encoder.py``) and run in onnxruntime on one thread. Nothing changes after loading,
so one encoder may serve many threads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from absa.offline.models import folder
from absa.offline.models.network import LABELS as TAGS
from absa.offline.models.network import softmax
from absa.offline.models.wordpiece import WordPiece, chunks
from absa.offline.stopping import watched_closely
from absa.offline.text.annotations import CategoryScores, Encoded, View

Array = npt.NDArray[np.float32]
#: Columns of the output for pieces: the tags, the three polarities of an aspect, its categories.
_TAGS = len(TAGS)
#: Columns of the output for texts: polarities of an aspect, four labels, unnamed judgements, then
#: categories of an aspect and, as many, of an unnamed judgement.
_LABELS, _UNNAMED, _CATEGORIES = slice(3, 7), slice(7, 10), 10
_TINY = 1e-4
#: The name under which the file holds the pieces of words, one a line.
PIECES = "pieces"
#: The name under which it holds the categories, one a line, each after its domain and a tab. Files
#: that were made before there were any hold none.
CATEGORIES = "categories"


class Encoder:
    """Reads English texts. May be shared between threads."""

    def __init__(self, content: bytes) -> None:
        """Take a model file's content."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session: Any = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
        metadata = self._session.get_modelmeta().custom_metadata_map
        self._pieces = WordPiece(metadata[PIECES].split("\n"))
        self._categories = tuple(
            (domain, name)
            for domain, _, name in (
                line.partition("\t") for line in metadata.get(CATEGORIES, "").splitlines()
            )
        )

    @classmethod
    def read(cls, content: bytes, path: Path) -> Encoder:
        """Take a model file's content.

        Raises:
            ValueError: if the file is not an encoder.
        """
        with folder.read_as("an encoder", path):
            return cls(content)

    def encoded(self, view: View) -> View:
        """The text with what the encoder says about it."""
        if not view.tokens:
            return view
        numbers, starts = self._pieces.pieces(view.tokens)
        pieces, texts, sizes = [], [], []
        for first, last in watched_closely(chunks(view, starts)):
            begin, end = starts[first], starts[last]
            ids = np.array([[numbers[0], *numbers[begin:end], numbers[-1]]], np.int64)
            of_pieces, of_text = self._session.run(None, {"ids": ids})
            pieces.append(of_pieces[1:-1])
            texts.append(of_text)
            sizes.append(end - begin)
        whole = np.average(texts, axis=0, weights=sizes)
        rows = np.concatenate(pieces)
        tags = softmax(rows[[start - 1 for start in starts[:-1]], :_TAGS])
        # What the whole piece of text adds to the polarity and the category of an aspect in it.
        last = _CATEGORIES + len(self._categories)
        context = np.concatenate(
            [np.stack(texts)[:, :3], np.stack(texts)[:, _CATEGORIES:last]], axis=1
        )
        scores = rows[:, _TAGS:] + np.repeat(context, sizes, axis=0)
        labels = softmax(whole[_LABELS])
        return replace(
            view,
            encoded=Encoded(
                first=tuple(token.start for token in view.tokens),
                pieces=tuple(start - 1 for start in starts),
                tags=tags,
                polarities=scores[:, :3],
                labels=tuple(labels.tolist()),
                unnamed=tuple(1 / (1 + np.exp(-whole[_UNNAMED]))),
                category_names=self._categories,
                categories=scores[:, 3:],
                text_categories=whole[last:],
            ),
        )


def tags_of(view: View) -> Array | None:
    """The probabilities of the aspect tags for the tokens of a text, or of a piece of one."""
    if view.encoded is None:
        return None
    first = bisect_left(view.encoded.first, view.tokens[0].start)
    return view.encoded.tags[first : first + len(view.tokens)]


def aspect_scores(view: View, start: int, end: int) -> Array | None:
    """The scores of the polarities of the aspect at characters ``[start, end)``."""
    if view.encoded is None or end <= start:
        return None
    scores: Array = view.encoded.polarities[pieces_of(view.encoded, start, end)].mean(axis=0)
    return scores


def category_scores(
    encoded: Encoded | None, places: Iterable[tuple[int, int]]
) -> CategoryScores | None:
    """What the encoder says about the categories of the aspects at these characters."""
    if encoded is None or not encoded.category_names:
        return None
    rows = encoded.categories
    return CategoryScores(
        encoded.category_names,
        {place: rows[pieces_of(encoded, *place)].mean(axis=0) for place in places},
        encoded.text_categories,
    )


def pieces_of(encoded: Encoded, start: int, end: int) -> slice:
    """The rows of the pieces of the aspect at characters ``[start, end)``."""
    first = max(0, bisect_right(encoded.first, start) - 1)
    last = max(first + 1, bisect_left(encoded.first, end))
    return slice(encoded.pieces[first], encoded.pieces[last])


def text_scores(view: View) -> Array | None:
    """The scores of the polarities of the text as a whole; a mixed one is half each."""
    if view.encoded is None:
        return None
    positive, negative, neutral, mixed = view.encoded.labels
    shares = np.array([positive + mixed / 2, negative + mixed / 2, neutral], np.float32)
    scores: Array = np.log(np.maximum(shares, _TINY))
    return scores
