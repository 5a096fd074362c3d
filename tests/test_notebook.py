"""Results in a notebook: HTML, one line, tables."""

import json
import sys
from pathlib import Path

import pytest

import absa
from absa.ablate.study import FILE
from absa.runs.directory import NoRun
from absa.schemas.errors import InputError
from absa.schemas.output import FinalAspect, FinalOutput

HOSTILE = 'The battery is great <img src=x onerror="alert(1)"> but the screen is dim.'


@pytest.fixture(scope="module")
def output() -> FinalOutput:
    return absa.analyze("The battery is great but the screen is dim.", uid="en-1")


def test_html_marks_aspects_and_evidence_and_says_what_the_debate_did(output: FinalOutput) -> None:
    html = output._repr_html_()
    assert "border-bottom" in html and ">battery</mark>" in html
    for aspect in output.final_result.final_aspects:
        assert f'<td style="text-align:left">{aspect.aspect_term}</td>' in html
    assert "<b>debate: </b>" in html
    assert "<script" not in html and "<style" not in html


def test_html_of_a_hostile_text_is_escaped() -> None:
    result = absa.analyze(HOSTILE)
    aspects = (FinalAspect(aspect_term="<b>x</b>", polarity="<i>", evidence="<script>"),)
    final = result.final_result.model_copy(update={"final_aspects": aspects})
    for shown in (result, result.model_copy(update={"final_result": final})):
        html = shown._repr_html_()
        assert "<img" not in html and "&lt;img" in html
        assert "<b>x" not in html and "<script" not in html and "<i>" not in html


def test_repr_is_one_line(output: FinalOutput) -> None:
    assert repr(output).startswith("FinalOutput(uid='en-1', label=")
    assert "battery: positive" in repr(output)
    assert str(output) == repr(output) and "\n" not in repr(output) and len(repr(output)) < 200


def test_json_normalize_takes_a_dump(output: FinalOutput) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.json_normalize(output.model_dump(), ["final_result", "final_aspects"], ["uid"])
    assert list(table["aspect_term"]) == [a.aspect_term for a in output.final_result.final_aspects]
    assert FinalOutput.model_validate(output.model_dump()) == output


def test_frames_of_an_output_and_of_several(output: FinalOutput) -> None:
    pytest.importorskip("pandas")
    frame = output.to_frame()
    assert list(frame["term"]) == [a.aspect_term for a in output.final_result.final_aspects]
    row = frame[frame.term == "battery"].iloc[0]
    assert output.text[int(row["from"]) : int(row["to"])] == "battery"
    nothing = absa.analyze("It arrived on Monday.", uid="en-2")
    both = absa.to_frame([output, nothing])
    assert list(both["uid"].unique()) == ["en-1", "en-2"]
    assert set(both[both.uid == "en-1"]["polarity"]) == {"positive", "negative"}


def test_frame_of_a_run(output: FinalOutput, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    with_brand = output.model_copy(update={"extra": {"brand": "A"}})
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "outputs.jsonl").write_text(with_brand.model_dump_json() + "\n")
    for path in (tmp_path, str(tmp_path)):
        frame = absa.to_frame(path)
        assert set(frame["brand"]) == {"A"} and len(frame) == len(output.to_frame())


def test_frame_of_a_study(output: FinalOutput, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    configurations = [
        {"name": "single", "settings": {}},
        {"name": "debate", "settings": {}},
        {"name": "constant", "settings": None},
    ]
    (tmp_path / FILE).write_text(json.dumps({"configurations": configurations}))
    for name in ("single", "debate"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
        (tmp_path / name / "outputs.jsonl").write_text(output.model_dump_json() + "\n")
    frame = absa.to_frame(tmp_path)
    assert frame.columns[0] == "configuration"
    counts = frame.groupby("configuration").size()
    assert dict(counts) == {"single": len(output.to_frame()), "debate": len(output.to_frame())}
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(NoRun, match="absa ablate"):
        absa.to_frame(tmp_path)


def test_without_pandas_the_error_says_what_to_install(
    output: FinalOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        output.to_frame()


def test_a_graph_is_drawn_without_a_network() -> None:
    """pytest blocks sockets: LangGraph's own picture would need one."""
    bundle = absa.build_graph()._repr_mimebundle_()
    assert bundle["text/plain"].startswith("<Graph absa: ")
    assert bundle["image/svg+xml"].startswith("<svg") and "judge" in bundle["image/svg+xml"]
    without = absa.load_settings(None, {"pipeline.enable_debate": False})
    assert "judge" not in absa.build_graph(without)._repr_mimebundle_()["image/svg+xml"]
