"""The real command, killed, interrupted and starved: the next start finishes the run.

`absa run` talks to an OpenAI-compatible server in a process of its own, which writes down every
call. Starting the command costs seconds (its libraries are large), so only the kills of
`test_killed_command…` start it from the shell; the others fork it from a process that has
everything imported, and call the same entry point.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from answer_server import answering

HERE = Path(__file__).parent
COMMAND = Path(sys.executable).with_name("absa")
DELAY_S = 0.01
SAMPLES = 14
IN_FLIGHT = 3
KILLS = 3
# The calls of one wave are asked when those of the wave before are answered and stored.
WAVES = {
    **dict.fromkeys(("ate", "atsa", "validator"), 0),
    **{"epm": 1, "tan": 2, "cj": 3, "judge": 4},
    **dict.fromkeys(("ate_review", "atsa_review"), 5),
    "validator_review": 6,
}
WIDEST_WAVE = 3
# A call that was answered in the moment of a crash is paid for twice, and both are spent.
TIMINGS = re.compile(
    rb'"(latency_ms|updated_at|elapsed_s|run_id|spent)": ?("[^"]*"|[-+.e\d]+|\{\n[^}]*\})'
)
MODES = {"shared cache": [], "no cache": ["--no-cache"]}

# One server process for all tests of a worker: whoever comes first says what it imports.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["absa.cli.run", "absa.cli.progress", "absa.backends.openai"])


class Server:
    """The server's log of calls, read on as it grows."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self._log = log
        self._read = 0
        self._asked: dict[str, list[str]] = {}

    def calls(self, *starts: str) -> list[str]:
        """The prompts of the calls of some starts, in the order they came."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if line.endswith(b"\n"):
                    self._read += len(line)
                    call = json.loads(line)
                    self._asked.setdefault(call["start"], []).append(call["prompt"])
        return [prompt for start in starts for prompt in self._asked.get(start, [])]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("server") / "calls.jsonl"
    with answering(log, "--delay", str(DELAY_S), "--dead", "dead") as url:
        yield Server(url, log)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("데이터 폴더")
    path = folder / "리뷰 모음 (첫 번째).jsonl"
    write_data(path, SAMPLES)
    folder.chmod(0o555)
    return path


def write_data(path: Path, size: int) -> None:
    rows = [
        {"uid": f"리뷰/{n}", "text": f"dish{n} tasted somehow bland{n}", "lang": "en"}
        for n in range(size)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


class Start:
    """One start of `absa run`; its name is the key it sends, so that the server knows it."""

    def __init__(self, server: Server, folder: Path, name: str, *args: str) -> None:
        self.name = name
        self.server = server
        self.args = [
            *("run", *args, "--concurrency", str(IN_FLIGHT)),
            *("--set", "backend.kind=openai", "--set", "backend.model=answers"),
            *("--set", f"backend.base_url={server.url}"),
        ]
        self.env = {"OPENAI_API_KEY": name, "ABSA_CACHE": str(folder / "답 캐시.db")}
        self.errors = folder / f"{name}.stderr"

    def wait_for_calls(self, count: int) -> None:
        end = time.monotonic() + 300
        while len(self.server.calls(self.name)) < count and self.alive():
            assert time.monotonic() < end, f"no {count} calls: {self.said()}"
            time.sleep(0.005)

    def said(self) -> str:
        return self.errors.read_text(encoding="utf-8")

    def alive(self) -> bool:
        raise NotImplementedError

    def send(self, number: int) -> None:
        raise NotImplementedError

    def wait(self) -> int:
        raise NotImplementedError


class Shell(Start):
    """Started as a user does."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [str(COMMAND), *self.args],
                env={**os.environ, **self.env},
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    def alive(self) -> bool:
        return self.process.poll() is None

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(timeout=120)


class Fork(Start):
    """The same entry point in a process that has its imports behind it."""

    def __init__(self, *args: Any, file_size: int | None = None) -> None:
        super().__init__(*args)
        self.errors.touch()
        self.process = FORKS.Process(
            target=_call, args=(self.args, self.env, str(self.errors), file_size)
        )
        self.process.start()

    def alive(self) -> bool:
        return self.process.is_alive()

    def send(self, number: int) -> None:
        assert self.process.pid
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        self.process.join(timeout=120)
        assert self.process.exitcode is not None, f"it hangs: {self.said()}"
        return self.process.exitcode


