"""Memory in a real PostgreSQL: started here, for these tests, wherever the server is installed."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted import ScriptedBackend, ate, atsa, pipeline, said

from absa import build_graph
from absa.memory import URL, episodes, open_memory, prune
from graph import build
from nodes.memory import sample_id
from schemas.errors import InputError
from schemas.settings import MemorySettings, Settings

PASSWORD = "s3cret-w0rd"
MEMORY = {"condition": "on", "store": "postgres"}
CHOSEN = MemorySettings.model_validate(MEMORY)
ANSWERS = said(ate=ate("배터리"), atsa=atsa(("배터리", "positive", "오래가요", 0.9)))


def programs() -> Path | None:
    """The folder with `initdb` and `pg_ctl`; Debian keeps them off the path."""
    on_path = shutil.which("pg_ctl")
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    places += [Path(on_path).parent] if on_path else []
    return next((p for p in places if (p / "initdb").exists() and (p / "pg_ctl").exists()), None)


def unprivileged() -> str | None:
    """The server refuses to run as root: somebody else, None for ourselves."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A database server on a port of its own; the address without user and password."""
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed: `apt-get install -y postgresql` on Debian")
    user = unprivileged()
    # Not pytest's folder, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="absa-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "password").write_text(PASSWORD)
        if user is not None:
            for path in (folder, folder / "password"):
                shutil.chown(path, user)
        port = free_port()

        def call(program: str, *args: str) -> None:
            command = [str(found / program), "-D", str(folder / "data"), *args]
            # Into a file: the server keeps its output open, and a pipe would be waited for.
            with (folder / "log").open("a") as log:
                done = subprocess.run(command, stdout=log, stderr=log, user=user, cwd=folder)
            assert done.returncode == 0, (folder / "log").read_text()

        secured = ["-A", "scram-sha-256", f"--pwfile={folder / 'password'}"]
        call("initdb", "-U", "absa", "-E", "UTF8", "--locale=C", "--no-sync", *secured)
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        call("pg_ctl", "-w", "-t", "60", "-o", options, "start")
        try:
            yield f"127.0.0.1:{port}/postgres"
        finally:
            call("pg_ctl", "-w", "-m", "immediate", "stop")


@pytest.fixture
def address(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The database, empty, named by the environment."""
    url = f"postgresql://absa:{PASSWORD}@{server}"
    monkeypatch.setenv(URL, url)
    with open_memory(CHOSEN) as store:
        assert store is not None
        prune(store, 0)
    yield url


def test_episodes_outlive_the_graph_and_are_recalled(address: str) -> None:
    settings = Settings.model_validate({"pipeline": {"memory": MEMORY}})
    first = build_graph(settings, backend=ScriptedBackend(ANSWERS))
    assert first.invoke({"text": "배터리가 오래가요."})["output"].meta.memory.recall.episodes == ()
    del first
    second = build_graph(settings, backend=ScriptedBackend(ANSWERS))
    (past,) = second.invoke({"text": "배터리가 오래가요!"})["output"].meta.memory.recall.episodes
    assert past.sample == sample_id("배터리가 오래가요.")
    del second


def test_many_at_a_time_are_all_remembered(address: str) -> None:
    texts = ["배터리가 오래가요" + "!" * n for n in range(20)]

    async def all_at_once() -> None:
        with open_memory(CHOSEN) as store:
            graph = build(pipeline(memory=MEMORY), ScriptedBackend(ANSWERS), store=store)
            await asyncio.gather(*(graph.ainvoke({"text": t, "split": "train"}) for t in texts))

    asyncio.run(all_at_once())
    with open_memory(CHOSEN) as store:
        assert store is not None
        assert {e.sample for e in episodes(store)} == {sample_id(t) for t in texts}
        assert prune(store, 5) == 15
        assert len(list(episodes(store))) == 5


def refused(monkeypatch: pytest.MonkeyPatch, url: str) -> str:
    monkeypatch.setenv(URL, url)
    with pytest.raises(InputError) as caught, open_memory(CHOSEN):
        pytest.fail("it was opened")
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    return str(caught.value)


def test_a_wrong_password_is_refused_and_not_repeated(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refused(monkeypatch, f"postgresql://absa:wrong-{PASSWORD}@{server}")
    assert URL in told and "password authentication failed" in told
    assert PASSWORD not in told


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://absa:{PASSWORD}@127.0.0.1:1/postgres",
        f"postgresql://absa:s3cret/w0rd-{PASSWORD}@127.0.0.1:1/postgres",
        f"postgresql://absa:s3cret@w0rd-{PASSWORD}@127.0.0.1:1/postgres",
        f"postgresql://absa:{PASSWORD}%ZZ@127.0.0.1:1/postgres",
        f"host=127.0.0.1 port=1 user=absa password={PASSWORD}",
        f"host=127.0.0.1 port=1 user=absa password='{PASSWORD}",
        f"absa:{PASSWORD}@127.0.0.1/postgres",
        f"{PASSWORD}",
    ],
    ids=["nobody there", "slash", "at", "percent", "words", "unclosed", "no scheme", "nonsense"],
)
def test_an_address_that_leads_nowhere_is_refused_and_its_password_not_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg", exc_type=ImportError)
    told = refused(monkeypatch, url)
    assert told.startswith(f"the database that {URL} names cannot be used: ")
    for secret in ("s3cret", "w0rd"):
        assert secret not in told


def test_no_address_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL, raising=False)
    with pytest.raises(InputError, match=URL), open_memory(CHOSEN):
        pytest.fail("it was opened")
