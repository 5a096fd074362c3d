"""The HTML report, in a real browser: what it shows, and what a hostile review cannot do to it."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from scripted import (
    all_say,
    ate,
    atsa,
    atsa_review,
    confirm,
    judge,
    propose,
    said,
    set_polarity,
    turn,
    validator,
)

from absa.cli import run as run_cli
from absa.config import load_settings
from absa.metrics.quality import score_sample
from absa.report import write_report
from absa.report.page import embed, squeeze
from absa.report.reading import short_names
from absa.report.scores import headline
from absa.runs import RunPlan, run
from absa.runs.directory import NoRun
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.schemas.output import FinalOutput
from absa.schemas.sample import GoldAspect

ATTACK = (
    '<script>window.attacked=1</script><img src=x onerror="window.attacked=2">'
    "</script><!-- \u2028 The food is great."
)
HOSTILE_UID = "<img src=x onerror=window.attacked=3>/&?#%"

Json = dict[str, Any]


def sure(aspect: str, polarity: str, evidence: str, confidence: float = 0.9) -> Json:
    """All agree from the beginning."""
    spoken = turn(confirm(aspect, polarity, evidence=evidence))
    return said(
        ate=ate(aspect),
        atsa=atsa((aspect, polarity, evidence, confidence)),
        epm=spoken,
        cj=spoken,
        judge=judge(
            confirm(aspect, polarity),
            tuples=[(aspect, polarity)],
            label=polarity,
            spans=[evidence],
            evidence={aspect: evidence},
            rationale=f"{aspect} is {polarity}",
        ),
    )


def turned(aspect: str, old: str, new: str, evidence: str) -> Json:
    """Stage 1 says one thing, the debate another, and the gate lets it pass."""
    return said(
        ate=ate(aspect),
        atsa=atsa((aspect, old, evidence, 0.5)),
        **all_say(aspect, new),
        judge=judge(
            set_polarity(aspect, new),
            tuples=[(aspect, new)],
            label=new,
            spans=[evidence],
            evidence={aspect: evidence},
        ),
    )


def gold(text: str, *aspects: tuple[str, str]) -> list[Json]:
    return [
        {"term": t, "from": text.index(t), "to": text.index(t) + len(t), "polarity": p}
        for t, p in aspects
    ]


def sample(uid: str, text: str, answers: Json | None, *aspects: tuple[str, str]) -> Json:
    return {"uid": uid, "text": text, "aspects": gold(text, *aspects), "answers": answers}


BOTH = "사용감은 좋지만 가격은 비싸요."
EMOJI = "👍🏽😀 배송은 빨라요."
SAMPLES = [
    sample(
        "ko-fixed",
        "가격이 비싸요.",
        turned("가격", "positive", "negative", "비싸요"),
        ("가격", "negative"),
    ),
    sample(
        "en-broke",
        "The food is great.",
        turned("food", "positive", "negative", "great"),
        ("food", "positive"),
    ),
    sample(
        "ko-conflict",
        BOTH,
        said(
            ate=ate("사용감", "가격"),
            atsa=atsa(("사용감", "positive", "좋지만", 0.9), ("가격", "negative", "비싸요", 0.9)),
            validator=validator("CONTRAST", proposals=[propose("FLIP_POLARITY", "배송")]),
            epm=turn(set_polarity("가격", "positive"), confirm("사용감", "positive")),
            tan=turn(set_polarity("가격", "negative")),
            judge=judge(label="mixed", spans=["비싸요"], rationale="가격 is contested"),
            atsa_review=atsa_review(("가격", "flip_polarity", "negative")),
        ),
        ("사용감", "positive"),
        ("가격", "negative"),
    ),
    sample("ko-emoji", EMOJI, sure("배송", "positive", "빨라요"), ("배송", "positive")),
    sample(HOSTILE_UID, ATTACK, sure("food", "positive", "great"), ("food", "positive")),
    sample("en-failed", "Nobody answers this one.", None),
    *(
        sample(f"en-{n:03}", f"Room {n} was clean.", sure("Room", "positive", "clean"))
        for n in range(60)
    ),
]


class Scripted:
    """Answers by sample; a sample without answers fails."""

    def __init__(self, answers: Mapping[str, Json | None]) -> None:
        self._answers = answers

    def ask(self, question: Ask) -> Reply:
        answers = self._answers[question.uid]
        if answers is None:
            raise BackendError(
                "the model is <b>away</b>", node=question.node, turn=question.turn, attempts=3
            )
        usage = {"prompt_tokens": 100, "completion_tokens": 20}
        return Reply(answers[question.node], backend="scripted", latency_ms=1.5, usage=usage)

    async def aask(self, question: Ask) -> Reply:
        return self.ask(question)


def run_into(out: Path, data: Path, settings: Mapping[str, Any] | None = None) -> Path:
    answers = {s["uid"]: s["answers"] for s in SAMPLES}
    plan = RunPlan(data, out, load_settings(None, settings or {}), use_cache=False)
    # In a thread of its own: Playwright's loop runs in this one.
    with ThreadPoolExecutor() as pool:
        job = pool.submit(lambda: asyncio.run(run(plan, backend_for=lambda _: Scripted(answers))))
        job.result()
    return out


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "reviews.jsonl"
    rows = [{k: v for k, v in s.items() if k != "answers"} for s in SAMPLES]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join([*lines, "{no json"]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def debate(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A run directory."""
    return run_into(tmp_path_factory.mktemp("runs") / "debate", data)


