"""What goes into a container, and the files that say so."""

import json
import os
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

pytest.importorskip("langgraph_cli")
from langgraph_cli.config import validate_config_file

ROOT = Path(__file__).parents[1]


def _lines(name: str) -> list[str]:
    return (ROOT / name).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", ["langgraph.json", "langgraph.postgres.json"])
def test_the_server_configuration_names_its_schema_and_python(name: str) -> None:
    document = json.loads((ROOT / name).read_text(encoding="utf-8"))
    assert next(iter(document)) == "$schema"
    assert validate_config_file(ROOT / name)["python_version"] == document["python_version"]
    assert f"Programming Language :: Python :: {document['python_version']}" in (
        ROOT / "pyproject.toml"
    ).read_text(encoding="utf-8")
    assert f"FROM python:{document['python_version']}-slim" in "\n".join(_lines("Dockerfile"))


def _is_ignored(name: str) -> bool:
    patterns = [line for line in _lines(".dockerignore") if line and not line.startswith("#")]
    return any(fnmatch(name, pattern) for pattern in patterns)


def test_secrets_environments_and_results_stay_out_of_images() -> None:
    for name in (".env", ".env.local", ".git", ".venv", "runs", ".mypy_cache", ".absa_cache"):
        assert _is_ignored(name), name


def test_what_the_package_is_made_of_goes_into_images() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [included] = re.findall(
        r"\[tool\.hatch\.build\.targets\.sdist\]\ninclude = (\[.*\])", pyproject
    )
    for name in [*json.loads(included), "pyproject.toml", "constraints.txt", "langgraph.json"]:
        assert not _is_ignored(name), name


def test_every_variable_of_the_example_is_read_somewhere() -> None:
    names = set(re.findall(r"^#?([A-Z_]+)=", "\n".join(_lines(".env.example")), re.MULTILINE))
    assert {"ABSA_TOKEN", "ABSA_CONFIG", "OPENAI_API_KEY"} <= names
    sources = [
        Path(folder, file).read_text(encoding="utf-8")
        for top in ("absa", "nodes", "schemas")
        for folder, _, files in os.walk(ROOT / top)
        for file in files
        if file.endswith(".py")
    ]
    assert [name for name in names if not any(name in source for source in sources)] == []
