"""Records in SQLite: nothing acknowledged is lost, nothing hangs, damage is explained."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from absa.database import Database, StorageError

SCHEMA = "CREATE TABLE IF NOT EXISTS facts (key INTEGER PRIMARY KEY, value TEXT NOT NULL);"
INSERT = "INSERT OR IGNORE INTO facts VALUES (?, ?)"

# One server process for all tests of a worker: whoever comes first says what it imports.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["absa.cli.run", "absa.cli.progress", "absa.backends.openai"])


def opened(path: Path) -> Database:
    return Database(path, SCHEMA, if_damaged="throw it away")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = opened(tmp_path / "폴더 하나" / "facts.db")
    yield database
    database.close()


def test_acknowledged_write_can_be_read_by_another_connection(db: Database) -> None:
    db.write(INSERT, 1, "하나").result()
    with sqlite3.connect(db.path) as other:
        assert other.execute("SELECT * FROM facts").fetchall() == [(1, "하나")]
    other.close()


def test_opening_waits_for_whoever_is_setting_the_file_up(tmp_path: Path) -> None:
    # The lock under which another process turns a new file into one that can be shared.
    path = tmp_path / "facts.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE theirs (x)")
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.execute, ["COMMIT"])
    release.start()
    opened(path).close()
    release.join()
    other.close()


def test_close_writes_what_is_waiting(tmp_path: Path) -> None:
    first = opened(tmp_path / "facts.db")
    for n in range(2000):
        first.write(INSERT, n, "x")
    first.close()
    second = opened(tmp_path / "facts.db")
    assert second.one("SELECT count(*) FROM facts") == (2000,)
    second.close()


def test_write_whose_waiter_is_gone_is_written_and_the_next_one_too(db: Database) -> None:
    # A second Ctrl-C cancels workers that wait for their record.
    for n in range(50):
        db.write(INSERT, n, "x").cancel()
    db.write(INSERT, 99, "x").result(timeout=10)
    assert db.one("SELECT count(*) FROM facts") == (51,)


@pytest.mark.parametrize("value", ["\ud800", 2**64, object()])
def test_value_that_cannot_be_stored_is_an_error_and_nothing_hangs(
    db: Database, value: object
) -> None:
    with pytest.raises(Exception, match=r"surrogates|too large|not supported"):
        db.write(INSERT, 1, value).result(timeout=10)
    db.write(INSERT, 2, "x").result(timeout=10)


def test_failed_batch_writes_none_of_it_and_tells_everyone(db: Database) -> None:
    with sqlite3.connect(db.path) as other:
        # While another process writes, what is to be written gathers.
        other.execute("BEGIN IMMEDIATE")
        before = db.write(INSERT, 1, "x")
        while not before.running():
            time.sleep(0.001)
        good = db.write(INSERT, 2, "x")
        bad = db.write("INSERT INTO facts VALUES (3, NULL)")
    other.close()
    before.result(timeout=10)
    for write in (good, bad):
        with pytest.raises(StorageError, match="NOT NULL"):
            write.result(timeout=10)
    assert list(db.read("SELECT key FROM facts")) == [(1,)]


def test_file_that_is_no_database_is_named_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    path.write_text("this is not a database\n" * 100)
    with pytest.raises(StorageError, match=r"facts\.db: file is not a database; throw it away"):
        opened(path)


def test_damage_found_while_reading_is_named_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    database = opened(path)
    for n in range(5000):
        database.write(INSERT, n, "x" * 50)
    database.close()
    content = bytearray(path.read_bytes())
    content[8192:-4096] = b"\xff" * (len(content) - 12288)
    path.write_bytes(content)
    database = opened(path)
    with pytest.raises(StorageError, match="throw it away"):
        list(database.read("SELECT * FROM facts"))
    database.close()


def test_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="check that there is space and permission"):
        opened(tmp_path / "file" / "facts.db")
    with pytest.raises(StorageError, match="unable to open"):
        opened(tmp_path)


def _write_many(path: Path, first: int, count: int) -> None:
    database = opened(path)
    for n in range(first, first + count):
        database.write(INSERT, n, "x").result()
    database.close()


def test_processes_create_and_write_one_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    writers = [FORKS.Process(target=_write_many, args=(path, n * 100, 100)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    database = opened(path)
    assert database.one("SELECT count(*) FROM facts") == (400,)
    database.close()
