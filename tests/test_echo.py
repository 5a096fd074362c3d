"""A key that comes back in an answer or is typed in a wrong place is stored and shown nowhere."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from answer_server import answer
from openai_server import Body, Response, Server, fails, says, serve
from pydantic import ValidationError
from test_crash import FORKS, _call

from absa.backends.openai import OpenAIBackend
from absa.backends.redaction import hide_in
from absa.cli import run as command
from absa.config import SettingsError, load_settings, parse_override
from absa.schemas.answers import AteAnswer
from absa.schemas.backend import Ask
from absa.schemas.errors import BackendError
from absa.schemas.settings import BackendSettings

KEY = 'sk-test/0123456789"\\secret_key'
PLAIN = "sk-test-0123456789-secret"
REVIEWS = [f"dish{n} tasted somehow bland{n}" for n in range(3)]


def forms(key: str) -> list[str]:
    """A key as it may be written in a text, in JSON, and in JSON within JSON."""
    escaped = "".join(f"\\u{ord(char):04x}" for char in key)
    quoted = json.dumps(key)[1:-1]
    return [key, quoted, json.dumps(quoted)[1:-1], quoted.replace("/", "\\/"), escaped]


def echoing(key: str) -> Callable[[Body], Response]:
    """Answers every agent, with the key among the terms, the evidence and the rationale."""

    def rule(request: Body) -> Response:
        words = [m["content"] for m in request["messages"] if m["content"].startswith("{")]
        review = json.loads(words[-1])["review"]
        keys = request["response_format"]["json_schema"]["schema"]["properties"]
        output = answer(keys, review, 1)
        for item in output.get("aspects", []):
            item["term"] = key
        for item in output.get("aspect_sentiments", []):
            item |= {"evidence": key, "opinion_term": key, "rationale": f"because {key}"}
        for name in ("sentence_evidence_spans",):
            if name in output:
                output[name] = [key, f"say {key} aloud"]
        output["rationale"] = f"my key is {key}"
        output[key] = key
        return says(output)

    return rule


def holds_key(text: bytes, key: str) -> bool:
    return any(form.encode() in text for form in forms(key))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve() as running:
        yield running


@pytest.fixture(params=[PLAIN, KEY], ids=["plain", "with characters that JSON escapes"])
def key(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("OPENAI_API_KEY", request.param)
    monkeypatch.setenv("ABSA_CACHE", str(tmp_path / "cache" / "answers.db"))
    return str(request.param)


def options(server: Server) -> list[str]:
    return [
        *("--set", "backend.kind=openai", "--set", "backend.model=m"),
        *("--set", f"backend.base_url={server.url}", "--set", "backend.max_retries=0"),
    ]


def write_reviews(path: Path) -> Path:
    rows = [{"uid": f"u{n}", "text": text, "lang": "en"} for n, text in enumerate(REVIEWS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def stored(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All files below a folder, and all values of its databases, which may be packed."""
    from absa.runs.journal import unpack

    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.name, path.read_bytes()
    for path in sorted(folder.rglob("*.db")):
        with closing(sqlite3.connect(path)) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master")]
            for table in {"answers", "samples", "run"} & set(tables):
                for row in db.execute(f"SELECT * FROM {table}"):
                    for value in row:
                        text = "\n".join(unpack(value)) if isinstance(value, bytes) else value
                        yield f"{path.name} {table}", str(text).encode()


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_echoed_key_is_in_nothing_that_a_run_stores(
    server: Server, key: str, tmp_path: Path, engine: str
) -> None:
    server.rule = echoing(key)
    data = write_reviews(tmp_path / "data.jsonl")
    folder = tmp_path / "results"
    more = ["--engine", "dask", "--workers", "1"] if engine == "dask" else []
    args = ["run", str(data), "--out", str(folder / "run"), *options(server), *more]
    errors = tmp_path / "stderr"
    errors.touch()

    env = {name: os.environ[name] for name in ("OPENAI_API_KEY", "ABSA_CACHE")}
    process = FORKS.Process(target=_call, args=(args, env, str(errors), None))
    process.start()
    process.join(400)
    assert process.exitcode == 0, errors.read_text()
    assert command(["report", str(folder / "run"), "-o", str(folder / "report.html")]) == 0
    assert server.keys[0] == f"Bearer {key}"
    places = [*stored(folder), *stored(tmp_path / "cache"), ("stderr", errors.read_bytes())]
    assert [name for name, text in places if holds_key(text, key)] == []
    assert {"report.html", "traces.jsonl", "answers.db answers"} <= {name for name, _ in places}
    # The answers were used: only the key is gone.
    outputs = (folder / "run" / "outputs.jsonl").read_text(encoding="utf-8")
    assert "***" in outputs and len(outputs.splitlines()) == len(REVIEWS)


