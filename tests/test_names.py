"""docs/reference/names.md: everything it says to exist here exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin

import pytest
import typer
from pydantic import BaseModel

from absa import analyze
from absa.cli import build_app
from absa.config import ALIASES
from absa.metrics.process import ProcessTally
from absa.nodes.override_gate import OVERRIDE
from absa.runs.artefacts import ARTEFACTS
from absa.schemas.output import FinalOutput
from absa.schemas.records import Verdict
from absa.schemas.sample import Sample
from absa.schemas.settings import MODEL_NODES, Settings
from absa.schemas.state import STATE_KEYS
from absa.scorecard import scorecard

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "names.md"
KINDS = {"class", "prompt", "file", "function", "setting", "field", "metric"}
WORD = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    document: str
    name: str
    kind: str
    here: list[str]
    where: str


def rows(text: str) -> Iterator[Row]:
    """The rows of the tables, one table per document."""
    for section in text.split("\n## ")[1:]:
        title, *lines = section.splitlines()
        for line in lines:
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if line.startswith("| `"):
                assert len(cells) == 4, line
                yield Row(title, cells[0].strip("`"), cells[1], WORD.findall(cells[2]), cells[3])


def parts(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a field may hold, in whatever container."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation) if get_origin(annotation) is not None else ():
        yield from parts(argument)


def has_path(model: Any, path: str) -> bool:
    """Whether a model has a field of this dotted path."""
    first, _, rest = path.partition(".")
    holders = [m for m in parts(Union[model, None]) if first in m.model_fields]  # noqa: UP007
    fields = [m.model_fields[first].annotation for m in holders]
    return bool(fields) and (not rest or any(has_path(field, rest) for field in fields))


def names_in(file: Path) -> set[str]:
    """Top-level names of a Python file, and `Class.field` for each class."""
    names: set[str] = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        prefix, members = "", [node]
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
            prefix, members = f"{node.name}.", node.body
        for member in members:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(prefix + member.name)
            targets = getattr(member, "targets", [getattr(member, "target", None)])
            names |= {prefix + t.id for t in targets if isinstance(t, ast.Name)}
    return names


def dotted(value: Any, prefix: str = "") -> set[str]:
    """All dotted keys of nested dictionaries."""
    if not isinstance(value, dict):
        return set()
    here = {f"{prefix}{key}" for key in value}
    return here.union(*(dotted(item, f"{prefix}{key}.") for key, item in value.items()))


def metrics() -> set[str]:
    return set(ProcessTally().summary())


@cache
def scorecard_keys() -> set[str]:
    output = analyze("가격이 비싸요.")
    return dotted(scorecard(output, Sample(uid="u", text=output.text), 0))


def commands() -> set[str]:
    return {f"absa {name}" for name in typer.main.get_group(build_app()).commands}


LISTS: dict[str, Callable[[], Any]] = {
    "state": lambda: STATE_KEYS,
    "node": lambda: MODEL_NODES,
    "scorecard": scorecard_keys,
    "metric": metrics,
    "command": commands,
    "run directory": lambda: ARTEFACTS,
    "log entry": lambda: [f"{OVERRIDE}_{verdict}" for verdict in get_args(Verdict)],
}


def exists(row: Row, name: str) -> bool:
    """Whether a name is at the place that the row gives."""
    place = re.split(r"[,;:(]", row.where)[0].strip()
    if place == "file":
        return (ROOT / name).exists()
    if place == "setting":
        return has_path(Settings, name)
    if place == "output":
        return has_path(FinalOutput, name)
    if place in LISTS:
        return name in LISTS[place]()
    file = ROOT / WORD.findall(place)[0]
    if place.startswith("slot in"):
        return f"`{name}`" in file.read_text("utf-8") or f'"{name}":' in file.read_text("utf-8")
    if place.startswith("value in"):
        return f'"{name}"' in file.read_text("utf-8")
    return file.suffix == ".py" and name in names_in(file)


ROWS = list(rows(PAGE.read_text("utf-8")))


def test_each_document_has_a_table_and_names_nothing_twice() -> None:
    tables = {row.document: [r.name for r in ROWS if r.document == row.document] for row in ROWS}
    assert len(tables) == 5
    for names in tables.values():
        assert len(names) > 30 and len(names) == len(set(names))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}")
def test_what_a_row_names_exists(row: Row) -> None:
    assert row.kind in KINDS
    if not row.here:
        assert len(row.where.split()) > 5, "a name that does not exist here needs a reason"
    for name in row.here:
        assert exists(row, name), f"{name} is not at: {row.where}"


@pytest.mark.parametrize(
    ("here", "where"),
    [
        ("prompts/debate_speaker.md", "file"),
        ("pipeline.debate.enabled", "setting"),
        ("stage1_ate.labels", "output"),
        ("AteAnswers", "`schemas/answers.py`"),
        ("AteAnswer.aspect", "`schemas/answers.py`"),
        ("stage1_results", "state"),
        ("p_lat", "node"),
        ("stage_delta.change", "scorecard"),
        ("debate_coverage", "metric"),
        ("absa runs", "command"),
        ("gate.jsonl", "run directory"),
        ("transcript", "slot in `prompts/judge.md`"),
        ("debate_overrides", "value in `nodes/override_gate.py` (`source`)"),
    ],
)
def test_a_wrong_row_is_seen(here: str, where: str) -> None:
    assert not exists(Row("", "x", "field", [here], where), here)


def test_names_that_settings_also_take_are_aliases_of_what_the_row_says() -> None:
    also = {row.name: row.here for row in ROWS if "under the name of the document" in row.where}
    assert also == {".".join(map(str, a)): [".".join(map(str, k))] for a, k in ALIASES.items()}
