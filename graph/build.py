"""The graphs: fixed for given settings or, for the debate, switchable per run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import RetryPolicy, Send

from graph import routing
from graph.steps import (
    AgentStep,
    HumanStep,
    RecallStep,
    RememberStep,
    RouteStep,
    RuleStep,
    SettingsInForce,
    typed,
)
from nodes.adopt import adopt
from nodes.agent import Agent
from nodes.apply_reviews import apply_reviews
from nodes.arbiter import arbiter, asking_arbiter
from nodes.ate import ate
from nodes.ate_review import ate_review
from nodes.atsa import atsa
from nodes.atsa_review import atsa_review
from nodes.conflict_finalize import conflict_finalize
from nodes.conflict_reviewers import REVIEWERS
from nodes.extract import extract
from nodes.finalize import finalize
from nodes.intake import intake
from nodes.judge import JUDGES
from nodes.merge_candidates import merge_candidates
from nodes.moderator import moderator
from nodes.override_gate import carry_out, override_gate, record_verdict
from nodes.perspectives import PERSPECTIVES
from nodes.review_context import review_context
from nodes.speaker import speaker
from nodes.stage1 import stage1
from nodes.validator import validator
from nodes.validator_review import validator_review
from nodes.vote import vote
from schemas.backend import Backend
from schemas.context import RunContext, context_for
from schemas.errors import BackendError
from schemas.settings import PipelineSettings
from schemas.state import (
    FinishUpdate,
    InputState,
    MemoryInputState,
    OutputState,
    State,
    state_schema,
)

# The loops (rounds, aspects at the gate) are bounded by their own routers. LangGraph's default
# limit would end a long review with an error that says nothing about it.
RECURSION_LIMIT = 1_000_000

Graph = CompiledStateGraph[Any, Any, Any, Any]
Router = Callable[[PipelineSettings], routing.Next]


def build(
    pipeline: PipelineSettings,
    backend: Backend,
    *,
    name: str = "absa",
    store: BaseStore | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    interactive: bool = False,
) -> Graph:
    """The graph of these settings: what is switched off is not in it.

    `store` keeps the episodes of a graph with memory; without one they last as long as the graph.
    With a `checkpointer` a graph can wait for a person; `interactive` says that one will be there
    although it is not known yet: LangGraph's server brings its own, and a store too, and refuses a
    graph that has one. Without either nobody is asked, and a text that a person should see is
    marked as pending.
    """
    wiring = _Wiring(pipeline, backend, store=store, saver=checkpointer, interactive=interactive)
    graphs = {"debate": wiring.debate_graph, "conflict_review": wiring.conflict_graph}
    return graphs.get(pipeline.protocol, wiring.vote_graph)(name)


def build_switchable(pipeline: PipelineSettings, backend: Backend, *, name: str = "absa") -> Graph:
    """All parts behind conditional edges that read the run's context; what Studio offers."""
    return _Wiring(pipeline, backend, switchable=True, interactive=True).debate_graph(name)


def _is_retryable(error: Exception) -> bool:
    return isinstance(error, BackendError) and error.retryable


