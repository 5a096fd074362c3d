"""`absa view` in a real browser: watch a text, ask what if, browse, compare and review runs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette

from absa import auth
from absa.backends.offline import OfflineBackend
from absa.cli import run as run_cli
from absa.config import load_settings
from absa.graph.table import Rule
from absa.report import words
from absa.runs import RunPlan, run
from absa.runs.lock import locked
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.view.app import PageApi, routes
from absa.wired import wired

ROOT = Path(__file__).resolve().parent.parent
TEXT = "사용감은 좋지만 가격은 비싸요."
HOSTILE = (
    '<img src=x onerror="window.attacked=1"><script>window.attacked=2</script> The food is great.'
)
SAMPLES = [
    {
        "uid": "ko-1",
        "text": TEXT,
        "aspects": [{"term": "사용감", "from": 0, "to": 3, "polarity": "positive"}],
    },
    {"uid": "en-1", "text": "The battery is great but the screen is dim."},
    {"uid": "<b>/#%", "text": HOSTILE},
    {"uid": "en-2", "text": "The room was clean."},
]

Json = dict[str, Any]
Open = Callable[..., Page]
# Other tests may run at the same time.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("view")
    data = folder / "data.jsonl"
    data.write_text("".join(f"{json.dumps(s)}\n" for s in SAMPLES), encoding="utf-8")
    for name, config in (("debate", "default"), ("single", "baseline_single")):
        plan = RunPlan(data=data, out=folder / name, settings=load_settings(config))
        # In a thread of its own: a browser has a loop in this one.
        with ThreadPoolExecutor() as pool:
            assert pool.submit(asyncio.run, run(plan)).result().exit_code == 0
    return folder


class Asked:
    """Counts what the backend is asked, and can make it slow or deaf."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes: list[str] = []
        self.pause = 0.0
        self.deaf: str | None = None
        real = OfflineBackend.ask

        def ask(backend: OfflineBackend, question: Ask) -> Reply:
            self.nodes.append(question.node)
            time.sleep(self.pause)
            if question.node == self.deaf:
                raise BackendError("the server is gone", node=question.node)
            return real(backend, question)

        monkeypatch.setattr(OfflineBackend, "ask", ask)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


@pytest.fixture(scope="module")
def url(runs: Path) -> Iterator[str]:
    api = PageApi(load_settings, [runs])
    app = Starlette(routes=routes(api), middleware=auth.MIDDLEWARE)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/view"
    server.should_exit = True
    thread.join(20)


@pytest.fixture
def open_page(browser: Browser, url: str) -> Iterator[Open]:
    """Opens the page; at the end there was no error and no request to another place."""
    contexts, problems = [], []

    def open_(where: str = "", width: int = 1280, **more: Any) -> Page:
        given = {"locale": "en-US", **more}
        context = browser.new_context(viewport={"width": width, "height": 800}, **given)
        contexts.append(context)
        page = context.new_page()
        noisy = ("error", "warning")
        page.on("console", lambda m: problems.append(m.text) if m.type in noisy else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(url) else problems.append(r.url))
        page.goto(f"{url}/{where}")
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert problems == []


def analyse(page: Page, text: str = TEXT) -> None:
    page.fill("#text", text)
    page.press("#text", "Enter")
    page.wait_for_selector("html[data-state=ready]")


def order_of_nodes(page: Page) -> None:
    """Notes when a node of the drawing is done, as the document changes."""
    page.evaluate(
        """() => {
          window.seen = [];
          const see = ({ dataset, classList }) => {
            if (dataset?.node && classList.contains("done")) window.seen.push(dataset.node);
          };
          const options = { subtree: true, attributes: true, attributeFilter: ["class"] };
          const watch = (changes) => changes.forEach(({ target }) => see(target));
          new MutationObserver(watch).observe(document.body, options);
        }"""
    )


def nodes(page: Page, drawing: int = 0) -> set[str]:
    boxes = page.locator(".drawing-box").nth(drawing).locator("[data-node]")
    return set(boxes.evaluate_all("boxes => boxes.map(box => box.dataset.node)"))


