"""A real PostgreSQL on loopback, for the tests that need one, wherever it is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD = "s3cret-w0rd"


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


@contextmanager
def serve() -> Iterator[str]:
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
