"""Kiwi in a process of its own says what it says in this one, and is not missed when it is gone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from absa.nodes.morphemes import kiwi

TEXTS = ("사용감은 좋지만 가격은 비싸요.", "배우는", "ㅋㅋ 굳", "", "price 는 별로")
ASK = """
import json, multiprocessing, os, signal, sys
from absa.nodes import morphemes
morphemes._PATIENCE_S = float(sys.argv[3])
morphemes.load_in_child_process()
asked = morphemes.kiwi()
children = multiprocessing.active_children()
if sys.argv[1] == "kill":
    children[0].kill()
    children[0].join()
elif sys.argv[1] == "stop":
    os.kill(children[0].pid, signal.SIGSTOP)
elif sys.argv[1] == "stop-later":
    asked.tokenize("가격은")
    os.kill(children[0].pid, signal.SIGSTOP)
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


@pytest.mark.parametrize(
    ("fate", "patience"),
    [("leave", 100.0), ("kill", 100.0), ("stop", 0.5), ("stop-later", 10.0)],
)
def test_another_process_reads_the_same(fate: str, patience: float) -> None:
    done = _asked(ASK, fate, json.dumps(TEXTS), str(patience))
    here = [
        [[[m.form, m.lemma, m.tag, m.start, m.len] for m in found] for found, _ in readings]
        for text in TEXTS
        for readings in [[(kiwi().tokenize(text), 0.0)], kiwi().analyze(text, top_n=3)]
    ]
    assert json.loads(done.stdout) == {"children": 1, "read": here}
    assert done.stderr == ""


LONG = """
import os, signal
from absa.nodes import morphemes
morphemes._PATIENCE_S = 0.5
morphemes.load_in_child_process()
asked = morphemes.kiwi()
os.kill(asked._child.pid, signal.SIGSTOP)
try:
    asked._ask("가" * 2_000_000, 1)
except OSError as error:
    print(type(error).__name__)
"""


def test_a_question_that_a_hanging_process_does_not_take_is_given_up() -> None:
    assert _asked(LONG).stdout.strip() in ("BrokenPipeError", "ConnectionResetError")


UNASKED = """
import os, signal
from absa.nodes import morphemes
morphemes.load_in_child_process()
os.kill(morphemes.kiwi()._child.pid, signal.SIGSTOP)
"""


def test_a_hanging_process_does_not_hold_up_the_end() -> None:
    assert _asked(UNASKED).stdout == ""


def _asked(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=90,
    )
