"""The notebooks of the tutorial run, and what they store is what a reader gets."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "tutorial"
UPDATE = os.environ.get("ABSA_UPDATE_SNAPSHOTS") == "1"
# What each notebook must show, wherever it stands.
SHOWN = {
    "first-steps.ipynb": [
        ">battery</mark>",
        ">사용감</mark>",
        "override_gate",
        "<Graph absa: ",
        "judge",
        "36 of 36 samples analyzed",
        "in their words",
    ],
    "did-the-debate-help.ipynb": [
        "Against the single call (baseline_single)",
        "| baseline_vote |",
        "points over one call",
        "calls per text",
        "<th>marked</th>",
    ],
}


def _read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def _text(notebook: NotebookNode) -> str:
    """All outputs."""
    return json.dumps([cell.get("outputs") for cell in notebook.cells], ensure_ascii=False)


def _kinds(notebook: NotebookNode) -> list[list[str]]:
    """For each cell the kinds of its outputs: the stream or the MIME types."""
    return [
        [
            output.name if output.output_type == "stream" else "+".join(sorted(output.data))
            for output in cell.get("outputs", ())
        ]
        for cell in notebook.cells
    ]


def _executed(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> NotebookNode:
    """The notebook after a run in a copy of its folder, with settings of its own."""
    work = folder / "tutorial"
    shutil.copytree(FOLDER, work)
    notebook = _read(work / name)
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(folder / variable.lower()))
    monkeypatch.setenv("ABSA_CACHE", str(folder / "cache.db"))
    monkeypatch.setenv("COLUMNS", "100")
    commands = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(work)}},
    )
    executed: NotebookNode = client.execute()
    return executed


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_runs_and_shows_what_it_stores(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = _executed(name, tmp_path, monkeypatch)
    if UPDATE:
        fresh.metadata = _read(FOLDER / name).metadata
        nbformat.write(fresh, FOLDER / name)
    stored = _read(FOLDER / name)
    assert [cell.source for cell in fresh.cells] == [cell.source for cell in stored.cells]
    assert _kinds(fresh) == _kinds(stored)
    for notebook in (fresh, stored):
        assert [words for words in SHOWN[name] if words not in _text(notebook)] == []


@pytest.mark.parametrize("name", SHOWN)
def test_a_stored_notebook_has_neither_paths_nor_warnings_nor_times(name: str) -> None:
    stored = _read(FOLDER / name)
    text = _text(stored)
    assert not re.search(r"/(?:home|root|tmp|work|Users)\b|0x[0-9a-f]{6}|Warning|ETA", text)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(cell.metadata for cell in code)


def test_every_notebook_of_the_docs_is_executed_here() -> None:
    assert {path.name for path in FOLDER.parent.rglob("*.ipynb")} == set(SHOWN)