@pytest.fixture(scope="module")
def page_file(debate: Path) -> Path:
    """A report about one run."""
    return write_report([debate], debate.parent / "one.html").path


Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens a report; at the end there must have been no error and no request."""
    contexts, problems = [], []

    def open_(path: Path, where: str = "", width: int = 1280, **more: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 800}, **more)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda m: problems.append(m.text) if m.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda d: (problems.append(d.message), d.dismiss()))
        page.on("request", lambda r: None if r.url.startswith("file:") else problems.append(r.url))
        page.goto(f"{path.as_uri()}{where}")
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert problems == []


def uids(page: Page) -> list[str]:
    return page.locator("#list .uid").all_text_contents()


def tells(page: Page, name: str) -> str:
    """What a part of the sample's story says."""
    part = page.locator(".part", has=page.locator("h3", has_text=name))
    return " ".join(part.inner_text().split())


# Overview -----------------------------------------------------------------------------------------


def test_the_overview_counts_what_the_run_did(page_file: Path, open_page: Open) -> None:
    page = open_page(page_file)
    text = " ".join(page.locator("main").inner_text().split())
    assert "65 samples" in text
    assert "1 failed · 1 unreadable line" in text
    assert "1 fixed, 1 broke" in text
    assert "Override: polarity changed 2" in text
    assert "line 67 of the data" in text
    assert "No scores yet: run absa evaluate debate first" in text
    assert page.locator(".reliability").count() == 2


def test_the_graph_is_drawn_in_the_page_with_the_edges_of_the_settings(
    page_file: Path, open_page: Open
) -> None:
    page = open_page(page_file)
    box = page.locator(".drawing svg").first
    expect(box).to_be_visible()
    assert "validator_review" in (box.text_content() or "")
    # Its style sheet is hashed into the policy, and stays in the drawing.
    fill = "e => getComputedStyle(e).fill"
    assert page.locator(".drawing .agent rect").first.evaluate(fill) == "rgb(221, 244, 255)"