def lit(page: Page) -> set[str]:
    edges = page.locator(".edge.lit").evaluate_all("all => all.map(one => one.dataset.edge)")
    return set(edges)


# Watching ---------------------------------------------------------------------------------------


def test_nodes_light_up_in_the_order_in_which_they_answer(open_page: Open, asked: Asked) -> None:
    page = open_page()
    order_of_nodes(page)
    asked.pause = 0.03
    analyse(page)
    seen = [n for n in dict.fromkeys(page.evaluate("window.seen")) if not n.startswith("__")]
    assert seen[0] == "intake" and set(seen[1:4]) == {"ate", "atsa", "validator"}
    assert seen[4:10] == ["stage1", "epm", "tan", "cj", "judge", "review_context"]
    assert seen[-3:] == ["adopt", "moderator", "finalize"]
    assert page.locator(".box.busy").count() == 0
    taken = lit(page)
    assert {"ate stage1", "atsa stage1", "validator stage1", "ate_review validator_review"} <= taken
    assert "override_gate*adopt adopt" in taken and "override_gate adopt" not in taken
    page.click("text=Watch again")
    page.wait_for_timeout(200)
    assert len(lit(page)) < len(taken)


def test_the_debate_the_evidence_and_the_outcome_can_be_read(open_page: Open) -> None:
    page = open_page()
    analyse(page)
    assert page.locator(".turn .speaker b").all_inner_texts() == ["EPM", "TAN", "CJ", "Judge"]
    assert page.locator("mark.a.positive").first.inner_text().startswith("사용감")
    assert page.locator("mark.e.negative").first.inner_text().startswith("비싸요")
    expect(page.locator(".conditions .passed").first).to_contain_text("✓")
    expect(page.get_by_role("heading", name="In short")).to_be_visible()


def test_the_drawing_follows_the_parts_before_anything_is_analysed(open_page: Open) -> None:
    page = open_page()
    assert {"epm", "override_gate"} <= nodes(page)
    page.click("[data-name=enable_debate]")
    expect(page.locator("[data-node=epm]")).to_have_count(0)
    page.select_option("[data-name=protocol]", "conflict_review")
    expect(page.locator("[data-node=arbiter]")).to_have_count(1)
    expect(page.locator("[data-name=enable_debate]")).to_have_count(0)
    analyse(page)
    expect(page.locator("#telling")).to_contain_text("p_neg")


def test_a_choice_that_cannot_be_is_explained(open_page: Open) -> None:
    page = open_page()
    page.select_option("[data-name=protocol]", "selective")
    expect(page.locator("#notice")).to_contain_text("backend.kind")


def test_an_agent_that_fails_is_shown_where_it_failed(open_page: Open, asked: Asked) -> None:
    page = open_page()
    asked.deaf = "cj"
    analyse(page)
    expect(page.locator("[data-node=cj]")).to_have_class(re.compile("failed"))
    expect(page.locator("#notice")).to_contain_text("the server is gone")


def test_every_node_of_every_protocol_is_drawn(open_page: Open) -> None:
    page = open_page()
    for protocol in ("debate", "conflict_review", "single", "vote"):
        page.select_option("[data-name=protocol]", protocol)
        table = wired(load_settings(None, {"pipeline.protocol": protocol})).table
        expected = {*table.nodes, "__start__", "__end__"}
        agent = next(name for name, node in table.nodes.items() if not isinstance(node, Rule))
        expect(page.locator(f"[data-node={agent}]")).to_have_count(1)
        assert nodes(page) == expected


# What if ----------------------------------------------------------------------------------------


def test_what_if_decides_again_without_a_call_and_marks_the_swapped_edges(
    open_page: Open, asked: Asked
) -> None:
    page = open_page()
    analyse(page)
    calls = len(asked.nodes)
    assert calls == 10
    page.click("[data-name=enable_debate]")
    expect(page.locator("#what-if")).to_contain_text("0 model calls")
    assert len(asked.nodes) == calls
    assert "epm" in nodes(page, 0) and "epm" not in nodes(page, 1)
    before, after = page.locator(".drawing-box").all()
    gone = before.locator(".edge.gone").evaluate_all("all => all.map(one => one.dataset.edge)")
    new = after.locator(".edge.new").evaluate_all("all => all.map(one => one.dataset.edge)")
    assert "stage1 epm" in gone and "stage1 ate_review" in new
    expect(page.locator("#what-if")).to_contain_text("would make 6 calls, this one made 10")
    expect(page.locator("#what-if")).to_contain_text("atsa review")  # it heard of the debate
    expect(page.locator("#telling h2").first).to_have_text("The text as these parts decide it")
    page.keyboard.press("Escape")
    expect(page.locator("#what-if")).to_be_hidden()
    expect(page.locator("[data-name=enable_debate]")).to_have_attribute("aria-checked", "true")