def test_echoed_key_is_not_shown_by_analyze(
    server: Server, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.rule = echoing(key)
    for more in (["--json"], []):
        assert command(["analyze", REVIEWS[0], *options(server), *more]) == 0
    out, err = capsys.readouterr()
    assert "***" in out
    assert not holds_key((out + err).encode(), key)


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    "respond",
    [
        lambda key: says(f"I will not answer, but the key is {key}" * 30),
        lambda key: says(f'{{"aspects": [{{"x": "{"y" * 270}{key}"}}]}}'),
        lambda key: fails(400, f"bad key {key}"),
        lambda key: fails(500, f"in trouble with {key}"),
        lambda key: Response(body={"error": {"message": key}}),
        lambda key: Response(body=f"<html>{key}</html>"),
        lambda key: says({"aspects": []}, finish="content_filter"),
    ],
)
def test_echoed_key_is_in_no_error(
    server: Server, key: str, respond: Callable[[str], Response], is_async: bool
) -> None:
    server.rule = lambda _: respond(key)
    settings = BackendSettings(kind="openai", model="m", base_url=server.url, max_retries=0)
    backend = OpenAIBackend(settings, backoff_s=0)
    question = Ask("ate", 0, "u1", "prompt", "{}", "0" * 64, {}, AteAnswer)
    with pytest.raises(BackendError) as caught:
        asyncio.run(backend.aask(question)) if is_async else backend.ask(question)
    shown = f"{caught.value} {caught.value.raw} {caught.value.details}"
    assert not holds_key(shown.encode(), key)
    # Not in part either: a message is cut only after the key is gone.
    assert key[:12] not in shown


@pytest.mark.parametrize("secret", [PLAIN, KEY])
def test_key_is_found_in_every_form_and_the_json_stays_whole(secret: str) -> None:
    for form in forms(secret):
        inner = json.dumps({"a": f"x {form} y"})
        for body in (inner, json.dumps({"content": inner})):
            hidden = hide_in(body.encode(), secret)
            assert not holds_key(hidden, secret)
            assert "***" in json.dumps(json.loads(hidden))


@pytest.mark.parametrize("placeholder", ["", "EMPTY", "good"])
def test_placeholder_for_a_key_changes_no_answer(placeholder: str) -> None:
    body = json.dumps({"a": "EMPTY plates, good food \u00e9"}).encode()
    assert hide_in(body, placeholder) is body


# A key in a wrong place -------------------------------------------------------------------------

TYPED = "sk-proj-abcdefghijklmnop0123456789"
UNUSUAL = "4f9a8c1be2d34756a0b1c2d3e4f50617"
PLACES = [
    "backend.model",
    "backend.base_url",
    "backend.api_key",
    "backend.api_key_env",
    "backend.api_key_keyring",
    "backend.kind",
    "backend.seed",
    "backend.temperature",
    "backend.path",
    "backend.roles.ate.model",
    "backend.roles.ate",
    "pipeline.protocol",
    "pipeline.enable_debate",
    "demos.path",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", ["--set", "file"])
def test_key_in_a_wrong_setting_is_refused_and_not_repeated(
    place: str, how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if how == "file":
        *sections, last = place.split(".")
        file = tmp_path / "settings.yaml"
        tree: Any = {last: TYPED}
        for section in reversed(sections):
            tree = {section: tree}
        file.write_text(json.dumps(tree), encoding="utf-8")
        given = ["--config", str(file)]
    else:
        given = ["--set", f"{place}={TYPED}"]
    out = tmp_path / "run"
    data = write_reviews(tmp_path / "data.jsonl")
    for args in (["doctor", *given], ["run", str(data), "--out", str(out), *given]):
        assert command(args) == 2
    printed = "".join(capsys.readouterr())
    assert place in printed
    assert TYPED[:12] not in printed
    assert not out.exists()


@pytest.mark.parametrize("place", ["backend.base_url", "backend.kind", "backend.temperature"])
def test_key_of_an_unusual_form_is_not_repeated(place: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {place: UNUSUAL})
    assert UNUSUAL not in str(caught.value)


@pytest.mark.parametrize("place", ["backend.model", "demos.path", "backend.roles.ate.model"])
def test_key_of_the_environment_is_refused_whatever_it_looks_like(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", UNUSUAL)
    with pytest.raises(
        SettingsError, match=f"{place}: contains the value of OPENAI_API_KEY"
    ) as caught:
        load_settings(None, {place: UNUSUAL})
    assert UNUSUAL not in str(caught.value)


@pytest.mark.parametrize("text", [TYPED, f"{TYPED}=1", f"backend.{TYPED}=1", f"{TYPED}.x=1"])
def test_key_in_place_of_a_setting_is_not_repeated(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, dict([parse_override(text)]))
    assert TYPED[:12] not in str(caught.value)


def test_settings_made_in_python_do_not_repeat_a_key() -> None:
    with pytest.raises(ValidationError) as caught:
        BackendSettings(model=TYPED)
    assert TYPED not in str(caught.value)


@pytest.mark.parametrize(
    "model", ["meta-llama/Llama-3.1-8B-Instruct-2024-07-23", "risk-assessor-12b"]
)
def test_names_of_models_are_no_keys(model: str) -> None:
    assert load_settings(None, {"backend.model": model}).backend.model == model