def test_the_graph_of_a_protocol_that_needs_a_model_is_drawn(debate: Path, tmp_path: Path) -> None:
    run_dir = shutil.copytree(debate, tmp_path / "selective")
    manifest = json.loads((run_dir / "manifest.json").read_text("utf-8"))
    manifest["settings"]["pipeline"]["protocol"] = "selective"
    manifest["settings"]["backend"].update(kind="openai", model="small")
    (run_dir / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    path = write_report([run_dir], tmp_path / "r.html").path
    assert 'data-node="extract"' in path.read_text(encoding="utf-8")


def test_a_bar_leads_to_its_samples(page_file: Path, open_page: Open) -> None:
    page = open_page(page_file)
    page.get_by_role("link", name="Override: polarity changed").click()
    expect(page.locator("#found")).to_have_text("2 of 66 samples")
    assert uids(page) == ["ko-fixed", "en-broke"]


def test_scores_and_their_interval_stand_in_the_headline_once_there_are_metrics(
    debate: Path, open_page: Open, tmp_path: Path
) -> None:
    run_dir = shutil.copytree(debate, tmp_path / "evaluated")
    run_cli(["evaluate", str(run_dir)])
    page = open_page(write_report([run_dir], tmp_path / "r.html").path)
    text = " ".join(page.locator(".headline").inner_text().split())
    assert "No scores yet" not in text
    assert "Pair F1" in text
    assert "Stage 1" in text
    assert "95 % interval" in text


def test_metrics_of_an_unknown_shape_are_no_scores() -> None:
    assert headline(None) is None
    assert headline({"quality": [1, 2]}) is None
    assert headline({"quality": {"stage1": {"pair": "?"}, "final": None}}) is None


def test_several_runs_stand_side_by_side_and_the_same_text_is_a_click_away(
    debate: Path, data: Path, open_page: Open, tmp_path: Path
) -> None:
    other = run_into(tmp_path / "quiet", data, {"pipeline.enable_debate": False})
    page = open_page(write_report([debate, other], tmp_path / "two.html").path)
    heads = page.locator("section", has_text="At a glance").first.locator("thead th")
    assert heads.all_text_contents() == ["debate", "quiet"]
    assert page.locator(".drawing").count() == 2
    page.goto(f"{page.url}#ko-fixed")
    page.get_by_role("link", name="quiet").click()
    expect(page).to_have_url(re.compile(r"#ko-fixed/r1$"))
    expect(page.locator("#detail .facts")).to_contain_text("quiet")
    assert "quiet (shown)" in tells(page, "The same text elsewhere")
    expect(page.locator("h3", has_text="The debate")).to_have_count(0)


# Samples ------------------------------------------------------------------------------------------


def test_filters_and_search_narrow_the_list(page_file: Path, open_page: Open) -> None:
    page = open_page(page_file, "#/samples")
    expect(page.locator("#found")).to_have_text("66 samples")
    for name, found in (
        ("Changed", ["ko-fixed", "en-broke"]),
        ("Fixed", ["ko-fixed"]),
        ("Broke", ["en-broke"]),
        ("Conflict", ["ko-conflict"]),
        ("Disputed", ["ko-conflict"]),
        ("Failed", ["en-failed"]),
    ):
        button = page.locator("#toggles").get_by_role("button", name=name)
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        assert [u for u in uids(page) if u in found] == found, name
        page.get_by_role("button", name="Clear filters").click()
    page.get_by_text("More filters").click()
    page.locator("#selects").get_by_label("Language").select_option("ko")
    expect(page.locator("#found")).to_have_text("3 of 66 samples")
    page.locator("#selects").get_by_label("Gate").select_option("already_confident")
    expect(page.locator("#found")).to_have_text("1 of 66 samples")
    page.get_by_role("button", name="Clear filters").click()
    page.locator("#search").fill("가격 비싸요")
    expect(page.locator("#found")).to_have_text("2 of 66 samples")


def test_the_list_keeps_only_the_rows_in_sight_in_the_document(
    page_file: Path, open_page: Open
) -> None:
    page = open_page(page_file, "#/samples")
    assert page.locator("#list .row").count() < 30
    page.locator("#list").evaluate("e => { e.scrollTop = e.scrollHeight }")
    expect(page.locator("#list .uid", has_text="en-failed")).to_be_visible()


def test_a_sample_tells_its_whole_story(page_file: Path, open_page: Open) -> None:
    page = open_page(page_file, "#/samples")
    page.locator("#list .row", has_text="ko-fixed").click()
    expect(page).to_have_url(re.compile(r"#ko-fixed$"))
    expect(page.locator("#detail h2")).to_have_text("ko-fixed")
    compared = tells(page, "Gold, Stage 1, final")
    assert "가격 − negative + positive ✕ − negative ✓" in compared
    assert "from debate override" in compared
    debate = tells(page, "The debate")
    assert "EPM Evidence–Polarity Mapper sets 가격 to − negative" in debate
    gate = tells(page, "The override gate")
    assert "Total 2.3 ≥ 1.6" in gate
    assert "Margin 2.3 ≥ 0.8" in gate
    assert "Every condition holds" in gate
    assert "total 2.3 ≥ 1.6 low_signal" in gate
    assert "1 applied, 0 refused" in tells(page, "Corrections")
    assert "RuleB" in tells(page, "The Moderator")
    assert "validator_review" in tells(page, "Calls")
    assert "Stage 2 was adopted" in tells(page, "In short")


def test_what_was_refused_is_told_with_its_reason(page_file: Path, open_page: Open) -> None:
    page = open_page(page_file, "#ko-conflict")
    assert "Refused: 배송: the Validator wanted to flip its polarity" in tells(page, "Corrections")
    gate = tells(page, "The override gate")
    assert "The debate's signal was too weak (total 1.0 < 1.6)." in gate
    assert "not asked" in gate
    assert "contrast:mid" in tells(page, "Risks the Validator saw")


def test_aspects_and_evidence_are_marked_by_colour_and_by_more_than_colour(
    page_file: Path, open_page: Open
) -> None:
    page = open_page(page_file, "#ko-conflict")
    sentence = page.locator(".sentence")
    aspects = sentence.locator("mark.a")
    assert aspects.all_text_contents() == ["사용감1+", "가격2−"]
    evidence = sentence.locator("mark.e")
    assert evidence.all_text_contents() == ["좋지만1", "비싸요2"]
    style = "e => getComputedStyle(e)"
    assert aspects.first.evaluate(f"{style}.borderTopStyle") == "solid"
    colours = [aspects.nth(n).evaluate(f"{style}.borderTopColor") for n in (0, 1)]
    assert colours[0] != colours[1]
    lines = [evidence.nth(n).evaluate(f"{style}.textDecorationStyle") for n in (0, 1)]
    assert lines == ["solid", "dashed"]


def test_marks_sit_right_behind_characters_outside_the_basic_plane(
    page_file: Path, open_page: Open
) -> None:
    page = open_page(page_file, "#ko-emoji")
    sentence = page.locator(".sentence")
    assert sentence.locator("mark.a").text_content() == "배송1+"
    assert sentence.locator("mark.e").text_content() == "빨라요1"
    page.get_by_role("button", name="Gold", exact=True).click()
    assert sentence.locator("mark").all_text_contents() == ["배송1+"]
    page.locator(".sentence sup").evaluate_all("found => found.forEach((s) => s.remove())")
    assert sentence.text_content() == EMOJI


def test_a_failed_sample_says_why(page_file: Path, open_page: Open) -> None:
    page = open_page(page_file, "#en-failed")
    told = tells(page, "Why it failed")
    assert "the model is <b>away</b>" in told
    assert "3 attempts" in told


def test_an_unknown_sample_is_said_to_be_unknown(page_file: Path, open_page: Open) -> None:
    page = open_page(page_file, "#nobody%E0%A4%A")
    expect(page.locator("#detail h2")).to_have_text("No such sample")


def test_what_other_protocols_add_is_shown_as_well(
    debate: Path, open_page: Open, tmp_path: Path
) -> None:
    run_dir = shutil.copytree(debate, tmp_path / "persona")
    rows = (run_dir / "outputs.jsonl").read_text(encoding="utf-8").strip("\n").split("\n")
    first = json.loads(rows[0])
    spoken = {"speaker": "empath", "stance": "pro", "message": "<i>I like it.</i>"}
    first["debate"]["rounds"] = [{"round": n, "turns": [spoken]} for n in range(2)]
    first["debate"]["summary"] = {"winner": "empath", "key_agreements": ["one", "two"]}
    first["meta"]["conflict_flags"] = [
        {"aspect_term": "가격", "tuple_ids": ["t0", "t1"], "conflict_type": "polarity_mismatch"}
    ]
    rows[0] = json.dumps(first, ensure_ascii=False)
    (run_dir / "outputs.jsonl").write_text("\n".join(rows), encoding="utf-8")
    page = open_page(write_report([run_dir], tmp_path / "r.html").path, "#ko-fixed")
    told = tells(page, "The debate")
    assert "Round 2 EM empath stance: pro message: <i>I like it.</i>" in told
    assert "winner: empath" in told
    assert "key agreements: one; two" in told
    assert '"tuple_ids": [ "t0", "t1" ]' in tells(page, "More")


# Hostile input ------------------------------------------------------------------------------------


def test_a_review_cannot_run_a_script_or_load_anything(page_file: Path, open_page: Open) -> None:
    page = open_page(page_file, "#/samples")
    page.locator("#list .row", has_text="onerror").click()
    expect(page.locator("#detail h2")).to_have_text(HOSTILE_UID)
    assert "<script>window.attacked=1</script>" in page.locator(".sentence").inner_text()
    page.wait_for_timeout(200)
    assert page.evaluate("window.attacked") is None
    assert page.locator("#samples img, #samples script").count() == 0
    # The address of the sample leads back to it.
    again = open_page(page_file, "#" + page.url.partition("#")[2])
    expect(again.locator("#detail h2")).to_have_text(HOSTILE_UID)


def test_no_text_of_the_data_stands_in_the_file_as_markup(page_file: Path) -> None:
    html = page_file.read_text(encoding="utf-8")
    assert "attacked" not in html
    assert html.count("<script") == html.count("</script>")


def test_embedded_json_cannot_leave_its_script_element() -> None:
    text = embed({"a": "</script><!-- & \u2028\u2029"})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028\u2029"}


def test_a_lone_surrogate_does_not_break_the_file() -> None:
    packed = gzip.decompress(base64.b64decode(squeeze(["\ud83d"])))
    assert json.loads(packed) == ["?"]


def test_the_policy_stops_what_a_mistake_would_let_through(
    page_file: Path, browser: Browser
) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    for attack in (
        "document.body.innerHTML = '<img src=x>'",
        "document.body.setAttribute('onclick', 'window.attacked = 4')",
        "document.createElement('script').textContent = 'window.attacked = 5'",
        "document.createElement('iframe').srcdoc = '<p>'",
    ):
        caught = f"() => {{ try {{ {attack} }} catch (error) {{ return error.name }} }}"
        assert page.evaluate(caught) == "TypeError", attack
    page.close()


def test_paths_of_the_machine_are_not_in_the_report(page_file: Path, debate: Path) -> None:
    html = page_file.read_text(encoding="utf-8")
    assert "reviews.jsonl" in html
    assert str(debate.parent) not in html


# Keyboard, phone, dark, print --------------------------------------------------------------------


def test_the_keyboard_is_enough(page_file: Path, open_page: Open) -> None:
    page = open_page(page_file)
    shown, press = page.locator("#detail h2"), page.keyboard.press
    press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("Room")
    expect(page.locator("#found")).to_have_text("60 of 66 samples")
    press("ArrowDown")
    expect(shown).to_have_text("en-000")
    press("j")
    expect(shown).to_have_text("en-001")
    press("ArrowDown")
    expect(shown).to_have_text("en-002")
    press("k")
    expect(shown).to_have_text("en-001")
    press("End")
    expect(shown).to_have_text("en-059")
    option = page.locator("#list").get_by_role("option", selected=True)
    expect(option).to_contain_text("en-059")
    expect(option).to_be_in_viewport()
    active = page.locator("#list").get_attribute("aria-activedescendant")
    assert active == option.get_attribute("id")
    press("Enter")
    expect(page.locator("#detail")).to_be_focused()
    press("Escape")
    expect(shown).to_have_text("Pick a sample")
    press("/")
    press("Escape")
    expect(page.locator("#found")).to_have_text("66 samples")
    press("Escape")
    expect(page.locator("#search")).not_to_be_focused()


def test_focus_can_be_seen(page_file: Path, open_page: Open) -> None:
    page = open_page(page_file, "#/samples")
    for _ in range(6):
        page.keyboard.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) == "solid", page.evaluate("document.activeElement.outerHTML")


