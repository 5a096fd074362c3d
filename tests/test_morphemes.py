"""Kiwi in a process of its own says what it says in this one, and is not missed when it is gone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from nodes.morphemes import kiwi

TEXTS = ("사용감은 좋지만 가격은 비싸요.", "배우는", "ㅋㅋ 굳", "", "price 는 별로")
ASK = """
import json, multiprocessing, sys
from nodes import morphemes
morphemes.load_aside()
asked = morphemes.kiwi()
children = multiprocessing.active_children()
if sys.argv[1] == "kill":
    children[0].kill()
    children[0].join()
read = [
    [[(m.form, m.lemma, m.tag, m.start, m.len) for m in found] for found, _ in readings]
    for text in json.loads(sys.argv[2])
    for readings in [[(asked.tokenize(text), 0.0)], asked.analyze(text, top_n=3)]
]
print(json.dumps({"children": len(children), "read": read}))
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere Kiwi is loaded in this process"
)


@pytest.mark.parametrize("fate", ["leave", "kill"])
def test_another_process_reads_the_same(fate: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK, fate, json.dumps(TEXTS)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    here = [
        [[[m.form, m.lemma, m.tag, m.start, m.len] for m in found] for found, _ in readings]
        for text in TEXTS
        for readings in [[(kiwi().tokenize(text), 0.0)], kiwi().analyze(text, top_n=3)]
    ]
    assert json.loads(done.stdout) == {"children": 1, "read": here}
    assert done.stderr == ""
