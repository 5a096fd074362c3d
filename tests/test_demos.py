"""Few-shot demos: from a file of their own, never from what is evaluated."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from scripted import ScriptedBackend, said

from absa import SettingsError, load_settings
from absa.data import DataError
from absa.demos import Demos
from absa.runs import RunMismatch, RunPlan, run
from absa.runs.verify import verify
from absa.schemas.backend import Ask, Reply
from absa.schemas.output import FinalOutput
from absa.schemas.settings import DemoSettings


def rows(path: Path, *texts: str) -> Path:
    lines = [
        {
            "uid": f"{path.stem}{n}",
            "text": text,
            "lang": "ko",
            "aspects": [{"term": "가격", "from": 0, "to": 2, "polarity": "negative"}],
        }
        for n, text in enumerate(texts)
    ]
    path.write_text("\n".join(json.dumps(x, ensure_ascii=False) for x in lines), encoding="utf-8")
    return path


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    texts = ("가격이 너무 비싸요.", "가격도 서비스도 별로예요.", "가격은 모르겠어요.")
    return rows(tmp_path / "demos.jsonl", *texts)


def test_the_most_similar_come_last(examples: Path):
    demos = Demos(DemoSettings(k=2, path=str(examples)))
    shown = demos.for_text("가격이 비싸요.")
    assert [d["review"] for d in shown][-1] == "가격이 너무 비싸요."
    assert shown[-1]["aspects"] == [{"aspect_term": "가격", "polarity": "negative"}]


def test_random_ones_depend_on_seed_and_text_only(examples: Path):
    settings = DemoSettings(k=1, path=str(examples), pick="random")
    one, same = Demos(settings, seed=1), Demos(settings, seed=1)
    texts = [f"글 {n}" for n in range(20)]
    assert [one.for_text(t) for t in texts] == [same.for_text(t) for t in reversed(texts)][::-1]
    assert len({one.for_text(t)[0]["review"] for t in texts}) > 1


def test_an_example_that_is_evaluated_is_left_out(examples: Path):
    settings = DemoSettings(k=2, path=str(examples))
    demos = Demos(settings, evaluated=["가격이  너무 비싸요."])
    assert demos.left_out == 1
    assert "가격이 너무 비싸요." not in {d["review"] for d in demos.for_text("가격이 비싸요.")}


def test_the_text_itself_is_never_its_own_example(examples: Path):
    demos = Demos(DemoSettings(k=2, path=str(examples)))
    assert "가격은 모르겠어요." not in {d["review"] for d in demos.for_text("가격은 모르겠어요.")}


def test_the_evaluated_file_as_demos_is_an_error_that_says_why(examples: Path):
    texts = [json.loads(line)["text"] for line in examples.read_text("utf-8").splitlines()]
    with pytest.raises(DataError, match="3 are among the evaluated"):
        Demos(DemoSettings(k=1, path=str(examples)), evaluated=texts)


def test_demos_without_a_file_are_refused():
    with pytest.raises(SettingsError, match="demos.path"):
        load_settings(None, {"demos.k": 2})


class Listening(ScriptedBackend):
    """Remembers what every agent was shown."""

    def __init__(self) -> None:
        super().__init__(said())
        self.heard: dict[str, list] = {}

    async def aask(self, question: Ask) -> Reply:
        self.heard[question.node] = question.inputs["demos"]
        return await super().aask(question)


def test_a_run_shows_them_to_every_agent_and_verifies(examples: Path, tmp_path: Path):
    data = rows(tmp_path / "data.jsonl", "가격이 비싸요.")
    settings = load_settings(None, {"demos.k": 1, "demos.path": str(examples)})
    listening = Listening()
    plan = RunPlan(data=data, out=tmp_path / "run", settings=settings)
    report = asyncio.run(run(plan, backend_for=lambda _: listening))
    assert report.exit_code == 0
    assert {"ate", "epm", "judge", "atsa_review"} <= listening.heard.keys()
    assert all(demos for demos in listening.heard.values())
    assert verify(tmp_path / "run").ok

    rows(examples, "가격이 아주 비싸요.", "가격 좋아요.")
    with pytest.raises(RunMismatch, match="demos"):
        asyncio.run(run(plan, backend_for=lambda _: listening))


def test_the_command_line_shows_them_as_python_does(examples: Path, monkeypatch):
    from typer.testing import CliRunner

    from absa import analyze, load_settings
    from absa.backends.offline import OfflineBackend
    from absa.cli import build_app

    shown: list[int] = []
    real = OfflineBackend.ask

    def ask(self, question):
        shown.append(len(question.inputs["demos"]))
        return real(self, question)

    monkeypatch.setattr(OfflineBackend, "ask", ask)
    settings = load_settings(None, {"demos.k": 2, "demos.path": str(examples)})
    text = "The soup was cold."
    by_python = analyze(text, settings)
    command = ["analyze", text, "--json", "--set", "demos.k=2", "--set", f"demos.path={examples}"]
    result = CliRunner().invoke(build_app(), command)
    assert result.exit_code == 0, result.output
    assert set(shown) == {2}
    assert FinalOutput.model_validate_json(result.stdout).final_result == by_python.final_result


def test_one_option_shows_ten(tmp_path: Path):
    from absa.cli.options import settings_from

    given = settings_from(None, None, demos=tmp_path / "train.jsonl").demos
    assert (given.k, given.path, given.pick) == (10, str(tmp_path / "train.jsonl"), "similar")
    assert settings_from(None, ["demos.k=3"], demos=tmp_path / "train.jsonl").demos.k == 3


def test_a_run_takes_the_option(tmp_path: Path):
    from absa.cli import run as absa

    data, out = rows(tmp_path / "data.jsonl", "가격이 비싼 편이에요."), tmp_path / "out"
    train = rows(tmp_path / "train.jsonl", *(f"가격이 {n}번째로 비싸요." for n in range(12)))
    assert absa(["run", str(data), "--out", str(out), "--demos", str(train)]) == 0
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    assert manifest["settings"]["demos"]["k"] == 10
