"""A small OpenAI-compatible server in a process of its own.

    python answer_server.py LOG [--delay SECONDS] [--dead WORD]

It prints its URL, answers every agent of the debate after a short random delay with what follows
from the prompt alone, and writes a line per call to LOG. The API key says which start of the client
a call belongs to. A review that has the `--dead` word in it gets no usable answer from the judge.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.fault_server import question

POLARITIES = ("positive", "negative", "neutral")


def answer(keys: Iterable[str], review: str, number: int) -> dict[str, Any]:
    """An answer of the asked form about the first and last word of the review."""
    first, last = review.split()[0], review.split()[-1]
    polarity = POLARITIES[number % 3]
    edit = {
        "op": "set_polarity",
        "target": {"aspect_ref": first},
        "value": polarity,
        "evidence": last,
        "confidence": 0.9,
    }
    everything = {
        "aspects": [{"term": first, "confidence": 0.9}],
        "aspect_sentiments": [
            {"aspect_ref": first, "polarity": polarity, "evidence": last, "confidence": 0.6}
        ],
        "structural_risks": [{"type": "NEGATION", "severity": "mid"}] * (number % 2),
        "correction_proposals": [],
        "tuples": [
            {"aspect_term": first, "polarity": polarity, "evidence": last, "confidence": 0.9}
        ],
        "agent": "x",
        "proposed_edits": [edit],
        "final_patch": [edit],
        "final_tuples": [{"aspect_term": first, "polarity": polarity}],
        "sentence_polarity": polarity,
        "sentence_evidence_spans": [last],
        "aspect_evidence": [{"aspect_ref": first, "evidence": last}],
        "aspect_review": [{"term": first, "action": "keep"}],
        "sentiment_review": [{"aspect_ref": first, "action": "maintain"}],
        # An agent of the user's own, as docs/how-to/extend.md shows it.
        "is_sarcastic": number % 2 == 0,
        "quote": last,
    }
    return {key: everything[key] for key in keys if key in everything}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, log: Path, delay_s: float, dead: str | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.log = log.open("a", encoding="utf-8", buffering=1)
        self.delay_s = delay_s
        self.dead = dead
        self.lock = threading.Lock()

    def note(self, **facts: Any) -> None:
        with self.lock:
            self.log.write(json.dumps(facts, ensure_ascii=False) + "\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = question(request)
        # As the traces have it.
        prompt = hashlib.sha256("\0".join(said).encode()).hexdigest()
        review = json.loads(said[-1])["review"]
        form = request["response_format"]["json_schema"]
        call = {
            "start": self.headers["Authorization"].removeprefix("Bearer "),
            "prompt": prompt,
            "review": review,
            "seed": request.get("seed"),
        }
        self.server.note(**call)
        time.sleep(random.uniform(0, 2 * self.server.delay_s))
        keys = form["schema"]["properties"].keys()
        if self.server.dead and self.server.dead in review and "final_patch" in keys:
            content = "I would rather not say."
        else:
            content = json.dumps(answer(keys, review, int(prompt[:8], 16)), ensure_ascii=False)
        try:
            self.reply(content)
        except OSError:  # the client was killed
            self.close_connection = True

    def reply(self, content: str) -> None:
        message = {"role": "assistant", "content": content}
        body = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "answers",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(log: Path, *options: str) -> Iterator[str]:
    """The URL of such a server, which is running."""
    log.touch()
    command = [sys.executable, __file__, str(log), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--dead")
    given = parser.parse_args()
    server = Server(given.log, given.delay, given.dead)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    main()
