"""The whole graph against a real model behind llama.cpp's server. `make test-llm` runs this.

The model is tiny and its opinions are poor. What is tested is that everything it says ends as a
value or as a recorded failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_server import SLOTS
from reviews import ENGLISH, KOREAN

from absa.schemas.answers import (
    Answer,
    AteAnswer,
    AteReviewAnswer,
    AtsaAnswer,
    AtsaReviewAnswer,
    ExtractAnswer,
    JudgeAnswer,
    ReviewActionsAnswer,
    TripletsAnswer,
    TurnAnswer,
    ValidatorAnswer,
    read_answer,
)

ANSWERS: dict[str, type[Answer]] = {
    "extract": ExtractAnswer,
    "ate": AteAnswer,
    "atsa": AtsaAnswer,
    "judge": JudgeAnswer,
    "ate_review": AteReviewAnswer,
    "atsa_review": AtsaReviewAnswer,
    **dict.fromkeys(("validator", "validator_review"), ValidatorAnswer),
    **dict.fromkeys(("epm", "tan", "cj"), TurnAnswer),
    **dict.fromkeys(("p_neg", "p_imp", "p_lit"), TripletsAnswer),
    **dict.fromkeys(("review_a", "review_b", "review_c"), ReviewActionsAnswer),
}
# A small model on a slow machine takes its time; a hang still ends.
pytestmark = pytest.mark.timeout(7200)
START_S = 120
# A model of this size may ramble for ever; what is cut off is a case of its own.
MAX_TOKENS = 120
# Reviews of each language, at the most: a debate is ten answers.
EACH = int(os.environ.get("EACH") or 10)


@pytest.fixture(scope="session")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server, in a process of its own: whatever it does, the tests go on."""
    log = tmp_path_factory.mktemp("llama") / "server.log"
    script = Path(__file__).parent / "llama_server.py"
    with log.open("wb") as out:
        server = subprocess.Popen([sys.executable, str(script)], stdout=out, stderr=out)
    try:
        yield _address(server, log)
    finally:
        server.kill()
        server.wait()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + START_S
    while time.monotonic() < until and server.poll() is None:
        for line in log.read_text("utf-8", "replace").splitlines():
            if line.startswith("ready: "):
                return line.removeprefix("ready: ")
        time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def absa(*arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """The command line, as a user calls it."""
    return subprocess.run(
        [sys.executable, "-m", "absa", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "ABSA_CACHE": str(cache)},
        check=False,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    ("protocol", "each"), [("debate", 10), ("single", 10), ("conflict_review", 3)]
)
def test_every_answer_of_a_real_model_is_a_value_or_a_recorded_failure(
    protocol: str, each: int, base_url: str, tmp_path: Path
) -> None:
    rows = [
        {"uid": f"{lang}{n}", "text": text, "lang": lang}
        for lang, texts in (("ko", KOREAN), ("en", ENGLISH))
        for n, text in enumerate(texts[: min(each, EACH)])
    ]
    data, out, cache = tmp_path / "data.jsonl", tmp_path / "run", tmp_path / "answers.db"
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    data.write_text(text + "\n", encoding="utf-8")
    settings = {
        "pipeline.protocol": protocol,
        "backend.kind": "openai",
        "backend.model": "smollm2",
        "backend.base_url": base_url,
        "backend.max_tokens": MAX_TOKENS,
        # Slots are shared, so a call may wait for others to be answered.
        "backend.timeout_s": "300.0",
        "backend.max_concurrency": SLOTS,
    }
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    started = time.monotonic()
    # Few at a time: each that comes at the same moment reads the same long prompt once more.
    ran = absa("run", str(data), "--out", str(out), "--concurrency", "2", *sets, cache=cache)
    seconds = time.monotonic() - started

    assert ran.returncode in (0, 1), ran.stderr
    assert "Traceback" not in ran.stderr
    outputs, errors = lines(out / "outputs.jsonl"), lines(out / "errors.jsonl")
    uids = Counter(line["uid"] for line in outputs + errors)
    assert uids == Counter(row["uid"] for row in rows)
    for error in errors:
        # A failure of the model, with its words; never one of ours, of the server or of time.
        assert error["node"] in ANSWERS and error["attempts"] and error["raw"] is not None, error
        assert not error["reason"].startswith("internal error"), error
        assert "could not be read" in error["reason"], error
    traces = lines(out / "traces.jsonl")
    assert {trace["node"] for trace in traces} <= ANSWERS.keys()
    for trace in traces:
        notes = read_answer(ANSWERS[trace["node"]], trace["output"])[1]
        assert set(notes) <= set(trace["notes"]), trace
        assert trace["usage"]["completion_tokens"] > 0
    # The protocol was carried through, not only tried.
    assert outputs, [error["reason"] for error in errors]
    verified = absa("verify", str(out), cache=cache)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    sys.stdout.write(
        f"\n{protocol}: {len(rows)} samples, {len(outputs)} analyzed, {len(errors)} failed, "
        f"{len(traces)} calls on record, {seconds:.0f} s\n"
    )
