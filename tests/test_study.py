"""The page of a study: the verdict first, figures that can be checked, and texts that differ."""

from __future__ import annotations

import asyncio
import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import resvg_py
from playwright.sync_api import Browser, Page

from absa.ablate.configurations import load, roles
from absa.ablate.study import Study, write
from absa.ablate.study import study as compare_runs
from absa.cli import run as run_cli
from absa.report import png
from absa.report.figures import CostPoint, Interval, cost_plot, intervals, standalone
from absa.report.study import _points, write_study
from absa.report.study_numbers import read_study
from absa.runs import RunPlan, run

CONFIGS = ("default", "abl_no_debate", "baseline_single", "baseline_vote")
SVG = "{http://www.w3.org/2000/svg}"
ATTACK = '<img src=x onerror="window.attacked=1"> The food is great.'


def sample(number: int, text: str, **aspects: str) -> dict[str, Any]:
    gold = [
        {"term": t, "from": text.index(t), "to": text.index(t) + len(t), "polarity": p}
        for t, p in aspects.items()
    ]
    return {"uid": f"s{number}", "text": text, "aspects": gold}


TEXTS = [
    ("사용감은 좋지만 가격은 비싸요.", {"사용감": "positive", "가격": "negative"}),
    ("The battery is great but the screen is dim.", {"battery": "positive", "screen": "negative"}),
    ("The room was clean.", {"room": "positive"}),
    ("배송이 빨라요.", {"배송": "negative"}),
    (ATTACK, {"food": "positive"}),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four configurations, of which one is made to differ in one text."""
    folder = tmp_path_factory.mktemp("study")
    data = folder / "data.jsonl"
    rows = [sample(n, text, **gold) for n, (text, gold) in enumerate(TEXTS * 5)]
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    out = folder / "s"
    chosen = load(CONFIGS, {})
    with ThreadPoolExecutor() as pool:  # a browser has a loop in this thread
        for one in chosen:
            assert one.settings is not None
            plan = RunPlan(data=data, out=out / one.name, settings=one.settings, use_cache=False)
            assert pool.submit(asyncio.run, run(plan)).result().exit_code == 0
    outputs = out / "baseline_single" / "outputs.jsonl"
    lines = outputs.read_text(encoding="utf-8").splitlines()
    changed = json.loads(lines[2])
    changed["final_result"]["final_aspects"][0]["polarity"] = "negative"
    changed["final_result"]["final_tuples"][0]["polarity"] = "negative"
    lines[2] = json.dumps(changed)
    outputs.write_text("\n".join(lines) + "\n", encoding="utf-8")
    compared = compare_runs(Study(out=out, configurations=chosen, roles=roles(chosen)))
    write(out, compared)
    return out


@pytest.fixture(scope="module")
def page_file(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(study, tmp_path_factory.mktemp("page") / "study.html").path


@pytest.fixture
def open_page(browser: Browser, page_file: Path) -> Iterator[Callable[..., Page]]:
    pages, problems = [], []

    def open_(width: int = 1280) -> Page:
        page = browser.new_page(viewport={"width": width, "height": 800})
        pages.append(page)
        page.on("console", lambda m: problems.append(m.text))
        page.on("request", lambda r: None if r.url.startswith("file:") else problems.append(r.url))
        page.goto(page_file.as_uri())
        return page

    yield open_
    for page in pages:
        page.close()
    assert problems == []


def test_the_verdict_comes_first_and_is_that_of_the_study(
    open_page: Callable[..., Page], study: Path
) -> None:
    page = open_page()
    verdict = json.loads((study / "ablation.json").read_text(encoding="utf-8"))["verdict"]
    assert verdict["word"] == "no_difference"
    assert page.locator("h1").inner_text().startswith("No difference is shown")
    against = page.locator(".against li").all_inner_texts()
    assert [line.split(":")[0] for line in against] == ["Against one call", "Against the vote"]
    assert all("no difference shown" in line for line in against)


def test_every_configuration_is_held_against_both_baselines(page_file: Path, study: Path) -> None:
    found = json.loads((study / "ablation.json").read_text(encoding="utf-8"))
    figure = ElementTree.parse(page_file.with_name("study_figures") / "over_single.svg")
    names = [t.text for t in figure.iter(f"{SVG}text") if "name" in t.attrib["class"]]
    assert set(CONFIGS) - {"baseline_single"} <= set(names)
    compared = next(c for c in found["comparisons"] if c["other"] == "baseline_single")
    strict = compared["differences"]["pair_strict_f1"]
    row = next(r for r in read_study(study).against("baseline_single") if r.name == "default")
    for part in ("value", "low", "high"):
        assert getattr(row, part) == pytest.approx(100 * strict[part])
    assert row.value > 0
    vote = ElementTree.parse(page_file.with_name("study_figures") / "over_vote.svg")
    names = [t.text for t in vote.iter(f"{SVG}text") if "name" in t.attrib["class"]]
    assert names == ["default", "abl_no_debate"]  # one call is not a vote of one call


def test_the_front_holds_what_nothing_cheaper_surpasses(study: Path) -> None:
    points = {p.name: p for p in _points(read_study(study))}
    single, vote = points["baseline_single"], points["baseline_vote"]
    assert single.is_on_front and single.cost == 1 and vote.cost == 10
    assert points["default"].value > single.value
    assert not points["default"].is_on_front  # as good as without the debate, which costs less
    assert points["abl_no_debate"].is_on_front


def test_texts_that_differ_are_shown_with_gold_and_marks(open_page: Callable[..., Page]) -> None:
    page = open_page()
    case = page.locator("details", has_text="The room was clean.")
    case.first.locator("summary").click()
    rows = case.first.locator("tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["gold", *CONFIGS]
    assert "negative" in rows[3] and rows[3].endswith("✕") and rows[1].endswith("✓")
    assert page.get_by_text("Only default is right").is_visible()


def test_hostile_text_stays_text(open_page: Callable[..., Page], page_file: Path) -> None:
    assert "<img" not in page_file.read_text(encoding="utf-8")
    assert open_page().evaluate("window.attacked") is None


def test_it_can_be_read_on_a_phone(open_page: Callable[..., Page]) -> None:
    page = open_page(390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    figure = page.locator(".slim .figure").first
    assert figure.is_visible() and not page.locator(".wide .figure").first.is_visible()
    # The figure is drawn for this width: its letters are not scaled down.
    assert figure.bounding_box()["width"] >= 290


def test_reservations_are_said_in_words(open_page: Callable[..., Page]) -> None:
    text = open_page().locator(".card").last.inner_text()
    assert "embedded analyzer played every role" in text
    assert "does not mean equal" in text


def test_figures_stand_alone(page_file: Path) -> None:
    files = sorted(page_file.with_name("study_figures").glob("*.svg"))
    assert {"over_single", "over_vote", "cost"} <= {file.stem for file in files}
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert ElementTree.fromstring(text).tag == f"{SVG}svg"
        assert "var(" not in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_each_figure_is_a_png_file_too(browser: Browser, page_file: Path) -> None:
    folder = page_file.with_name("study_figures")
    files = sorted(folder.glob("*.png"))
    assert [file.stem for file in files] == sorted(file.stem for file in folder.glob("*.svg"))
    page = browser.new_page()
    for file in files:
        content = file.read_bytes()
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        svg = ElementTree.parse(file.with_suffix(".svg")).getroot().attrib
        width, height = struct.unpack(">II", content[16:24])
        assert (width, height) == (2 * int(svg["width"]), 2 * int(svg["height"]))
        seen = page.evaluate(COLOURS, f"data:image/png;base64,{b64encode(content).decode()}")
        assert seen["corner"] == [255, 255, 255, 255]  # on white, not transparent
        assert seen["dark"] > 500
    page.close()


# The colour in the corner of a picture, and the number of pixels of letters and lines.
COLOURS = """async (url) => {
  const picture = new Image();
  picture.src = url;
  await picture.decode();
  const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
  canvas.drawImage(picture, 0, 0);
  const { data } = canvas.getImageData(0, 0, picture.width, picture.height);
  let dark = 0;
  for (let at = 0; at < data.length; at += 4) dark += data[at] < 128;
  return { corner: [...data.slice(0, 4)], dark };
}"""


def test_korean_letters_are_in_the_png_file() -> None:
    names = ("가나다", "마바사")
    drawn = [png.png(standalone(intervals([Interval(n, 1, 0, 2)], 860, "x"))) for n in names]
    assert drawn[0] != drawn[1]


def test_without_the_extra_the_command_says_how_to_get_png(
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(png, "is_available", lambda: False)
    page = tmp_path / "study.html"
    assert run_cli(["report", str(study), "-o", str(page)]) == 0
    printed = capsys.readouterr()
    assert "pip install 'absa-debate-graph[png]'" in printed.err
    assert "(SVG)" in printed.out
    folder = tmp_path / "study_figures"
    assert {file.suffix for file in folder.iterdir()} == {".svg"}


def test_without_fonts_the_problem_is_reported(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert png.has_font()
    draw = resvg_py.svg_to_bytes
    monkeypatch.setattr(resvg_py, "svg_to_bytes", partial(draw, skip_system_fonts=True))
    written = write_study(study, tmp_path / "study.html")
    assert written.problem == png.NO_FONT and written.png


@pytest.mark.parametrize("width", [340, 860])
def test_whiskers_keep_their_place(width: int) -> None:
    rows = [Interval("a", 1, -1, 3), Interval("b", -2, -4, -1, "bad")]
    figure = ElementTree.fromstring(standalone(intervals(rows, width, "points")))
    lines = [x for x in figure.iter(f"{SVG}line") if x.attrib["class"].startswith("whisker")]
    ends = [(float(x.attrib["x1"]), float(x.attrib["x2"])) for x in lines[::3]]
    zero = float(
        next(x for x in figure.iter(f"{SVG}line") if x.attrib["class"] == "zero").attrib["x1"]
    )
    assert ends[0][0] < zero < ends[0][1] and ends[1][1] < zero
    assert all(0 <= x <= width for end in ends for x in end)


def test_nothing_to_plot_is_no_error() -> None:
    assert re.search("viewBox", cost_plot([], 340, "calls", "none"))


@pytest.mark.parametrize("width", [340, 860])
def test_intervals_of_equal_cost_do_not_cover_each_other(width: int) -> None:
    points = [CostPoint(str(n), 10, 70 + 3 * n, 60, 90, True) for n in range(4)]
    figure = ElementTree.fromstring(standalone(cost_plot(points, width, "calls", "score")))
    places = sorted(float(circle.attrib["cx"]) for circle in figure.iter(f"{SVG}circle"))
    assert all(right - left >= 22 for left, right in pairwise(places))
    assert 0 < places[0] and places[-1] < width


@pytest.mark.parametrize("width", [340, 860])
def test_a_point_stands_where_its_cost_is(width: int) -> None:
    costs = [0, 1, 2.1, 3, 10]
    points = [CostPoint(str(cost), cost, 60 + cost, 50, 70, False) for cost in costs]
    figure = ElementTree.fromstring(standalone(cost_plot(points, width, "calls", "score")))
    places = [float(circle.attrib["cx"]) for circle in figure.iter(f"{SVG}circle")]
    assert places == sorted(places)


def test_the_command_tells_a_study_from_a_run(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert run_cli(["report", str(study), "-o", str(out), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["configurations"] == 4 and written["samples"] == 25 and out.is_file()
    assert run_cli(["report", str(study), str(study / "default"), "-o", str(out)]) == 2
    assert "is a study" in capsys.readouterr().err
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "ablation.json").write_text('{"sweep": {}}')
    assert run_cli(["report", str(tmp_path / "sweep"), "-o", str(out)]) == 2
    assert "compares nothing" in capsys.readouterr().err
