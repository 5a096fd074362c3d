"""S1: replays the recorded answers and compares the decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph.store.memory import InMemoryStore

from absa.backends.replay import backend_notes
from absa.demos import Demos
from absa.inputs import graph_input
from absa.runs.directory import OUTPUTS, TRACES
from absa.runs.engine import UNNAMED_SPLIT
from absa.runs.indexed_file import Line
from absa.runs.verify.records import Findings, SampleRecords
from absa.runs.verify.report import COUNTS
from absa.runs.verify.words import call_key, call_name, differing, number_of, shown, some_of
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.schemas.output import FinalOutput
from absa.schemas.settings import Settings
from absa.wired import replaying

# Fields that are not decisions: how answers were obtained, and signals of classifiers.
_NOT_DECIDED = ("process_trace", "aux_signals", "extra")
_ACTIONS = ("meta.correction_applied_log", "meta.arbiter_actions")


class _RecordedAnswers:
    """A backend over the recorded calls of one sample, with their costs."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, int], dict[str, Any]] = {}
        self.asked: set[tuple[str, int]] = set()

    def load(self, calls: Iterable[Line]) -> None:
        self._calls = {call_key(c.record): c.record for c in calls}
        self.asked = set()

    def recorded(self, question: Ask) -> Reply | None:
        """The answer of the second reader, which does not come from the run's backend."""
        key = (question.node, question.turn)
        return self.ask(question) if key in self._calls else None

    @property
    def unasked(self) -> list[str]:
        return [call_name(key) for key in self._calls if key not in self.asked]

    def ask(self, question: Ask) -> Reply:
        key = (question.node, question.turn)
        self.asked.add(key)
        call = self._calls.get(key)
        output = call.get("output") if call else None
        if call is None or not isinstance(output, dict):
            raise BackendError(f"no answer of {call_name(key)}", node=question.node)
        return Reply(
            output,
            backend=str(call.get("backend")),
            model=call.get("model"),
            seed=call.get("seed"),
            usage=call.get("usage"),
            latency_ms=call.get("latency_ms"),
            cached=bool(call.get("cached")),
            attempts=number_of(call.get("attempts")),
            notes=backend_notes(question, output, call.get("notes")),
            host=call.get("host"),
        )

    async def aask(self, question: Ask) -> Reply:
        return self.ask(question)


class Replayer:
    """The graph of the run's settings, applied to recorded answers."""

    def __init__(self, settings: Settings, demos: Mapping[int, Demos]) -> None:
        self._answers = _RecordedAnswers()
        self._graph = replaying(settings, self._answers, InMemoryStore())
        self._demos = demos

    def compare(
        self, e: SampleRecords, seed: int
    ) -> tuple[FinalOutput | None, list[tuple[str, str]]]:
        """Replay a sample and yield the differences from the record."""
        self._answers.load(e.calls)
        recalled, opinion = e.output.meta.memory, e.output.meta.selective
        graph_inputs = graph_input(
            e.output.text,
            uid=e.output.uid,
            lang=e.output.lang,
            domain=e.card.get("domain") if e.card else None,
            given_aspects=e.output.meta.given_aspects,
            demos=self._demos[seed].for_text(e.output.text) if seed in self._demos else [],
            besides={
                # A verification does not write to memory.
                "split": UNNAMED_SPLIT if recalled else None,
                "memory_recall": recalled.recall if recalled else None,
                "reader_trust": opinion.trust if opinion and opinion.trust_from == "run" else None,
            },
        )
        try:
            again: FinalOutput = self._graph.invoke(graph_inputs)["output"]
        except Exception as error:  # a damaged record can raise any error; the error is the finding
            return None, [("S1", f"{TRACES}: the answers cannot be replayed: {error}")]
        differences = [
            (COUNTS, f"{TRACES}: this graph does not make the call {call}")
            for call in self._answers.unasked
        ]
        recorded = {k: v for k, v in e.raw.items() if k not in _NOT_DECIDED}
        recorded["meta"] = {**e.raw.get("meta", {})}
        if recorded["meta"].pop("seed", None) != seed:
            differences.append((COUNTS, f"{OUTPUTS}: meta.seed is not {seed}"))
        made = again.model_dump(mode="json", exclude=set(_NOT_DECIDED))
        made["meta"].pop("seed")
        by_check: dict[str, list[str]] = {}
        for path, one, other in differing(recorded, made):
            check = "S4" if path.startswith(_ACTIONS) else "S1"
            what = f"{path} is {shown(one)}, the recorded answers give {shown(other)}"
            by_check.setdefault(check, []).append(what)
        differences += [(check, some_of(whats, "; ")) for check, whats in by_check.items()]
        return again, differences


def same_prompts(e: SampleRecords, again: FinalOutput) -> Findings:
    """S6: the prompts contain only the text and the earlier answers."""
    ours = {(c.node, c.turn): c.prompt_sha256 for c in again.process_trace}
    for call in e.calls:
        key = call_key(call.record)
        if key in ours and call.record.get("prompt_sha256") != ours[key]:
            what = (
                "contained something besides the text and the recorded answers (its hash differs)"
            )
            yield "S6", f"the prompt of {call_name(key)} {what}"