@pytest.mark.parametrize("where", ["", "#/samples", "#ko-conflict", "#en-failed"])
def test_on_a_phone_nothing_sticks_out(page_file: Path, open_page: Open, where: str) -> None:
    page = open_page(page_file, where, width=360)
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_on_a_phone_a_sample_takes_the_page_and_gives_it_back_where_it_was(
    page_file: Path, open_page: Open
) -> None:
    page = open_page(page_file, "#/samples", width=360)
    page.locator("#list").evaluate("e => { e.scrollTop = 3000 }")
    page.locator("#list .row", has_text="en-030").click()
    expect(page.locator("#list")).to_be_hidden()
    page.get_by_role("button", name="All samples").click()
    expect(page.locator("#list .row", has_text="en-030")).to_be_in_viewport()


def test_dark_pages_are_dark_and_print_is_not(page_file: Path, open_page: Open) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    light = open_page(page_file)
    dark = open_page(page_file, color_scheme="dark")
    assert light.evaluate(back) == "rgb(247, 247, 248)"
    assert dark.evaluate(back) == "rgb(16, 18, 23)"
    dark.emulate_media(media="print", color_scheme="dark")
    assert dark.evaluate(back) == "rgb(255, 255, 255)"
    expect(dark.locator(".top")).to_be_hidden()


