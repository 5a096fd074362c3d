"""Analyzes a text node by node, or decides it again on its recorded answers."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from secrets import token_hex
from threading import Lock
from typing import Any

from absa.api import TextAnalyser
from absa.drawing import draw_elements
from absa.graph import Graph
from absa.inputs import graph_input
from absa.nodes.review_context import JUDGE
from absa.report import words
from absa.report.gold import Comparison, compare
from absa.report.reading import Entry
from absa.report.samples import detail, index_row, judge_part, turn_part
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError, InputError
from absa.schemas.output import FinalOutput
from absa.schemas.records import CallRecord
from absa.schemas.settings import Settings
from absa.view.choices import Choice, chosen, values
from absa.wired import wired

# The number of analyzed texts whose answers are kept for "what if".
_KEPT = 64

Json = dict[str, Any]


@dataclass(frozen=True)
class Analysed:
    """An analyzed text with the graph's input, the settings and the output."""

    inputs: Json
    settings: Settings
    output: FinalOutput


class Recorded:
    """A backend with the recorded answers of one text."""

    def __init__(self, calls: Sequence[CallRecord]) -> None:
        self._calls = {(call.node, call.turn): call for call in calls}

    def ask(self, question: Ask) -> Reply:
        """The recorded answer.

        Raises:
            BackendError: The node was not asked. The error names it.
        """
        call = self._calls.get((question.node, question.turn))
        if call is None:
            raise BackendError(
                f"{question.node} was not asked when this text was analyzed: analyze it again",
                node=question.node,
                turn=question.turn,
            )
        return Reply(
            call.output or {},
            backend="replay",
            model=call.model,
            seed=call.seed,
            usage=call.usage,
            latency_ms=call.latency_ms,
        )

    def recorded(self, question: Ask) -> Reply | None:
        """The recorded answer, None where there is none."""
        return self.ask(question) if (question.node, question.turn) in self._calls else None

    async def aask(self, question: Ask) -> Reply:
        """The recorded answer."""
        return self.ask(question)


