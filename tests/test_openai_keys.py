"""Keys: from the environment or a keyring, for the server they were named for, shown to nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError
from openai_server import Server, fails, says, serve
from typer.testing import CliRunner

from absa.backends.chat import NO_KEY
from absa.backends.keys import OPENAI_URL
from absa.backends.openai import OpenAIBackend
from absa.cli import build_app
from absa.config import load_settings
from absa.runs import RunPlan, run
from absa.schemas.answers import AteAnswer
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.schemas.settings import BackendSettings, Settings
from benchmarks.answers import ANSWERS, TEXT
from benchmarks.fault_server import serving

GOOD = {"aspects": []}
SECRET = "sk-test-0123456789-secret"
AskFn = Callable[[OpenAIBackend, Ask], Reply]


class MemoryKeyring(KeyringBackend):
    """A keyring that lives as long as its test."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}
        self.asked: list[str] = []
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        self.asked.append(f"{service}/{username}")
        if self.locked:
            raise KeyringLocked("locked")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        raise PasswordDeleteError("nothing is deleted here")


@pytest.fixture(autouse=True)
def ring(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryKeyring]:
    for name in ("OPENAI_API_KEY", "OTHER_KEY", "LANGSMITH_TRACING"):
        monkeypatch.delenv(name, raising=False)
    before, mine = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(mine)
    yield mine
    keyring.set_keyring(before)


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        running.rule = lambda _: says(GOOD)
        yield running


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> AskFn:
    if request.param == "sync":
        return lambda backend, question: backend.ask(question)
    return lambda backend, question: asyncio.run(backend.aask(question))


def backend(base_url: str, **given: Any) -> OpenAIBackend:
    settings = {"kind": "openai", "model": "m", "max_retries": 0, "timeout_s": 5.0, **given}
    return OpenAIBackend(BackendSettings(base_url=base_url, **settings), backoff_s=0)


def question(node: str = "ate") -> Ask:
    return Ask(node, 0, "u1", "prompt", "{}", "0" * 64, {}, AteAnswer)


def test_keyring_is_asked_once_if_the_variable_is_missing(
    server: Server, ask: AskFn, ring: MemoryKeyring
) -> None:
    ring.set_password("absa", "OPENAI_API_KEY", SECRET)
    asked = backend(server.url)
    ask(asked, question())
    ask(asked, question())
    assert server.keys == [f"Bearer {SECRET}"] * 2
    assert ring.asked == ["absa/OPENAI_API_KEY"]