# Size ---------------------------------------------------------------------------------------------


def test_two_thousand_samples_open_quickly(
    debate: Path, open_page: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = shutil.copytree(debate, tmp_path / "big")
    for name in ("outputs.jsonl", "scorecards.jsonl"):
        # Not splitlines: a text holds U+2028.
        rows = (debate / name).read_text(encoding="utf-8").strip("\n").split("\n")
        many = [json.loads(rows[n % len(rows)]) for n in range(2000)]
        lines = [
            json.dumps({**row, "uid": f"{n}-{row['uid']}"}, ensure_ascii=False)
            for n, row in enumerate(many)
        ]
        (run_dir / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    written = write_report([run_dir], tmp_path / "big.html")
    opened = float("inf")
    # A busy machine gets three tries.
    for _ in range(3):
        start = time.perf_counter()
        page = open_page(written.path, "#/samples")
        page.locator("#list .row").first.wait_for()
        opened = min(opened, time.perf_counter() - start)
        if opened < 3:
            break
    start = time.perf_counter()
    page.keyboard.press("j")
    page.locator(".sentence").wait_for()
    read = time.perf_counter() - start
    with capsys.disabled():
        sys.stdout.write(
            f"\n2,000 samples, {written.size / 1e6:.2f} MB: list after {opened:.2f} s, "
            f"a sample {read:.2f} s later\n"
        )
    assert opened < 3
    expect(page.locator("#found")).to_have_text("2,001 samples")


# Command and reading ------------------------------------------------------------------------------


def test_the_command_writes_the_file_and_says_so(
    debate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.html"
    assert run_cli(["report", str(debate), "-o", str(out)]) == 0
    assert "66 samples of 1 run" in capsys.readouterr().out
    assert run_cli(["report", str(debate), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["size"] == out.stat().st_size


def test_what_is_no_run_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["report", str(tmp_path), "-o", str(tmp_path / "r.html")]) == 2
    assert "is not a run directory" in capsys.readouterr().err
    with pytest.raises(NoRun, match="no such directory"):
        write_report([tmp_path / "nothing"], tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_a_damaged_run_is_shown_as_far_as_it_can_be_read(
    debate: Path, open_page: Open, tmp_path: Path
) -> None:
    run_dir = shutil.copytree(debate, tmp_path / "hurt")
    with (run_dir / "outputs.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"uid": "half"\n{"uid": "empty"}\n')
    (run_dir / "manifest.json").unlink()
    (run_dir / "override_gate_debug_summary.json").write_text("{", encoding="utf-8")
    page = open_page(write_report([run_dir], tmp_path / "r.html").path)
    text = page.locator(".warning").inner_text()
    for name in ("manifest.json is missing", "line 66 cannot be read", "'empty' left out"):
        assert name in text


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda run: cut(run / "outputs.jsonl"),
            "missing or damaged in outputs.jsonl: all numbers",
        ),
        (
            lambda run: (run / "outputs.jsonl").write_text(""),
            "65 of 65 analyzed samples are missing",
        ),
        (
            lambda run: nest(run / "outputs.jsonl"),
            "1 of 65 analyzed samples are missing or damaged",
        ),
        (lambda run: listed(run / "outputs.jsonl"), "line 1 cannot be read: not a JSON object"),
        (lambda run: (run / "scorecards.jsonl").unlink(), "65 samples have no scorecard"),
        (lambda run: (run / "manifest.json").write_text("[]"), "manifest.json cannot be read: not"),
    ],
    ids=["cut", "emptied", "nested too deep", "list", "no scorecards", "manifest"],
)
def test_what_is_damaged_or_missing_is_counted_on_the_page_and_on_stderr(
    debate: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], object],
    words: str,
) -> None:
    run_dir = shutil.copytree(debate, tmp_path / "hurt")
    damage(run_dir)
    out = tmp_path / "r.html"
    code = run_cli(["report", str(run_dir), "-o", str(out)])
    errors = capsys.readouterr().err
    assert words in errors
    assert "Traceback" not in errors
    assert words in out.read_text(encoding="utf-8")
    assert code == ("outputs.jsonl" in errors)


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def nest(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[0] = '{"uid": ' + "[" * 100_000 + "]" * 100_000 + "}"
    path.write_text("\n".join(lines), encoding="utf-8")


def listed(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    path.write_text("\n".join([f"[{lines[0]}]", *lines[1:]]), encoding="utf-8")


def test_equal_runs_give_equal_reports(debate: Path, tmp_path: Path) -> None:
    one = write_report([debate], tmp_path / "a.html").path.read_bytes()
    assert one == write_report([debate], tmp_path / "b.html").path.read_bytes()


def test_runs_are_called_by_what_tells_them_apart(tmp_path: Path) -> None:
    assert short_names([tmp_path / "a", tmp_path / "b"]) == ["a", "b"]
    assert short_names([tmp_path / "x/a", tmp_path / "y/a"]) == ["x/a", "y/a"]
    assert short_names([tmp_path / "a", tmp_path / "a"]) == ["a (1)", "a (2)"]


def test_what_is_fixed_is_what_the_scorer_calls_so(debate: Path) -> None:
    first = (debate / "outputs.jsonl").read_text(encoding="utf-8").splitlines()[0]
    output = FinalOutput.model_validate_json(first)
    aspects = [GoldAspect.model_validate(a) for a in SAMPLES[0]["aspects"]]
    assert score_sample(output, aspects, None, None).change("strict") == "fix"