class _Wiring:
    """Adds nodes and edges; only this class knows whether edges are fixed or conditional."""

    def __init__(
        self,
        pipeline: PipelineSettings,
        backend: Backend,
        *,
        switchable: bool = False,
        store: BaseStore | None = None,
        saver: BaseCheckpointSaver[Any] | None = None,
        interactive: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._asks = switchable or routing.may_ask(pipeline)
        self._interactive = interactive or saver is not None
        self._saver = saver
        self._with_memory = routing.has_memory(pipeline)
        needs_store = self._with_memory and not interactive
        self._store = store or (InMemoryStore() if needs_store else None)
        self._backend = backend
        self._switchable = switchable
        self._settings = SettingsInForce(pipeline, switchable=switchable)
        parts = {"conflict_review": ["conflict_review"], "debate": []}.get(
            pipeline.protocol, ["vote"]
        )
        parts += ["memory"] * self._with_memory + [routing.HUMAN_REVIEW] * self._asks
        self._schema = state_schema(*parts)
        self._graph: StateGraph[Any, Any, Any, Any] = StateGraph(
            self._schema,
            context_schema=context_for(pipeline) if switchable else None,
            input_schema=MemoryInputState if self._with_memory else InputState,
            output_schema=OutputState,
        )

    def vote_graph(self, name: str) -> Graph:
        """The baselines: one joint call, or a majority over several in parallel."""
        self._intake()
        self._agent(extract)
        numbers = range(self._pipeline.vote_calls)
        self._graph.add_conditional_edges(
            "intake",
            RouteStep(
                lambda state: [Send("extract", {**state, "call_number": n}) for n in numbers]
            ),
            ["extract"],
        )
        self._rule(vote, with_settings=True)
        self._graph.add_edge("extract", "vote")
        self._rule(finalize, with_settings=True)
        self._edge_to_last("vote", "finalize")
        self._person(finalize)
        self._graph.add_edge("finalize", END)
        return self._compiled(name)

    def conflict_graph(self, name: str) -> Graph:
        """Three perspectives; where they leave a doubt, three reviewers and an arbiter."""
        self._intake()
        for perspective in PERSPECTIVES:
            self._agent(perspective)
            self._graph.add_edge("intake", perspective.name)
            self._graph.add_edge(perspective.name, "merge_candidates")
        self._rule(merge_candidates)
        if self._with_memory:
            self._graph.add_conditional_edges(
                "merge_candidates",
                RouteStep(self._past_person(routing.after_merge_with_memory)),
                ["recall", *self._ends(in_doubt=False)],
            )
            self._graph.add_node("recall", RecallStep(self._settings))
            for reviewer in routing.CONFLICT_REVIEWERS:
                self._graph.add_edge("recall", reviewer)
        else:
            self._graph.add_conditional_edges(
                "merge_candidates",
                RouteStep(self._past_person(routing.after_merge)),
                [*routing.CONFLICT_REVIEWERS, *self._ends(in_doubt=False)],
            )
        asks = self._pipeline.conflict_review.arbiter == "llm"
        count = "count_votes" if asks else "arbiter"
        for agent in REVIEWERS:
            self._agent(agent)
            self._graph.add_edge(agent.name, count)
        self._graph.add_node(count, RuleStep(arbiter))
        if asks:
            # The rule counts; the model is asked only about what the votes leave open.
            votes = RouteStep(self._past_person(routing.after_votes))
            self._graph.add_conditional_edges(count, votes, ["arbiter", *self._ends()])
            self._agent(asking_arbiter)
        self._edge_to_last("arbiter", "finalize")
        self._person(conflict_finalize)
        self._graph.add_node("finalize", RuleStep(conflict_finalize, self._settings))
        self._end("finalize")
        return self._compiled(name)

    def debate_graph(self, name: str) -> Graph:
        """Stage 1, debate, Stage 2, gate, adoption, Moderator, as far as they are switched on."""
        everything = self._switchable
        p = self._pipeline
        self._intake()
        self._stage1(everything or p.enable_validator)
        if everything or p.enable_debate:
            self._debate()
        if everything or p.enable_stage2:
            self._stage2(
                with_validator=everything or p.enable_validator,
                with_gate=everything or "override_gate" in routing.after_apply(p),
            )
        last_rules = {"moderator": moderator, "finalize": finalize}
        self._person(lambda state, p: last_rules[routing.before_output(p)[0]](state, p))
        for last in last_rules.values():
            if everything or last.__name__ in routing.before_output(p):
                self._rule(last, with_settings=True)
                self._end(last.__name__)
        return self._compiled(name)

    def _person(self, last: Callable[[State, PipelineSettings], FinishUpdate]) -> None:
        """The person before the last rule, where one may be asked."""
        if not self._asks:
            return
        step = HumanStep(last, self._settings, interactive=self._interactive)
        self._graph.add_node(routing.HUMAN_REVIEW, step)
        if self._switchable:
            self._choose(
                routing.HUMAN_REVIEW, lambda state, p: list(routing.before_output(p)), routing.LAST
            )
        else:
            self._graph.add_edge(routing.HUMAN_REVIEW, routing.before_output(self._pipeline)[0])

    def _ends(self, last: str = "finalize", *, in_doubt: bool = True) -> list[str]:
        """Where an edge to the last node may lead, coming from a node that may leave a doubt."""
        if self._asks and self._pipeline.human_review == "always":
            return [routing.HUMAN_REVIEW]
        return [routing.HUMAN_REVIEW, last] if self._asks and in_doubt else [last]

    def _edge_to_last(self, source: str, last: str) -> None:
        """An edge to the last node, past the person."""
        ends = self._ends(last)
        if len(ends) == 1:
            self._graph.add_edge(source, ends[0])
        else:
            self._choose(source, lambda state, p: routing.past_person(state, p, [last]), ends)

    def _past_person(self, router: Callable[[State], Any]) -> Callable[[State], Any]:
        """A router that names the last node, with the person before it."""
        if not self._asks:
            return router

        def asking(state: State) -> list[str]:
            found = router(state)
            follow = [found] if isinstance(found, str) else found
            return routing.past_person(state, self._pipeline, follow)

        return asking

    def _end(self, last: str) -> None:
        """The end, where a graph with memory remembers."""
        if not self._with_memory:
            self._graph.add_edge(last, END)
            return
        if "remember" not in self._graph.nodes:
            self._graph.add_node("remember", RememberStep(self._settings))
            self._graph.add_edge("remember", END)
        self._graph.add_edge(last, "remember")

    def _intake(self) -> None:
        self._graph.add_node("intake", RuleStep(self._checked(intake)))
        self._graph.add_edge(START, "intake")

    def _compiled(self, name: str) -> Graph:
        compiled = self._graph.compile(name=name, store=self._store, checkpointer=self._saver)
        return compiled.with_config(recursion_limit=RECURSION_LIMIT)

    def _stage1(self, with_validator: bool) -> None:
        agents: list[Agent[Any]] = [ate, atsa, *([validator] if with_validator else [])]
        for agent in agents:
            self._agent(agent)
            self._graph.add_edge(agent.name, "stage1")
        self._route("intake", routing.after_intake, [a.name for a in agents[1:]])
        self._graph.add_conditional_edges(
            "intake", RouteStep(routing.finding_aspects), {"ate": "ate"}
        )
        self._rule(stage1, with_settings=True)
        if self._with_memory:
            self._graph.add_node("recall", RecallStep(self._settings))
            self._graph.add_edge("stage1", "recall")
        self._route(
            "recall" if self._with_memory else "stage1",
            routing.after_stage1,
            [self._pipeline.debate.order[0], *routing.REVIEWERS, "moderator", "finalize"],
        )

    def _debate(self) -> None:
        order = self._pipeline.debate.order
        protocol = self._pipeline.debate.protocol
        for name in order:
            self._agent(speaker(name, protocol))
        for one, other in zip(order, order[1:], strict=False):
            self._graph.add_edge(one, other)
        if self._switchable or self._pipeline.debate.rounds > 1:
            # Rounds are a loop in the graph, not copies of its nodes.
            self._choose(order[-1], routing.next_round, (order[0], "judge"))
        else:
            self._graph.add_edge(order[-1], "judge")
        self._agent(JUDGES[protocol])
        self._graph.add_edge("judge", "review_context")
        self._rule(review_context, with_settings=True)
        self._route(
            "review_context",
            routing.after_debate,
            [*routing.REVIEWERS, "moderator", "finalize"],
        )

    def _stage2(self, *, with_validator: bool, with_gate: bool) -> None:
        for agent in (ate_review, atsa_review):
            self._agent(agent)
            self._route(agent.name, routing.after_reviewers, ["validator_review", "apply_reviews"])
        if with_validator:
            self._agent(validator_review)
            self._graph.add_edge("validator_review", "apply_reviews")
        self._rule(apply_reviews)
        self._route("apply_reviews", routing.after_apply, ["override_gate", "adopt"])
        if with_gate:
            self._gate()
        self._rule(adopt, with_settings=True)
        self._route("adopt", routing.before_output, ["moderator", "finalize"])

    def _gate(self) -> None:
        """One edge and one node per verdict; two edges to one node would collapse in a drawing."""
        self._rule(override_gate, with_settings=True)
        edges: dict[Any, str] = {routing.NO_VERDICT: "adopt"}
        for verdict in routing.verdicts(self._pipeline, switchable=self._switchable):
            node = edges[verdict] = routing.verdict_node(verdict)
            if verdict in routing.OVERRIDES:
                step = RuleStep(carry_out(verdict), self._settings)
            else:
                step = RuleStep(record_verdict(verdict))
            self._graph.add_node(node, step)
            self._graph.add_edge(node, "adopt")
        self._graph.add_conditional_edges("override_gate", RouteStep(routing.after_gate), edges)

    def _agent(self, agent: Agent[Any]) -> None:
        self._graph.add_node(
            agent.name,
            AgentStep(agent, self._backend, self._settings),
            retry_policy=RetryPolicy(retry_on=_is_retryable),
        )

    def _checked(self, rule: Callable[[State, PipelineSettings], Any]) -> Callable[[State], Any]:
        own = self._schema.__annotations__

        def first(state: State) -> Any:
            self._settings.check_context()
            # It wipes the slate of every protocol; this graph has a smaller one.
            update = rule(state, self._pipeline)
            return {key: value for key, value in update.items() if key in own}

        return first

    def _rule(self, rule: Callable[..., Any], *, with_settings: bool = False) -> None:
        self._graph.add_node(
            rule.__name__, RuleStep(rule, self._settings if with_settings else None)
        )

    def _route(self, source: str, router: Router, targets: Sequence[str]) -> None:
        """Edges that the settings choose: drawn once, or chosen in every run."""
        if not self._switchable:
            for target in router(self._pipeline):
                if target in routing.LAST:
                    self._edge_to_last(source, target)
                else:
                    self._graph.add_edge(source, target)
            return
        ends = [routing.HUMAN_REVIEW] if set(routing.LAST) & set(targets) else []
        self._choose(
            source, lambda state, p: routing.past_person(state, p, router(p)), [*targets, *ends]
        )

    def _choose(
        self, source: str, router: Callable[[State, PipelineSettings], Any], targets: Iterable[str]
    ) -> None:
        """An edge that is chosen in every run."""
        paths: dict[Any, str] = {target: target for target in targets}
        settings = self._settings

        def by_context(state: State, config: RunnableConfig) -> Any:
            # Not `runtime: Runtime`: there is none where a state is edited by hand.
            with set_config_context(config) as run:
                runtime: Runtime[RunContext] | None = run.run(get_runtime, RunContext)
            return router(typed(state), settings.under(runtime.context if runtime else None))

        def as_built(state: State) -> Any:
            return router(state, settings())

        step = by_context if settings.switchable else RouteStep(as_built)
        self._graph.add_conditional_edges(source, step, paths)