def test_a_threshold_is_moved_and_the_gate_decides_otherwise(open_page: Open) -> None:
    page = open_page()
    analyse(page)
    page.click("text=Thresholds and rules")
    page.locator("[data-name=min_total]").fill("4")
    expect(page.locator("#what-if")).to_contain_text("Signal too weak")
    expect(
        page.locator(".drawing-box").nth(1).locator("[data-node=skip_low_signal]")
    ).to_have_class(re.compile("done"))
    page.locator("[data-name=override_profile]").select_option("t2")
    expect(page.locator("[data-name=min_total]")).to_have_value("0.6")
    page.locator("[data-name=override_profile]").select_option("t0")
    expect(page.locator("#what-if")).to_be_hidden()


def test_what_was_not_asked_is_not_made_up(open_page: Open, asked: Asked) -> None:
    page = open_page()
    page.click("[data-name=enable_debate]")
    expect(page.locator("[data-node=epm]")).to_have_count(0)
    analyse(page)
    calls = len(asked.nodes)
    page.click("[data-name=enable_debate]")
    expect(page.locator("#notice")).to_contain_text("epm was not asked")
    assert len(asked.nodes) == calls
    page.click("#again")
    expect(page.locator(".turn .speaker b").first).to_have_text("EPM")
    assert "epm" in asked.nodes[calls:]


# Runs -------------------------------------------------------------------------------------------


def test_runs_are_listed_browsed_and_decided_again(open_page: Open, asked: Asked) -> None:
    page = open_page("#/runs")
    assert page.locator(".run-card h2").all_inner_texts() == ["debate", "single"]
    page.click("text=Browse the samples >> nth=0")
    expect(page.locator(".row")).to_have_count(len(SAMPLES))
    page.click(".row >> nth=0")
    page.click("text=What if…")
    expect(page.locator("[data-node=finalize]")).to_have_class(re.compile("done"))
    page.click("[data-name=enable_debate]")
    expect(page.locator("#what-if")).to_contain_text("0 model calls")
    assert asked.nodes == []


def test_two_runs_are_compared_sample_by_sample(open_page: Open) -> None:
    page = open_page("#/compare?a=0&b=1")
    page.click("[data-only=all]")
    expect(page.locator(".pair-row")).to_have_count(len(SAMPLES))
    page.click(".pair-row >> nth=0")
    expect(page.locator("#pair h3 a")).to_have_text(["debate", "single"])
    heads = page.locator("#pair table thead th").all_inner_texts()
    assert heads == ["Aspect", "Gold", "debate", "single"]
    page.locator(".pair-list").press("j")
    expect(page.locator(".pair-row.open")).to_contain_text("battery")