def test_variable_wins_over_the_keyring(
    server: Server, ask: AskFn, ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring.set_password("absa", "OPENAI_API_KEY", "sk-from-the-keyring")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ask(backend(server.url), question())
    assert server.keys == [f"Bearer {SECRET}"]
    assert ring.asked == []


def test_named_entry_is_used(server: Server, ask: AskFn, ring: MemoryKeyring) -> None:
    ring.set_password("work", "gateway/one", SECRET)
    ask(backend(server.url, api_key_keyring="work/gateway/one"), question())
    assert server.keys == [f"Bearer {SECRET}"]


@pytest.mark.parametrize(
    ("given", "says_what"),
    [
        ({"api_key_keyring": "work/none"}, "keyring entry work/none.*keyring set work none"),
        ({"api_key_env": "OTHER_KEY"}, "variable OTHER_KEY.*set OTHER_KEY"),
    ],
)
def test_named_key_that_is_missing_is_said_before_any_request(
    server: Server, ask: AskFn, given: dict[str, str], says_what: str
) -> None:
    with pytest.raises(BackendError, match=says_what) as caught:
        ask(backend(server.url, **given), question())
    assert (caught.value.attempts, server.requests) == (0, [])


def test_openai_itself_needs_a_key_and_both_places_are_named(ask: AskFn) -> None:
    with pytest.raises(BackendError, match="OPENAI_API_KEY and keyring entry absa/OPENAI_API_KEY"):
        ask(backend(OPENAI_URL), question())


def test_locked_keyring_is_no_crash(server: Server, ask: AskFn, ring: MemoryKeyring) -> None:
    ring.locked = True
    ask(backend(server.url), question())
    assert server.keys == [f"Bearer {NO_KEY}"]
    with pytest.raises(BackendError, match="KeyringLocked"):
        ask(backend(server.url, api_key_keyring="work/one"), question())


# Roles.


def test_each_role_has_its_own_server_model_temperature_and_key(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-common-000000000000")
    monkeypatch.setenv("OTHER_KEY", "sk-judge-0000000000000")
    with serve() as other:
        other.rule = server.rule
        roles = {
            "judge": {
                "base_url": other.url,
                "model": "large",
                "temperature": 0.4,
                "max_tokens": 50,
                "api_key_env": "OTHER_KEY",
            }
        }
        asked = backend(server.url, roles=roles)
        replies = [asked.ask(question(node)) for node in ("ate", "judge")]
    assert [reply.model for reply in replies] == ["m", "large"]
    assert (server.keys, other.keys) == (
        ["Bearer sk-common-000000000000"],
        ["Bearer sk-judge-0000000000000"],
    )
    (theirs,) = other.requests
    assert (theirs["model"], theirs["temperature"], theirs["max_tokens"]) == ("large", 0.4, 50)
    assert "max_tokens" not in server.requests[0]


def test_key_of_one_server_is_not_sent_to_another(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with serve() as other:
        other.rule = server.rule
        asked = backend(server.url, roles={"judge": {"base_url": other.url}})
        asked.ask(question("judge"))
        assert other.keys == [f"Bearer {NO_KEY}"]
    asked = backend(server.url, roles={"judge": {"model": "large"}})
    asked.ask(question("judge"))
    assert server.keys == [f"Bearer {SECRET}"]


def test_whole_debate_with_a_judge_on_another_server(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    line = json.dumps({"uid": "s0", "text": TEXT, "lang": "ko"}, ensure_ascii=False)
    data.write_text(line + "\n", encoding="utf-8")
    with serving(ANSWERS) as many, serving(ANSWERS) as one:
        settings = Settings(
            backend=BackendSettings(
                kind="openai",
                model="small",
                base_url=f"http://127.0.0.1:{many.port}/v1",
                roles={"judge": {"model": "large", "base_url": f"http://127.0.0.1:{one.port}/v1"}},
            )
        )
        plan = RunPlan(data, tmp_path / "run", settings, cache_path=tmp_path / "answers.db")
        assert asyncio.run(run(plan)).exit_code == 0
        assert (sum(many.requests.values()), sum(one.requests.values())) == (9, 1)
    traces = (tmp_path / "run/traces.jsonl").read_text("utf-8").splitlines()
    models = {trace["node"]: trace["model"] for trace in map(json.loads, traces)}
    assert {node for node, model in models.items() if model == "large"} == {"judge"}


# Nothing shows a key.


def test_key_from_the_keyring_is_in_no_error_even_if_the_server_repeats_it(
    server: Server, ask: AskFn, ring: MemoryKeyring
) -> None:
    ring.set_password("absa", "OPENAI_API_KEY", SECRET)
    server.rule = lambda _: fails(401, f"wrong key {SECRET}")
    with pytest.raises(
        BackendError, match=r"HTTP 401.*keyring entry absa/OPENAI_API_KEY"
    ) as caught:
        ask(backend(server.url), question())
    assert SECRET not in f"{caught.value} {vars(caught.value)}"
    assert "wrong key ***" in str(caught.value.raw)


def test_blanks_around_a_key_are_not_part_of_it(
    server: Server, ask: AskFn, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A header loses them on its way: the server would repeat another key than the one hidden.
    monkeypatch.setenv("OPENAI_API_KEY", f" {SECRET} \n")
    server.rule = lambda _: fails(401, f"wrong key {SECRET}")
    with pytest.raises(BackendError) as caught:
        ask(backend(server.url), question())
    assert server.keys == [f"Bearer {SECRET}"]
    assert SECRET not in f"{caught.value} {vars(caught.value)}"


@pytest.mark.parametrize("key", ["sk-one\nsk-two", "sk-열쇠"])
def test_key_that_cannot_be_one_is_said_before_any_request(
    server: Server, ask: AskFn, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(
        BackendError, match="OPENAI_API_KEY.*characters that are not allowed"
    ) as caught:
        ask(backend(server.url), question())
    assert server.requests == []
    assert key not in str(caught.value)


@pytest.mark.parametrize("key", ["backend.api_key_env", "backend.roles.judge.api_key_env"])
def test_key_in_the_place_of_its_variable_is_refused_without_being_repeated(key: str) -> None:
    with pytest.raises(ValueError, match="name of an environment variable") as caught:
        load_settings(None, {key: SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("place", ["environment", "keyring", "nowhere"])
def test_doctor_says_where_the_key_comes_from_and_not_what_it_is(
    server: Server, ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch, place: str, tmp_path: Path
) -> None:
    monkeypatch.setenv("ABSA_CACHE", str(tmp_path / "answers.db"))
    server.rule = lambda _: says({"aspect_sentiments": []})
    if place == "environment":
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    if place == "keyring":
        ring.set_password("absa", "OPENAI_API_KEY", SECRET)
    sets = ["backend.kind=openai", "backend.model=m", f"backend.base_url={server.url}"]
    arguments = ["doctor", *(part for given in sets for part in ("--set", given))]
    plain = CliRunner().invoke(build_app(), arguments)
    machine = CliRunner().invoke(build_app(), [*arguments, "--json"])
    found = json.loads(machine.output)["backend"]
    expected = {
        "environment": "environment variable OPENAI_API_KEY",
        "keyring": "keyring entry absa/OPENAI_API_KEY",
        "nowhere": "environment variable OPENAI_API_KEY and keyring entry absa/OPENAI_API_KEY",
    }[place]
    assert (found["key"], found["key_from"]) == (place != "nowhere", expected)
    assert found["asked_by"] == "json_schema"
    assert expected in " ".join(plain.output.split())
    assert SECRET not in plain.output + machine.output


def test_no_key_of_any_role_is_in_an_artefact_of_a_failing_run(
    server: Server, ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ring.set_password("absa", "OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OTHER_KEY", "sk-judge-0000000000000")
    monkeypatch.setenv("ABSA_CACHE", str(tmp_path / "answers.db"))
    server.rule = lambda _: fails(400, f"wrong: {' '.join(key or '' for key in server.keys)}")
    data = tmp_path / "data.jsonl"
    lines = (json.dumps({"uid": f"s{n}", "text": f"{TEXT} {n}"}) for n in range(3))
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    roles = {"atsa": {"api_key_env": "OTHER_KEY"}}
    settings = BackendSettings(kind="openai", model="m", base_url=server.url, roles=roles)
    report = asyncio.run(run(RunPlan(data, tmp_path / "run", Settings(backend=settings))))
    assert report.totals.failed == 3
    assert {f"Bearer {SECRET}", "Bearer sk-judge-0000000000000"} <= set(server.keys)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert "***" in (tmp_path / "run/errors.jsonl").read_text("utf-8")
    for path in files:
        content = path.read_bytes()
        assert SECRET.encode() not in content, path.name
        assert b"sk-judge-0000000000000" not in content, path.name
