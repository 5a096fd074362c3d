"""A wheel built from the repository works outside the checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"absa", "graph", "nodes", "schemas"}
DATA = ("prompts", "configs", "resources")

# The development install makes the checkout importable: only the wheel's copy may be found.
SCRIPT = """
import json, sys
wheel, checkout = sys.argv[1:]
sys.path[:] = [wheel, *(path for path in sys.path if path != checkout)]
import absa, graph, nodes, schemas
from nodes.assets import prompt, prompt_names
settings = absa.load_settings("abl_no_debate")
print(json.dumps({
    "files": [module.__file__ for module in (absa, graph, nodes, schemas)],
    "enable_debate": settings.pipeline.enable_debate,
    "prompts": {name: prompt(name) for name in prompt_names()},
    "nodes": list(absa.build_graph(settings).get_graph().nodes),
    "label": absa.analyze("사용감은 좋지만 가격은 비싸요.", settings).final_result.label,
}))
"""


def run(command: Sequence[str | Path], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=folder, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation, so that no network is needed.
    run(["-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT], folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def outside(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the installed wheel says when it is used from a foreign folder."""
    folder = tmp_path_factory.mktemp("outside")
    site = folder / "site"
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    run([*install, "--target", site, wheel], folder)
    seen: dict[str, Any] = json.loads(run(["-I", "-c", SCRIPT, site, ROOT], folder))
    assert all(Path(file).is_relative_to(site) for file in seen["files"])
    return seen


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_no_generic_name_lands_in_site_packages(wheel: Path) -> None:
    top = {name.partition("/")[0] for name in names(wheel)}
    assert {name for name in top if not name.endswith(".dist-info")} == PACKAGES


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
