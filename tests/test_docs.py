"""The documentation site builds, its links lead somewhere, and the tutorial's commands work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


def commands(page: Path) -> list[str]:
    """The shell commands of a page, block by block."""
    return re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_site_builds_without_a_broken_link(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site/reference/api/index.html").read_text("utf-8")
    assert "given_aspects" in page, "the reference has the parameters of analyze()"
    assert "fonts.googleapis" not in page
    notebook = (tmp_path / "site/tutorial/first-steps/index.html").read_text("utf-8")
    assert ">battery</mark>" in notebook and 'src="data:image/svg+xml' in notebook
    assert 'href="../did-the-debate-help/"' in notebook, "links to a notebook lead to its page"
    assert (tmp_path / "site/tutorial/first-steps.ipynb").exists()


@pytest.mark.parametrize("page", sorted(p.name for p in ROOT.glob("*.md")))
def test_links_of_the_top_level_pages(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    broken = [link for link in LINK.findall(text) if not (ROOT / link).exists()]
    assert broken == []


def test_commands_of_the_tutorial(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs/tutorial", tmp_path / "docs/tutorial")
    first, *blocks = commands(ROOT / "docs/tutorial/first-decision.md")
    assert first == "source .venv/bin/activate\n"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e"],
        input="".join(blocks),
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "ABSA_CACHE": str(tmp_path / "cache.db")},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "36 of 36 samples analyzed" in done.stdout
    assert "no difference shown at this size" in done.stdout or "helps" in done.stdout
    assert (tmp_path / "runs/shop.html").stat().st_size > 10_000