def test_a_review_in_the_page_is_the_review_of_the_command(
    open_page: Open, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = open_page("#ko-1")
    page.click("text=Review this text")
    page.fill("[aria-label=Reviewer]", "kim")
    page.locator("[aria-label=Reviewer]").blur()
    row = page.locator(".candidate", has_text="가격")
    row.get_by_role("button", name="→ neutral").click()
    expect(row.get_by_role("button", name="→ neutral")).to_have_attribute("aria-pressed", "true")
    page.click("text=Done with this text")
    expect(page.locator(".review > summary")).to_contain_text("✓")
    lines = (runs / "debate" / "reviews.jsonl").read_text(encoding="utf-8").splitlines()
    last = json.loads(lines[-1])
    assert (last["uid"], last["reviewer"], last["finished"]) == ("ko-1", "kim", True)
    assert last["decisions"][0]["action"] == "flip"
    assert run_cli(["review", str(runs / "debate"), "--summary", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reviewed"] == 1
    page.locator(".candidates ~ form [aria-label=Aspect]").fill("주차")
    page.locator(".candidates ~ form [aria-label^=Evidence]").fill("없는 말")
    page.locator(".candidates ~ form button").click()
    expect(page.locator(".review .notice")).to_contain_text("없는 말")


def test_a_run_that_goes_on_grows_in_the_page(open_page: Open, runs: Path, tmp_path: Path) -> None:
    growing = runs / "growing"
    growing.mkdir()
    shutil.copy(runs / "debate" / "journal.db", tmp_path / "all.db")
    shutil.copy(runs / "debate" / "journal.db", growing)
    with sqlite3.connect(growing / "journal.db") as journal:
        journal.execute("DELETE FROM samples WHERE rowid > 2")
    journal.close()

    def going_on(finished: int) -> None:
        totals = {"done": finished}
        progress = {"total": 4, "totals": totals, "bad_lines": 0, "started_with": 0}
        status = {"progress": progress, "elapsed_s": 1.0, "engine": "local", "stopping": None}
        (growing / "status.json").write_text(json.dumps({**status, "workers": []}))

    with locked(growing):
        going_on(2)
        page = open_page("#/runs")
        card = page.locator(".run-card", has_text="growing")
        expect(card).to_contain_text("running")
        expect(card).to_contain_text("2 of 4")
        number = page.locator(".run-card h2").all_inner_texts().index("growing")
        page.goto(page.url.split("#")[0] + f"#/samples?run={number}")
        expect(page.locator(".row")).to_have_count(2)
        going_on(4)
        with sqlite3.connect(growing / "journal.db") as journal:
            journal.execute("ATTACH ? AS whole", (str(tmp_path / "all.db"),))
            journal.execute("INSERT INTO samples SELECT * FROM whole.samples WHERE rowid > 2")
        journal.close()
        expect(page.locator(".row")).to_have_count(4)
        page.click(".row >> nth=3")
        expect(page.locator(".detail-pane .verdict")).to_be_visible()
    shutil.rmtree(growing)


# Safety -----------------------------------------------------------------------------------------


def test_hostile_text_stays_text(open_page: Open) -> None:
    page = open_page()
    analyse(page, HOSTILE)
    assert page.locator("#telling img, #telling script").count() == 0
    page.click("[data-to=samples]")
    page.click(".row >> nth=2")
    expect(page.locator("#detail .sentence")).to_contain_text("<script>")
    page.click("[data-to=compare]")
    page.click("[data-only=all]")
    page.click(".pair-row >> nth=2")
    expect(page.locator("#pair h2")).to_have_text("<b>/#%")
    assert page.evaluate("window.attacked") is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_another_site_cannot_use_the_page_s_server(
    url: str, headers: dict[str, str], status: int
) -> None:
    assert httpx.get(f"{url}/api/about", headers=headers).status_code == status
    if status != 200:
        sent = httpx.post(f"{url}/api/analyze", headers=headers, json={"text": TEXT})
        assert sent.status_code == status


def test_with_a_token_the_page_asks_for_it_and_nothing_is_served_without(
    open_page: Open, url: str, monkeypatch: pytest.MonkeyPatch, browser: Browser
) -> None:
    monkeypatch.setattr(auth, "_TOKEN", b"s3cret")
    assert httpx.get(f"{url}/").status_code == 200
    assert httpx.get(f"{url}/api/about").status_code == 401
    page = browser.new_page()
    page.goto(f"{url}/")
    page.fill("#token-text", "s3cret")
    page.click("#token button")
    page.wait_for_selector("html[data-ready]")
    assert page.locator("[data-node=epm]").count() == 1
    page.close()


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("analyze", {"text": " "}, "type a sentence"),
        ("analyze", {"text": TEXT, "choice": {"context": {"min_totl": 1}}}, "min_totl"),
        ("what-if", {"id": "none"}, "not kept"),
        ("runs/99/samples/0/open", {}, "no run number 99"),
        ("runs/0/samples/99/open", {}, "no sample number 99"),
        ("runs/0/samples/0/review", {"action": "shout"}, "shout"),
    ],
)
def test_what_cannot_be_done_is_said(url: str, path: str, body: Json, says: str) -> None:
    answer = httpx.post(f"{url}/api/{path}", json=body, timeout=20)
    assert says in answer.json()["problem"]


def test_a_run_directory_cannot_make_the_page_run_code(url: str, runs: Path) -> None:
    planted = runs / "planted"
    shutil.copytree(runs / "debate", planted)
    manifest = json.loads((planted / "manifest.json").read_text(encoding="utf-8"))
    manifest["settings"]["wiring"] = "os:getcwd"
    (planted / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    try:
        names = [run["name"] for run in httpx.get(f"{url}/api/runs").json()]
        where = f"{url}/api/runs/{names.index('planted')}/samples/0/open"
        for _ in range(100):
            answer = httpx.post(where, json={}, timeout=20)
            if "no sample" not in answer.text:
                break
            time.sleep(0.05)
        assert "os:getcwd" in answer.json()["problem"]
    finally:
        shutil.rmtree(planted)


# Everybody --------------------------------------------------------------------------------------


def test_the_page_speaks_korean(open_page: Open) -> None:
    page = open_page(locale="ko-KR")
    expect(page.locator("nav [aria-current]")).to_have_text("분석")
    analyse(page)
    expect(page.locator(".verdict .chip")).to_contain_text("혼합")
    judged = page.locator(".turn", has_text="판정자")
    expect(judged).to_contain_text("사용감 긍정, 가격 부정, 문장 전체는 혼합")
    page.click("[data-lang=en]")
    page.wait_for_selector("html[data-ready][lang=en]")
    expect(page.locator("nav [aria-current]")).to_have_text("Analyze")


def test_every_word_of_the_page_is_there_in_korean(open_page: Open) -> None:
    page = open_page()
    korean = set(page.evaluate("import('./korean.js').then(all => Object.keys(all.default))"))
    calls = re.compile(r'\b(?:t|say|part)\("((?:[^"\\]|\\.)+)"')
    folders = (ROOT / "absa" / "view", ROOT / "absa" / "report")
    files = [path for folder in folders for path in folder.glob("*.js") if path.name != "page.js"]
    used = {word for path in files for word in calls.findall(path.read_text(encoding="utf-8"))}
    controls = httpx.get(page.url.split("#")[0] + "api/about").json()["controls"]
    used |= {control[key] for control in controls for key in ("title", "about")}
    used |= {*words.GATE.values(), *words.OUTCOMES.values(), *words.RULES.values()}
    used |= {text for _, text in words.gate_steps(True) if text}
    adoption = words.names()["adopt"]
    used |= {adoption[code] for code in adoption if code.split(":")[1] in words.ADOPTED}
    assert used - korean == set()


@pytest.mark.parametrize("where", ["", "#/runs", "#/samples", "#ko-1", "#/compare"])
def test_on_a_phone_nothing_sticks_out(open_page: Open, where: str) -> None:
    page = open_page(where, width=390)
    if not where:
        analyse(page)
        page.click("[data-name=enable_debate]")
        expect(page.locator("#what-if")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_keyboard_is_enough(open_page: Open) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skip to the content
    page.keyboard.press("Tab")
    page.keyboard.type(TEXT)
    page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_be_visible()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.name") == "enable_debate":
            break
    page.keyboard.press("Space")
    expect(page.locator("#what-if")).to_be_visible()
    assert page.evaluate("document.activeElement.dataset.name") == "enable_debate"


def test_the_command_serves_the_page(tmp_path: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "absa", "view", "--port", "0"]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as own:
        try:
            assert own.stdout is not None
            address = own.stdout.readline().split()[0]
            for _ in range(200):
                try:
                    page = httpx.get(address)
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            assert page.status_code == 200
            assert "trusted-types" in page.headers["content-security-policy"]
            assert httpx.get(f"{address}api/about", timeout=60).json()["runs"] == []
        finally:
            own.terminate()


def test_what_is_no_folder_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["view", str(tmp_path / "none")]) == 2
    assert "is not a directory" in capsys.readouterr().err
