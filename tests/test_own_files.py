"""Prompts and resources of one's own lie over the shipped ones, file by file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedBackend, ate, atsa, said, validator

import absa
from absa.backends.offline import OfflineBackend
from absa.graph import build_switchable
from absa.nodes.assets import data_dir
from absa.own_files import read_own_files
from absa.runs import RunPlan, run
from absa.runs.identity import identity
from absa.runs.verify import verify
from absa.schemas.errors import InputError
from absa.schemas.settings import Settings

TEXT = "쿨링감은 좋지만 가격은 비싸요."


def with_prompts(folder: Path) -> Settings:
    return absa.load_settings("abl_no_debate", {"prompts.dir": str(folder)})


def with_resources(folder: Path, config: str = "abl_no_debate") -> Settings:
    return absa.load_settings(config, {"resources.dir": str(folder)})


def resource(folder: Path, name: str, **changes: Any) -> Path:
    """A copy of a shipped resource with changes."""
    content = json.loads((data_dir("resources") / name).read_text("utf-8"))
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**content, **changes}, ensure_ascii=False), "utf-8")
    return path


def test_an_own_prompt_is_asked_with_and_the_others_stay(tmp_path: Path) -> None:
    (tmp_path / "ate.md").write_text("Name the aspects.\n\nExamples\nquestion\nanswer\n", "utf-8")
    answers = said(ate=ate("가격"), atsa=atsa(("가격", "negative", "비싸요", 0.9)))
    backend = ScriptedBackend({**answers, "validator": validator()})
    absa.build_graph(with_prompts(tmp_path), backend=backend).invoke({"text": TEXT})
    asked = {question.node: question for question in backend.asked}
    assert asked["ate"].system == "Name the aspects."
    assert asked["ate"].examples == (("question", "answer"),)
    assert (
        asked["atsa"].system
        == (data_dir("prompts") / "atsa.md").read_text("utf-8").partition("\nExamples\n")[0].strip()
    )

    shipped = ScriptedBackend(backend.answers)
    absa.build_graph(absa.load_settings("abl_no_debate"), backend=shipped).invoke({"text": TEXT})
    assert {q.node: q for q in shipped.asked}["ate"].system != "Name the aspects."


def test_an_own_lexicon_changes_what_the_offline_analyser_reads(tmp_path: Path) -> None:
    text = "The grommet is zorky."
    shipped = json.loads((data_dir("resources") / "lexicons/en.json").read_text("utf-8"))
    resource(tmp_path, "lexicons/en.json", opinions={**shipped["opinions"], "zorky": 1.0})
    settings = with_resources(tmp_path)
    assert absa.analyze(text, absa.load_settings("abl_no_debate")).final_result.label != "positive"
    assert absa.analyze(text, settings).final_result.label == "positive"
    switchable = build_switchable(
        settings.pipeline, OfflineBackend(), own_files=read_own_files(settings)
    )
    output = asyncio.run(switchable.ainvoke({"text": text}))["output"]
    assert output.final_result.label == "positive"


def test_own_patterns_count_in_the_rules(tmp_path: Path) -> None:
    """Without particles, 가격은 and 가격 are two aspects."""
    resource(tmp_path, "patterns/ko.json", particles=[])
    answers = said(ate=ate("가격은"), atsa=atsa(("가격", "negative", "비싸요", 0.9)))

    def aspects(settings: Settings) -> list[str | None]:
        graph = absa.build_graph(settings, backend=ScriptedBackend(answers))
        output = graph.invoke({"text": "가격은 비싸요."})["output"]
        return [aspect.aspect_term for aspect in output.final_result.final_aspects]

    assert aspects(absa.load_settings("abl_no_debate")) == ["가격"]
    assert aspects(with_resources(tmp_path)) != ["가격"]


MISTAKES = {
    "no folder": ("prompts", None, "", r"prompts\.dir: .* is not a folder"),
    "misspelt prompt": ("prompts", "atee.md", "x", r"did you mean 'ate\.md'"),
    "misspelt resource": ("resources", "lexicon/en.json", "{}", "did you mean 'lexicons/en.json'"),
    "a model": ("resources", "models/tagger_en.crf", "x", "absa train"),
    "prices": ("resources", "prices.json", "{}", "ABSA_PRICES"),
    "not JSON": ("resources", "patterns/ko.json", "{", r"ko\.json cannot be used"),
    "not UTF-8": ("prompts", "ate.md", b"\xff", r"ate\.md cannot be used"),
    "not an object": ("resources", "answer_keys.json", "[]", "must contain a JSON object"),
    "misspelt key": ("resources", "patterns/en.json", '{"synonym": []}', "did you mean 'synonyms'"),
    "missing key": ("resources", "lexicons/en.json", "{}", "'opinions' must be present"),
}


@pytest.mark.parametrize(("kind", "name", "content", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_an_error_before_anything_runs(
    tmp_path: Path, kind: str, name: str | None, content: str | bytes, message: str
) -> None:
    folder = tmp_path / "own"
    if name is not None:
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message):
        absa.build_graph(absa.load_settings(None, {f"{kind}.dir": str(folder)}))


def test_own_files_are_part_of_a_runs_identity(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").write_text("not ours")
    prompt = tmp_path / "ate.md"
    prompt.write_text("Name the aspects.", "utf-8")
    before = identity(with_prompts(tmp_path), {})
    prompt.write_text("Name every aspect.", "utf-8")
    assert identity(with_prompts(tmp_path), {}) != before


def test_analyze_sees_a_file_that_was_changed_since(tmp_path: Path) -> None:
    text = "The grommet is zorky."
    shipped = json.loads((data_dir("resources") / "lexicons/en.json").read_text("utf-8"))
    labels = []
    for polarity in (-1.0, 1.0):
        resource(tmp_path, "lexicons/en.json", opinions={**shipped["opinions"], "zorky": polarity})
        labels.append(absa.analyze(text, with_resources(tmp_path)).final_result.label)
    assert labels == ["negative", "positive"]


def test_a_run_with_own_patterns_is_verified_with_them(tmp_path: Path) -> None:
    own = tmp_path / "own"
    resource(own, "patterns/ko.json", particles=[], synonyms=[])
    data = tmp_path / "data.jsonl"
    rows = [{"uid": f"u{n}", "text": f"{TEXT} {n}", "lang": "ko"} for n in range(3)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    settings = with_resources(own, "conflict_review")
    report = asyncio.run(run(RunPlan(data, tmp_path / "run", settings)))
    assert report.exit_code == 0

    before = verify(tmp_path / "run")
    assert [v for check in before.checks for v in check.violations] == []
    assert not any("resources.dir" in words for words in (*before.notes, *before.warnings))
    resource(own, "patterns/ko.json")
    after = verify(tmp_path / "run")
    assert any("resources.dir" in words for words in (*after.notes, *after.warnings))