def _call(args: Sequence[str], env: Mapping[str, str], errors: str, file_size: int | None) -> None:
    os.environ.update(env)
    sys.stderr = io.TextIOWrapper(open(errors, "ab", buffering=0), write_through=True)
    sys.stdout = io.StringIO()
    if file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    from absa.cli import main

    main(args)


def artefacts(out: Path) -> dict[str, bytes]:
    """What a run leaves for its reader, less what a clock or a die wrote into it."""
    files = [f for f in out.iterdir() if f.suffix in (".jsonl", ".json", ".csv")]
    return {f.name: TIMINGS.sub(rb'"\1": 0', f.read_bytes()) for f in files}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True)
class Calm:
    """A run that nobody disturbed."""

    files: dict[str, bytes]
    # Whose call a prompt is, and of which wave.
    prompts: dict[str, tuple[str, int]]


@pytest.fixture(scope="module")
def calm(server: Server, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Calm:
    folder = tmp_path_factory.mktemp("calm")
    start = Fork(server, folder, "calm", str(data), "--out", str(folder / "run"))
    assert start.wait() == 0, start.said()
    traces = lines(folder / "run" / "traces.jsonl")
    assert len(traces) == SAMPLES * 10
    prompts = {t["prompt_sha256"]: (t["uid"], WAVES[t["node"]]) for t in traces}
    assert sorted(server.calls("calm")) == sorted(prompts)
    return Calm(artefacts(folder / "run"), prompts)


def assert_nothing_asked_twice(calls: Sequence[str], calm: Calm, kills: int) -> None:
    """Only a call that was under way at a kill may be asked again."""
    assert set(calls) == set(calm.prompts)
    last = {prompt: n for n, prompt in enumerate(calls)}
    first = {prompt: n for n, prompt in reversed(list(enumerate(calls)))}
    for prompt, (uid, wave) in calm.prompts.items():
        later = [first[p] for p, (u, w) in calm.prompts.items() if u == uid and w > wave]
        # Once the next agent was asked, this one's answer was safe.
        assert all(last[prompt] < n for n in later), f"{uid}, wave {wave}: asked again"
    assert len(calls) - len(last) <= kills * IN_FLIGHT * WIDEST_WAVE


def kill_at_random(launch: Callable[[str], Start], kills: int, rng: random.Random) -> list[str]:
    """Start and kill, so many times, then let it finish; the names of the starts."""
    names = []
    for n in range(kills + 1):
        start = launch(f"start-{n}")
        names.append(start.name)
        if n == kills:
            assert start.wait() == 0, start.said()
        elif rng.random() < 0.1:
            time.sleep(rng.uniform(0, 0.5))  # perhaps before it has begun
            start.send(signal.SIGKILL)
            start.wait()
        else:
            start.wait_for_calls(rng.randint(1, 9))
            time.sleep(rng.uniform(0, 4 * DELAY_S))
            assert start.alive(), f"nothing left to kill: {start.said()}"
            start.send(signal.SIGKILL)
            assert start.wait() == -signal.SIGKILL
    return names


@pytest.mark.parametrize("how", MODES)
def test_killed_command_finishes_as_if_nothing_had_happened(
    server: Server, data: Path, calm: Calm, tmp_path: Path, how: str
) -> None:
    out = tmp_path / "실행 결과 1"
    args = (str(data), "--out", str(out), *MODES[how])
    marker = how.replace(" ", "-")

    names = kill_at_random(
        lambda name: Shell(server, tmp_path, f"{marker}-{name}", *args),
        KILLS,
        random.Random(marker),
    )

    assert artefacts(out) == calm.files
    assert_nothing_asked_twice(server.calls(*names), calm, kills=KILLS)
    assert not list(out.glob("*.part"))


def test_interrupted_command_finishes_what_is_under_way_and_asks_nothing_twice(
    server: Server, data: Path, calm: Calm, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    names = []
    for number in (signal.SIGINT, signal.SIGTERM):
        start = Fork(server, tmp_path, f"drain-{number}", str(data), "--out", str(out))
        start.wait_for_calls(12)
        start.send(number)
        assert start.wait() == 1
        assert "finishing the samples under way" in start.said()
        names.append(start.name)
        manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["status"] == "unfinished"
        assert manifest["counts"]["done"] == len(lines(out / "outputs.jsonl")) > 0

    last = Fork(server, tmp_path, "drain-last", str(data), "--out", str(out))
    assert last.wait() == 0, last.said()

    assert artefacts(out) == calm.files
    assert sorted(server.calls(*names, last.name)) == sorted(calm.prompts)


@pytest.mark.parametrize("how", MODES)
def test_second_interrupt_stops_at_once_and_loses_no_answer(
    server: Server, data: Path, calm: Calm, tmp_path: Path, how: str
) -> None:
    out = tmp_path / "run"
    args = (str(data), "--out", str(out), *MODES[how])
    start = Fork(server, tmp_path, f"stop-{how}", *args)
    start.wait_for_calls(17)
    start.send(signal.SIGINT)
    time.sleep(0.02)
    start.send(signal.SIGINT)
    assert start.wait() == 1
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["status"] == "unfinished"
    assert manifest["counts"]["done"] == len(lines(out / "outputs.jsonl"))
    assert "Traceback" not in start.said()

    last = Fork(server, tmp_path, f"stop-{how}-last", *args)
    assert last.wait() == 0, last.said()

    assert artefacts(out) == calm.files
    assert_nothing_asked_twice(server.calls(start.name, last.name), calm, kills=1)


def test_second_process_is_refused_and_the_first_goes_on(
    server: Server, data: Path, calm: Calm, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    first = Fork(server, tmp_path, "first", str(data), "--out", str(out))
    first.wait_for_calls(1)
    second = Fork(server, tmp_path, "second", str(data), "--out", str(out))
    assert second.wait() == 2
    assert "another process is running in" in second.said()
    assert first.wait() == 0, first.said()
    assert artefacts(out) == calm.files
    assert server.calls("second") == []


# Room for the first journal page only, for half of the records, for all but an artefact.
@pytest.mark.parametrize(
    ("how", "room"), [("shared cache", 30_000), ("no cache", 90_000), ("no cache", 100_000)]
)
def test_full_disk_ends_with_a_message_and_the_next_start_finishes(
    server: Server, data: Path, calm: Calm, tmp_path: Path, how: str, room: int
) -> None:
    out = tmp_path / "run"
    args = (str(data), "--out", str(out), *MODES[how])
    start = Fork(server, tmp_path, f"full-{how}-{room}", *args, file_size=room)
    assert start.wait() == 1
    assert "check that there is space" in start.said()
    assert "repeat the command to continue" in start.said()
    assert "Traceback" not in start.said()
    assert not list(out.glob("*.part"))

    last = Fork(server, tmp_path, f"full-{how}-{room}-last", *args)
    assert last.wait() == 0, last.said()

    assert artefacts(out) == calm.files
    assert_nothing_asked_twice(server.calls(start.name, last.name), calm, kills=1)


def test_two_runs_at_once_share_one_cache(
    server: Server, data: Path, calm: Calm, tmp_path: Path
) -> None:
    starts = [
        Fork(server, tmp_path, f"shared-{n}", str(data), "--out", str(tmp_path / f"run{n}"))
        for n in range(2)
    ]
    assert [start.wait() for start in starts] == [0, 0], starts[0].said() + starts[1].said()
    third = Fork(server, tmp_path, "shared-2", str(data), "--out", str(tmp_path / "run2"))
    assert third.wait() == 0, third.said()

    assert server.calls("shared-2") == []
    usage = json.loads((tmp_path / "run2" / "manifest.json").read_bytes())["usage"]
    assert (usage["calls"], usage["cached_calls"]) == (0, len(calm.prompts))
    assert (usage["prompt_tokens"], usage["cost_usd"]) == (0, 0.0)
    results = [lines(tmp_path / f"run{n}" / "outputs.jsonl") for n in range(3)]
    answers = [[line["final_result"] for line in result] for result in results]
    assert answers[0] == answers[1] == answers[2]


def test_agent_without_a_usable_answer_costs_its_sample_only(
    server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "data.jsonl"
    write_data(path, 3)
    with path.open("a") as file:
        file.write('{"uid": "x", "text": "dead dish was dull", "lang": "en"}\n')
        file.write("no JSON\n")
    start = Fork(server, tmp_path, "dead", str(path), "--out", str(tmp_path / "run"))
    assert start.wait() == 1
    bad, failed = lines(tmp_path / "run" / "errors.jsonl")
    assert (bad["line"], bad["uid"], bad["kind"]) == (5, None, "bad_line")
    assert (failed["uid"], failed["node"], failed["turn"], failed["kind"]) == (
        "x",
        "judge",
        0,
        "failed",
    )
    # Asked, asked to repair it, and asked once more: the same words again end it.
    assert failed["attempts"] == 3
    assert failed["raw"] == "I would rather not say."
    assert "repair round" in failed["reason"]
    assert len(lines(tmp_path / "run" / "outputs.jsonl")) == 3
