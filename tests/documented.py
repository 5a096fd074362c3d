"""The programs that the documentation shows, run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def program(page: str, language: str, words: str) -> str:
    """The one block of a page that has these words in it."""
    (path,) = DOCS.rglob(page)
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if words in block]
    return str(found)


def run(code: str, env: Mapping[str, str], *args: str, shell: str | None = None) -> str:
    """What the program prints; it must end well."""
    command = [shell, "-ec", code] if shell else [sys.executable, "-c", code, *args]
    done = subprocess.run(
        command, env={**env, "PYTHONUTF8": "1"}, capture_output=True, encoding="utf-8", timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
