"""A wheel built from the repository works outside the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = ("prompts", "configs", "resources")

# The development install makes the checkout importable: only the wheel's copy may be found.
SCRIPT = """
import json, sys
wheel, checkout = sys.argv[1:]
sys.path[:] = [wheel, *(path for path in sys.path if path != checkout)]
import absa, absa.graph, absa.nodes, absa.schemas
import absa.offline.training.own_data  # `absa train` does without the folder training/
from absa.nodes.assets import prompt, prompt_names
settings = absa.load_settings("abl_no_debate")
print(json.dumps({
    "files": [module.__file__ for module in (absa, absa.graph, absa.nodes, absa.schemas)],
    "enable_debate": settings.pipeline.enable_debate,
    "prompts": {name: prompt(name) for name in prompt_names()},
    "nodes": list(absa.build_graph(settings).get_graph().nodes),
    "label": absa.analyze("사용감은 좋지만 가격은 비싸요.", settings).final_result.label,
}))
"""


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation, so that no network is needed.
    # First the source distribution, then the wheel from what that holds.
    run(["-m", "build", "--no-isolation", "--outdir", folder, ROOT], folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel is installed."""
    folder = tmp_path_factory.mktemp("site")
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    run([*install, "--target", folder, wheel], folder)
    return folder


@pytest.fixture(scope="module")
def outside(site: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the installed wheel says when it is used from a foreign folder."""
    folder = tmp_path_factory.mktemp("outside")
    seen: dict[str, Any] = json.loads(run(["-I", "-c", SCRIPT, site, ROOT], folder))
    assert all(Path(file).is_relative_to(site) for file in seen["files"])
    return seen


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_no_generic_name_lands_in_site_packages(wheel: Path) -> None:
    top = {name.partition("/")[0] for name in names(wheel)}
    assert {name for name in top if not name.endswith(".dist-info")} == {"absa"}


def test_both_distributions_pass_the_check_of_the_index(wheel: Path) -> None:
    run(["-m", "twine", "check", "--strict", *wheel.parent.iterdir()], wheel.parent)


def test_a_users_program_sees_the_types(site: Path, tmp_path: Path) -> None:
    """Strict type checking of a program that imports the wheel: no name is `Any`."""
    run(["-m", "venv", "--without-pip", tmp_path / "env"], tmp_path)
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (packages / "absa").symlink_to(site / "absa")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    (tmp_path / "program.py").write_text(TYPED, "utf-8")
    interpreter = str(tmp_path / "env/bin/python")
    command = ["-m", "mypy", "--strict", "--disallow-any-expr", "--python-executable", interpreter]
    run([*command, "--cache-dir", tmp_path / "cache", "program.py"], tmp_path)


TYPED = """
from absa import FinalOutput, analyze, load_settings

result: FinalOutput = analyze("good food", load_settings("default"), lang="en")
label: str = result.final_result.label
terms: list[str | None] = [a.aspect_term for a in result.final_result.final_aspects]
print(label, terms)
"""


@pytest.mark.parametrize("folder", DATA)
def test_all_data_travels_under_the_package_name(wheel: Path, folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert files
    expected = {f"absa/{path.relative_to(ROOT).as_posix()}" for path in files}
    assert expected <= set(names(wheel))


def test_licence_and_command_are_in_the_wheel(wheel: Path) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names(wheel))
    with zipfile.ZipFile(wheel) as archive:
        entry = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "absa = absa.cli:main" in archive.read(entry).decode()


def test_settings_are_found_by_name_outside_the_checkout(outside: dict[str, Any]) -> None:
    assert outside["enable_debate"] is False


def test_prompts_are_readable_outside_the_checkout(outside: dict[str, Any]) -> None:
    files = sorted((ROOT / "prompts").glob("*.md"))
    assert outside["prompts"].keys() == {file.stem for file in files}
    for file in files:
        assert file.read_text(encoding="utf-8").startswith(outside["prompts"][file.stem])


def test_a_graph_compiles_outside_the_checkout(outside: dict[str, Any]) -> None:
    assert {"ate", "atsa", "validator"} <= set(outside["nodes"])
    assert "judge" not in outside["nodes"]


def test_a_text_is_analysed_outside_the_checkout(outside: dict[str, Any]) -> None:
    assert outside["label"] == "mixed"


@pytest.mark.parametrize("installed", ["wheel", "checkout"])
def test_a_project_may_have_modules_of_our_folders_names(
    installed: str, site: Path, tmp_path: Path
) -> None:
    """`graph`, `nodes` and `schemas` are the commonest names in projects that use LangGraph."""
    for name in ("graph", "nodes", "schemas"):
        (tmp_path / f"{name}.py").write_text(f"MINE = '{name}'\n", encoding="utf-8")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "main.py").write_text(CLASHES, encoding="utf-8")
    folder = site if installed == "wheel" else ROOT
    assert json.loads(run(["main.py"], tmp_path, PYTHONPATH=str(folder))) == {
        "mine": ["graph", "nodes", "schemas"],
        "from": str(folder),
        "label": "mixed",
    }


CLASHES = """
import json
from pathlib import Path
import graph, nodes, schemas
import absa
from absa import analyze
print(json.dumps({
    "mine": [module.MINE for module in (graph, nodes, schemas)],
    "from": str(Path(absa.__file__).parent.parent),
    "label": analyze("사용감은 좋지만 가격은 비싸요.").final_result.label,
}))
"""