class Analyses:
    """Analyzes texts, and keeps the latest so that they can be decided again."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._kept: OrderedDict[str, Analysed] = OrderedDict()
        self._lock = Lock()

    def keep(self, analysed: Analysed) -> str:
        """Keep a text; return its identifier."""
        name = token_hex(8)
        with self._lock:
            self._kept[name] = analysed
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return name

    def drawing(self, choice: Choice) -> Json:
        """The graph of a choice and the values in force."""
        settings = chosen(self.settings, choice)
        return {"drawing": drawing(settings), "values": values(settings)}

    def stream(self, text: str, choice: Choice, lang: str | None = None) -> Iterator[Json]:
        """The events in the graph; the last one has all details.

        Raises:
            ValidationError: Parts of the choice exclude each other.
        """
        settings = chosen(self.settings, choice)
        analyser = _analyser(settings.model_dump_json())
        graph_inputs = analyser.input(text, lang=lang)
        return self._events(analyser.graph, graph_inputs, settings)

    def _events(self, graph: Graph, inputs: Json, settings: Settings) -> Iterator[Json]:
        start = time.perf_counter()

        def at() -> float:
            return round((time.perf_counter() - start) * 1000, 1)

        yield {"event": "graph", "drawing": drawing(settings), "values": values(settings)}
        output: FinalOutput | None = None
        try:
            for task in graph.stream(inputs, stream_mode="tasks"):
                node = task["name"]
                if "result" not in task:
                    yield {"event": "begin", "node": node, "at": at()}
                elif not task["error"]:
                    result = task["result"]
                    output = result.get("output", output)
                    yield {"event": "end", "node": node, "at": at(), **_partial(node, result)}
        except (BackendError, InputError) as error:
            node = getattr(error, "node", None)
            yield {"event": "failed", "node": node, "reason": str(error)}
            return
        assert output is not None
        analysed = Analysed(inputs, settings, output)
        yield {"event": "output", "id": self.keep(analysed), "at": at(), **story(analysed)}

    def what_if(self, name: str, choice: Choice) -> Json:
        """A kept text decided again under another choice, by its recorded answers.

        Raises:
            InputError: The text is not kept any more.
            BackendError: Under this choice a node is asked that has no recorded answer.
        """
        with self._lock:
            before = self._kept.get(name)
        if before is None:
            raise InputError("this text is not kept any more: analyze it again")
        settings = chosen(before.settings, choice)
        start = time.perf_counter()
        path, after = replay(before, settings)
        elapsed = round((time.perf_counter() - start) * 1000, 1)
        _, same = replay(before, before.settings)
        return {
            **story(after),
            "drawing": drawing(settings),
            "values": values(settings),
            "path": path,
            "ms": elapsed,
            "calls": [len(before.output.process_trace), len(after.output.process_trace)],
            "asked_otherwise": _asked_otherwise(same.output, after.output),
        }

    def open(self, entry: Entry, settings: Settings) -> Json:
        """A text of a run, like a text that was analyzed here."""
        if settings.wiring is not None:
            raise InputError(
                f"this run used the wiring {settings.wiring}, whose code the page does not run"
            )
        output = entry.output
        graph_inputs = graph_input(
            output.text,
            uid=output.uid,
            lang=output.lang,
            domain=entry.card.get("domain"),
            given_aspects=output.meta.given_aspects,
        )
        analysed = Analysed(graph_inputs, settings, output)
        path, _ = replay(analysed, settings)
        return {
            "id": self.keep(analysed),
            "drawing": drawing(settings),
            "values": values(settings),
            "path": path,
            **story(analysed, compare(entry)),
        }


def replay(analysed: Analysed, settings: Settings) -> tuple[list[str], Analysed]:
    """Decide a text again on its recorded answers; return the nodes that ran and the result."""
    pipeline = settings.pipeline
    off = pipeline.model_copy(
        update={"memory": pipeline.memory.model_copy(update={"condition": "off"})}
    )
    answers = Recorded(analysed.output.process_trace)
    graph = wired(settings.model_copy(update={"pipeline": off})).compile(backend=answers)
    path, output = [], None
    for task in graph.stream(analysed.inputs, stream_mode="tasks"):
        if "result" in task:
            path.append(task["name"])
            output = task["result"].get("output", output)
    assert output is not None
    return path, Analysed(analysed.inputs, settings, output)


def story(analysed: Analysed, comparison: Comparison | None = None) -> Json:
    """The row and the details of a text for the sample view."""
    output, override = analysed.output, analysed.settings.pipeline.debate_override
    entry = Entry(output, output.model_dump(mode="json"), {"domain": analysed.inputs.get("domain")})
    comparison = comparison or Comparison()
    return {
        "row": index_row(entry, comparison),
        "story": {
            **detail(entry, comparison, override),
            "steps": words.gate_steps(override.allow_drop),
        },
    }


def _asked_otherwise(before: FinalOutput, after: FinalOutput) -> list[str]:
    """The nodes whose prompts would be different in a new run."""
    asked = {(call.node, call.turn): call.prompt_sha256 for call in before.process_trace}
    nodes = [
        call.node
        for call in after.process_trace
        if asked.get((call.node, call.turn)) != call.prompt_sha256
    ]
    return list(dict.fromkeys(nodes))


def _partial(node: str, result: Mapping[str, Any]) -> Json:
    """The part of a node's result that the page shows before the analysis ends."""
    parts: Json = {}
    if turns := result.get("turns"):
        parts["turns"] = [
            turn_part(t.speaker, t.answer.model_dump(mode="json")) for t in turns[-1:]
        ]
    if node == JUDGE and (judge := result.get("judge_answer")):
        parts["judge"] = judge_part(judge.model_dump(mode="json"))
    if stage1 := result.get("stage1_result"):
        parts["marks"] = [
            [n, "a", s.polarity, a.span.start, a.span.end]
            for n, a in enumerate(stage1.aspects, start=1)
            if a.span is not None
            for s in a.sentiments[:1]
        ]
    return parts


@lru_cache(maxsize=16)
def _analyser(settings_json: str) -> TextAnalyser:
    return TextAnalyser(Settings.model_validate_json(settings_json))


def drawing(settings: Settings) -> list[Any]:
    """The drawn graph of the settings."""
    return _drawn(settings.model_dump_json())


@lru_cache(maxsize=64)
def _drawn(settings_json: str) -> list[Any]:
    graph = wired(Settings.model_validate_json(settings_json)).compile()
    return draw_elements(graph.get_graph())
