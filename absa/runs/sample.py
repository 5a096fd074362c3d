"""Runs one sample through the graph and makes its record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import to_json

from absa.aux_hf import with_signal
from absa.backends.meter import StopRun
from absa.database import StorageError
from absa.graph import DirectGraph, Graph
from absa.inputs import graph_input
from absa.nodes.memory import TRAIN, learn
from absa.prices import cost_of
from absa.runs.journal import Finished
from absa.schemas.errors import BackendError, InputError
from absa.schemas.memory import Outcome
from absa.schemas.output import FinalOutput
from absa.schemas.sample import Sample
from absa.schemas.settings import AuxHfSettings
from absa.scorecard import scorecard

# The outcome that memory stores when the tuples of a sample are right or wrong.
_OUTCOMES: dict[str, Outcome] = {"fix": "success", "break": "harm"}


async def output_of(graph: Graph | DirectGraph, graph_inputs: dict[str, Any]) -> FinalOutput:
    """The result of `ainvoke` without collecting its updates, which takes 5 % of the time."""
    if isinstance(graph, DirectGraph):
        return graph.invoke(graph_inputs)["output"]
    values = graph.astream(graph_inputs, stream_mode="values", output_keys="output")
    output: Any = [value async for value in values][-1]
    assert isinstance(output, FinalOutput), "every graph ends with an output"
    return output


async def analyse(
    graph: Graph | DirectGraph,
    sample: Sample,
    position: int,
    seed: int,
    demos: list[dict[str, Any]],
    aux_hf: AuxHfSettings,
    extra_input: Mapping[str, Any],
) -> Finished:
    """Run one sample through the graph; return its record or an error record."""
    graph_inputs = graph_input(
        sample.text,
        uid=sample.uid,
        lang=sample.lang,
        domain=sample.domain,
        given_aspects=sample.given_aspects,
        demos=demos,
        besides=extra_input,
    )
    try:
        output = await output_of(graph, graph_inputs)
        await learn_from_gold(graph, output, sample)
        if aux_hf.enabled:
            # Pure computation, so it runs in a thread and does not block calls in flight.
            output = await asyncio.to_thread(with_signal, output, aux_hf)
        return record_of(output, sample, position, seed)
    except (StorageError, StopRun):  # not a failure of the sample
        raise
    except Exception as error:  # A failed sample is recorded and does not end the batch.
        return Finished(seed, sample.uid, position, error=describe_error(error, sample, seed))


async def learn_from_gold(graph: Graph | DirectGraph, output: FinalOutput, sample: Sample) -> None:
    """Store the score of a training sample as the outcome of its episode."""
    store = None if isinstance(graph, DirectGraph) else graph.store
    if store is None or sample.split != TRAIN or sample.aspects is None or sample.incomplete_gold:
        return
    from absa.metrics.quality import score_sample  # scipy takes a second to load

    change = score_sample(output, sample.aspects, sample.label, None).change("strict")
    await asyncio.to_thread(learn, store, output, _OUTCOMES.get(change, "neutral"))


def record_of(output: FinalOutput, sample: Sample, position: int, seed: int) -> Finished:
    """The record of an analyzed sample."""
    usage = output.meta.usage
    meta = output.meta.model_copy(update={"seed": seed})
    output = output.model_copy(update={"meta": meta, "extra": sample.extra})
    return Finished(
        seed,
        sample.uid,
        position,
        parts={
            "output": _lines([output]),
            # The run's seed, even if the model ignores it, because it identifies the repetition.
            "traces": _lines(
                {"uid": output.uid, **dict(call), "seed": seed} for call in output.process_trace
            ),
            "gate": _lines(
                {"uid": output.uid, "seed": seed, **dict(judged)}
                for judged in output.meta.override_gate
            ),
            "scorecard": _lines([scorecard(output, sample, seed)]),
        },
        calls=usage.calls - usage.cached_calls,
        cached=usage.cached_calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=cost_of(output.process_trace),
    )


def describe_error(error: Exception, sample: Sample, seed: int) -> dict[str, Any]:
    """An error as a line of `errors.jsonl`: reason, node, attempts and the raw answer."""
    is_answer = isinstance(error, BackendError)
    reason = str(error) or type(error).__name__
    if not is_answer and not isinstance(error, InputError):
        reason = f"internal error: {type(error).__name__}: {error}"
    details = ("node", "turn", "attempts", "raw")
    return {
        "uid": sample.uid,
        "seed": seed,
        "kind": "failed",
        "reason": reason,
        **{name: getattr(error, name) if is_answer else None for name in details},
    }


def _lines(values: Iterable[Any]) -> bytes:
    return b"\n".join(map(to_json, values))
