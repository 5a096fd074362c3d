"""The debate graph: fixed for given settings, or switchable per run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import RetryPolicy, Send

from graph import routing
from graph.steps import AgentStep, RouteStep, RuleStep, SettingsInForce
from nodes.adopt import adopt
from nodes.agent import Agent
from nodes.apply_reviews import apply_reviews
from nodes.ate import ate
from nodes.ate_review import ate_review
from nodes.atsa import atsa
from nodes.atsa_review import atsa_review
from nodes.extract import extract
from nodes.finalize import finalize
from nodes.intake import intake
from nodes.judge import judge
from nodes.moderator import moderator
from nodes.override_gate import carry_out, override_gate, record_verdict
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
from schemas.state import InputState, OutputState, State

# The loops (rounds, aspects at the gate) are bounded by their own routers. LangGraph's default
# limit would end a long review with an error that says nothing about it.
RECURSION_LIMIT = 1_000_000

Graph = CompiledStateGraph[Any, Any, Any, Any]
Router = Callable[[PipelineSettings], routing.Next]


def build(pipeline: PipelineSettings, backend: Backend, *, name: str = "absa") -> Graph:
    """The graph of these settings: what is switched off is not in it."""
    wiring = _Wiring(pipeline, backend, switchable=False)
    return wiring.debate_graph(name) if pipeline.protocol == "debate" else wiring.vote_graph(name)


def build_switchable(pipeline: PipelineSettings, backend: Backend, *, name: str = "absa") -> Graph:
    """All parts behind conditional edges that read the run's context; what Studio offers."""
    return _Wiring(pipeline, backend, switchable=True).debate_graph(name)


def _is_retryable(error: Exception) -> bool:
    return isinstance(error, BackendError) and error.retryable


class _Wiring:
    """Adds nodes and edges; only this class knows whether edges are fixed or conditional."""

    def __init__(self, pipeline: PipelineSettings, backend: Backend, *, switchable: bool) -> None:
        self._pipeline = pipeline
        self._backend = backend
        self._switchable = switchable
        self._settings = SettingsInForce(pipeline, switchable=switchable)
        self._graph: StateGraph[Any, Any, Any, Any] = StateGraph(
            State,
            context_schema=context_for(pipeline) if switchable else None,
            input_schema=InputState,
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
        self._graph.add_edge("vote", "finalize")
        self._graph.add_edge("finalize", END)
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
        for last in (moderator, finalize):
            if everything or last.__name__ in routing.before_output(p):
                self._rule(last, with_settings=True)
                self._graph.add_edge(last.__name__, END)
        return self._compiled(name)

    def _intake(self) -> None:
        self._graph.add_node("intake", RuleStep(self._checked(intake)))
        self._graph.add_edge(START, "intake")

    def _compiled(self, name: str) -> Graph:
        return self._graph.compile(name=name).with_config(recursion_limit=RECURSION_LIMIT)

    def _stage1(self, with_validator: bool) -> None:
        agents: list[Agent[Any]] = [ate, atsa, *([validator] if with_validator else [])]
        for agent in agents:
            self._agent(agent)
            self._graph.add_edge(agent.name, "stage1")
        self._route("intake", routing.after_intake, [a.name for a in agents])
        self._rule(stage1)
        self._route(
            "stage1",
            routing.after_stage1,
            [self._pipeline.debate.order[0], *routing.REVIEWERS, "moderator", "finalize"],
        )

    def _debate(self) -> None:
        order = self._pipeline.debate.order
        for name in order:
            self._agent(speaker(name))
        for one, other in zip(order, order[1:], strict=False):
            self._graph.add_edge(one, other)
        if self._switchable or self._pipeline.debate.rounds > 1:
            # Rounds are a loop in the graph, not copies of its nodes.
            self._choose(order[-1], routing.next_round, (order[0], "judge"))
        else:
            self._graph.add_edge(order[-1], "judge")
        self._agent(judge)
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
            self._gate(with_drop=self._switchable or self._pipeline.debate_override.allow_drop)
        self._rule(adopt, with_settings=True)
        self._route("adopt", routing.before_output, ["moderator", "finalize"])

    def _gate(self, *, with_drop: bool) -> None:
        """One edge and one node per verdict; two edges to one node would collapse in a drawing."""
        self._rule(override_gate, with_settings=True)
        edges: dict[Any, str] = {routing.NO_VERDICT: "adopt"}
        for verdict in (*routing.SKIPS, *routing.OVERRIDES):
            if verdict == "drop" and not with_drop:
                continue
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

    def _checked(self, rule: Callable[[State], Any]) -> Callable[[State], Any]:
        def first(state: State) -> Any:
            self._settings.check_context()
            return rule(state)

        return first

    def _rule(self, rule: Callable[..., Any], *, with_settings: bool = False) -> None:
        self._graph.add_node(
            rule.__name__, RuleStep(rule, self._settings if with_settings else None)
        )

    def _route(self, source: str, router: Router, targets: Iterable[str]) -> None:
        """Edges that the settings choose: drawn once, or chosen in every run."""
        if not self._switchable:
            for target in router(self._pipeline):
                self._graph.add_edge(source, target)
            return
        self._choose(source, lambda state, p: list(router(p)), targets)

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
            return router(state, settings.under(runtime.context if runtime else None))

        def as_built(state: State) -> Any:
            return router(state, settings())

        step = by_context if settings.switchable else RouteStep(as_built)
        self._graph.add_conditional_edges(source, step, paths)
