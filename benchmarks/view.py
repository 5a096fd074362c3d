"""The local page in Chromium: `python -m benchmarks.view`.

First paint, how long a node takes to light up after its answer, and a run of 5,000 samples. For the
first and the last the server is the command itself. For the second it is in this process, so that
each answer can be delayed and its time noted; the browser has the same clock.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import Page, expect, sync_playwright
from starlette.applications import Starlette

from absa.auth import MIDDLEWARE
from absa.backends.offline import OfflineBackend
from absa.cli import run as run_cli
from absa.config import load_settings
from absa.schemas.backend import Ask, Reply
from absa.view.app import PageApi, routes

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TEXT = "사용감은 좋지만 가격은 비싸요."
SAMPLES = 5_000
ANSWER_S = 0.25

# When each node of the drawing was seen to be done, in the clock of the machine.
WATCH = """() => {
  window.seen = {};
  const see = ({ dataset, classList }) => {
    if (dataset?.node && classList.contains("done")) {
      requestAnimationFrame(() => { window.seen[dataset.node] ??= Date.now(); });
    }
  };
  const options = { subtree: true, attributes: true, attributeFilter: ["class"] };
  new MutationObserver((all) => all.forEach(({ target }) => see(target)))
    .observe(document.body, options);
}"""
# The longest and the median time between two frames while the list is scrolled through.
SCROLL = """async () => {
  const list = document.getElementById("list");
  const frames = [], busy = [0];
  new PerformanceObserver((all) => busy.push(...all.getEntries().map((one) => one.duration)))
    .observe({ type: "longtask" });
  let last = performance.now();
  for (let step = 0; step < 120; step++) {
    list.scrollTop = (step / 119) * (list.scrollHeight - list.clientHeight);
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - last);
    last = performance.now();
  }
  frames.sort((a, b) => a - b);
  return { median: frames[60], p95: frames[113], longest: frames[119],
           longest_task: Math.max(...busy),
           rows: document.querySelectorAll(".row").length };
}"""


@contextmanager
def page_server(folder: Path, *options: str) -> Iterator[str]:
    """`absa view` in a process of its own; its address."""
    command = [sys.executable, "-m", "absa", "view", "--port", "0", *options]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as own:
        try:
            assert own.stdout is not None
            yield own.stdout.readline().split()[0]
        finally:
            own.terminate()


def open_page(page: Page, address: str, where: str = "") -> None:
    """Open the page and wait until it can be used."""
    for _ in range(100):
        try:
            page.goto(f"{address}{where}")
            break
        except Exception:  # the server is not up yet
            time.sleep(0.1)
    page.wait_for_selector("html[data-ready]", timeout=60_000)


def first_paint(page: Page, address: str) -> dict[str, float]:
    """Milliseconds from the navigation until something is painted, and until all can be used.

    The first time is right after the start of the server, when its libraries are being loaded.
    """
    painted = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    usable = "Number(document.documentElement.dataset.ready)"
    found = {}
    for name in ("just started", "again"):
        open_page(page, address)
        found[f"painted, {name}"] = page.evaluate(painted)
        found[f"usable, {name}"] = page.evaluate(usable)
    return found


def node_lag(page: Page, address: str, sent: dict[str, float]) -> dict[str, float]:
    """Milliseconds from the answer of the model to the lit node, over the agents."""
    open_page(page, address)
    lags: list[float] = []
    for _ in range(5):
        sent.clear()
        page.evaluate(WATCH)
        page.fill("#text", TEXT)
        page.press("#text", "Enter")
        page.wait_for_selector("html[data-state=busy]")
        page.wait_for_selector("html[data-state=ready]", timeout=60_000)
        page.wait_for_timeout(100)
        seen = page.evaluate("window.seen")
        lags += [seen[node] - 1000 * at for node, at in sent.items()]
    return {"nodes": len(lags), "median": statistics.median(lags), "longest": max(lags)}


@contextmanager
def slow_server(sent: dict[str, float]) -> Iterator[str]:
    """The page over an analyzer whose answers take a while, and which notes when it gave them."""
    at_once = OfflineBackend.ask

    def ask(backend: OfflineBackend, question: Ask) -> Reply:
        time.sleep(ANSWER_S)
        reply = at_once(backend, question)
        sent[question.node] = time.time()
        return reply

    OfflineBackend.ask = ask  # type: ignore[method-assign]
    app = Starlette(routes=routes(PageApi(load_settings, [])), middleware=MIDDLEWARE)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/view/"
    server.should_exit = True
    thread.join()
    OfflineBackend.ask = at_once  # type: ignore[method-assign]


def large_run(folder: Path) -> Path:
    """A run of 5,000 samples: the records of 20 of them under other names."""
    data = folder / "data.jsonl"
    texts = [f"방 {n}호는 깨끗하지만 가격은 비싸요. The room was clean." for n in range(20)]
    rows = (json.dumps({"uid": f"s{n}", "text": text}) for n, text in enumerate(texts))
    data.write_text("\n".join(rows), encoding="utf-8")
    small = folder / "small"
    assert run_cli(["run", str(data), "--out", str(small)]) == 0
    large = folder / "runs" / "large"
    large.mkdir(parents=True)
    shutil.copy(small / "manifest.json", large)
    for name in ("outputs.jsonl", "scorecards.jsonl"):
        lines = (small / name).read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        with (large / name).open("w", encoding="utf-8") as file:
            for n in range(SAMPLES):
                record = {**records[n % len(records)], "uid": f"sample-{n:05}"}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return large


def browse(page: Page, address: str) -> dict[str, Any]:
    """Milliseconds until rows are there, all are, a search is done, a sample is open."""
    start = time.perf_counter()

    def since() -> float:
        return round((time.perf_counter() - start) * 1000)

    open_page(page, address, "#/samples")
    page.wait_for_selector(".row")
    found: dict[str, Any] = {"first rows": since()}
    # "5,000 samples", and not "1,000 of 5,000 samples" or a smaller number.
    expect(page.locator("#found")).to_have_text(f"{SAMPLES:,} samples", timeout=120_000)
    found["all rows"] = since()
    found["scrolling"] = page.evaluate(SCROLL)
    start = time.perf_counter()
    page.fill("#search", "sample-04321")
    expect(page.locator(".row")).to_have_count(1)
    found["search"] = since()
    start = time.perf_counter()
    page.click(".row")
    page.wait_for_selector("#detail .verdict")
    found["open a sample"] = since()
    return found


def main() -> None:
    """Measure, print, and fail if a goal is missed."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    sent: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        large_run(folder)  # before the browser: a run wants a loop of its own in this thread
        playwright = sync_playwright().start()
        args = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=found, args=args)
        page = browser.new_page(viewport={"width": 1280, "height": 800}, locale="en-US")
        with page_server(folder, "runs") as address:
            paint, large = first_paint(page, address), browse(page, address)
        with slow_server(sent) as address:
            lag = node_lag(page, address, sent)
        browser.close()
        playwright.stop()
    goals = {
        "first paint <= 1 s": paint["painted, just started"] <= 1000,
        "a node is lit <= 200 ms after its answer": lag["longest"] <= 200,
        "a frame while scrolling <= 50 ms (p95)": large["scrolling"]["p95"] <= 50,
        "a sample opens <= 500 ms": large["open a sample"] <= 500,
    }
    print(json.dumps({"paint_ms": paint, "lag_ms": lag, "browse_ms": large, "goals": goals}))
    sys.exit(not all(goals.values()))


if __name__ == "__main__":
    main()
