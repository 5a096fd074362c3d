"""The vectors of Korean morphemes in Kiwi's language model (``kiwipiepy_model``, Apache-2.0).

The model ``cong.mdl`` says by two vectors of each morpheme what comes before it and what comes some
words after it. They are packed: two numbers of four bits in a byte, and for each group of eight of
them a byte with their scale and their zero. Like morphemes have like vectors, so that a word of no
training text is read like others of its kind.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

_HEADER = struct.Struct("<QQHHBBBBQQQQQ")
_GROUP = 8
#: Of how many of the (commonest) morphemes the components are taken.
_SAMPLE = 30_000
_LENGTH = 4.0


def _unpacked(rows: Any, size: int) -> Any:
    """The numbers of packed rows; `size` of them in each."""
    half, groups = size // 2, size // _GROUP
    numbers = np.empty((len(rows), size), np.int16)
    numbers[:, 0::2], numbers[:, 1::2] = rows[:, :half] & 15, rows[:, :half] >> 4
    scale = rows[:, half : half + 2].copy().view(np.float16).astype(np.float32)
    local = rows[:, half + 2 : half + 2 + groups]
    zero = np.repeat((local >> 6).astype(np.int16) + 6, _GROUP, axis=1)
    step = np.repeat((local & 63).astype(np.int16) + 9, _GROUP, axis=1)
    return ((numbers - zero) * step).astype(np.float32) * scale


def _both_vectors() -> Any:
    """A row for each morpheme of Kiwi's: its two vectors side by side.

    Raises:
        ValueError: The model has another form than that of kiwipiepy_model 0.24.
    """
    model = (files("kiwipiepy_model") / "cong.mdl").read_bytes()
    count, contexts, size, _, _, window, bits, group, *_, offset = _HEADER.unpack_from(model)
    content = np.frombuffer(model, np.uint8)
    if (bits, group) != (4, _GROUP) or not window:
        raise ValueError("cong.mdl is packed in another way; take kiwipiepy_model 0.24")
    packed = size // 2 + 2 + size // _GROUP
    begin = offset + contexts * (packed + 6)
    near = content[begin : begin + count * packed].reshape(count, packed)
    begin += count * packed
    far = content[begin : begin + count * (packed + 4)].reshape(count, packed + 4)
    parts = [_unpacked(rows, size) for rows in (near, far)]
    return np.hstack([(part - part.mean(axis=0)) / part.std() for part in parts])


def vectors(width: int) -> Mapping[tuple[str, str], Any]:
    """The vector of each morpheme, cut to its main components, by form and tag."""
    from kiwipiepy import Kiwi

    rows = _both_vectors()
    rows = rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-6) * _LENGTH
    rows = rows - rows.mean(axis=0)
    _, _, components = np.linalg.svd(rows[:_SAMPLE], full_matrices=False)
    rows = rows @ components[:width].T
    rows = rows / rows.std()
    kiwi = Kiwi(load_default_dict=False, load_multi_dict=False, load_typo_dict=False)
    made: dict[tuple[str, str], Any] = {}
    for number, row in enumerate(rows):
        morpheme = kiwi.morpheme(number)
        if morpheme.form:
            made.setdefault((morpheme.form, str(morpheme.tag).split("-")[0]), row)
    return made
