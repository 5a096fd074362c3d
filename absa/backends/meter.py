"""Counts calls, tokens and cost. Stops the run when a budget is used up or the server is down.

A stop is not a failure of a sample. Samples under way get no record. They are analyzed again at
the next start, and paid answers come from the cache.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from absa.backends.wrapper import Wrapper
from absa.prices import add_costs, price_of, prices
from absa.schemas.backend import Ask, Reply, known_usage
from absa.schemas.errors import BackendError

# After this many unanswered calls of one agent in a row, the server counts as down.
GONE_AFTER = 8
# After this many calls in a row without a usable answer (HTML, nothing, a refusal) the run stops.
# The limit is higher than the one above, because a model can fail on a few hard texts.
USELESS_AFTER = 20


class StopRun(RuntimeError):
    """The run must stop for a reason that is not a failure of its samples."""

    def __init__(
        self, why: str, remedy: str = "raise the limit and start again to continue"
    ) -> None:
        super().__init__(why)
        self.remedy = remedy


@dataclass(frozen=True)
class Budget:
    """What a run may spend in total, restarts included. None means unlimited."""

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None


@dataclass(frozen=True)
class Spent:
    """Calls, tokens and US dollars. The dollars are None if a price or token count is unknown."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    # Answers without token counts. The sums of tokens do not include them.
    calls_without_usage: int = 0

    def plus(self, usage: dict[str, int] | None, cost: float | None) -> Spent:
        """Add one call; `usage` is None if the answer had no token counts."""
        counts = usage or {}
        return replace(
            self,
            calls=self.calls + 1,
            prompt_tokens=self.prompt_tokens + counts.get("prompt_tokens", 0),
            completion_tokens=self.completion_tokens + counts.get("completion_tokens", 0),
            cost_usd=add_costs(self.cost_usd, cost),
            calls_without_usage=self.calls_without_usage + (usage is None),
        )


class Meter:
    """Counts what is spent, checks the budget, and is a circuit breaker."""

    def __init__(self, budget: Budget, spent: Spent, models: Iterable[str] = ()) -> None:
        """Start from what was `spent` before; `models` are the models that can be asked."""
        self._budget = budget
        self._total = spent
        self._by_sample: dict[str, Spent] = {}
        self._unpriced = sorted(model for model in models if model not in prices())
        # By agent: each can have its own server and key, and one server can be down.
        self._unanswered: Counter[str] = Counter()
        self._useless: Counter[str] = Counter()
        self._last_failure: dict[str, str] = {}

    @property
    def total(self) -> Spent:
        """The total of the run."""
        return self._total

    def take(self, uid: str) -> Spent:
        """What a sample has cost since the last call of this method."""
        return self._by_sample.pop(uid, Spent())

    def check(self) -> None:
        """Raise `StopRun` if no further call may be made."""
        for count, limit, what in (
            (self._unanswered, GONE_AFTER, "were not answered"),
            (self._useless, USELESS_AFTER, "got no usable answer"),
        ):
            for node, calls in count.items():
                if calls >= limit:
                    raise StopRun(
                        f"{calls} calls of {node} in a row {what} ({self._last_failure[node]})",
                        "fix the cause and start again; --retry-failed repeats failed samples, too",
                    )
        budget, spent = self._budget, self._total
        if budget.calls is not None and spent.calls >= budget.calls:
            raise StopRun(f"--budget-calls {budget.calls} is spent")
        tokens = spent.prompt_tokens + spent.completion_tokens
        if budget.tokens is not None and spent.calls_without_usage:
            raise StopRun(f"--budget-tokens cannot be kept: {_without_usage(spent)}")
        if budget.tokens is not None and tokens >= budget.tokens:
            raise StopRun(f"--budget-tokens {budget.tokens} is spent ({tokens} tokens)")
        if budget.usd is None:
            return
        if spent.calls_without_usage and not self._unpriced:
            raise StopRun(f"--budget-usd cannot be kept: {_without_usage(spent)}")
        if self._unpriced or spent.cost_usd is None:
            # Checked before the first call, because the cost would stay unknown.
            which = ", ".join(self._unpriced) or "a model that was asked"
            raise StopRun(
                f"--budget-usd cannot be kept: the price of {which} is not known",
                'write {"MODEL": {"input": 0.1, "output": 0.4}}, in US dollars per million tokens, '
                "to a file, set ABSA_PRICES=FILE and start again; or use --budget-tokens or "
                "--budget-calls",
            )
        if spent.cost_usd >= budget.usd:
            raise StopRun(f"--budget-usd {budget.usd:g} is spent (${spent.cost_usd:.4f})")

    def answered(
        self, uid: str, node: str, model: str | None, usage: dict[str, int] | None
    ) -> None:
        """Count an answered call."""
        self._unanswered[node] = self._useless[node] = 0
        usage = known_usage(usage)
        self._count(uid, usage, price_of(model, usage))

    def failed(self, uid: str, error: BackendError) -> None:
        """Count a call that got no usable answer."""
        self._useless[error.node] += 1
        self._last_failure[error.node] = str(error)
        self._unanswered[error.node] = self._unanswered[error.node] + 1 if error.unreachable else 0
        if error.attempts:
            model, usage = error.details.get("model"), known_usage(error.details.get("usage"))
            # An answer without token counts has an unknown price. No answer costs nothing.
            if usage is None and not error.details.get("answered"):
                self._count(uid, {}, 0.0)
            else:
                self._count(uid, usage, price_of(model, usage))

    def _count(self, uid: str, usage: dict[str, int] | None, cost: float | None) -> None:
        self._total = self._total.plus(usage, cost)
        self._by_sample[uid] = self._by_sample.get(uid, Spent()).plus(usage, cost)


def _without_usage(spent: Spent) -> str:
    count = spent.calls_without_usage
    answers = "1 answer" if count == 1 else f"{count} answers"
    return (
        f"{answers} had no usable token count (usage); "
        "use --budget-calls instead, or configure the server to report usage"
    )


@dataclass(eq=False)
class MeteredBackend(Wrapper):
    """A backend that counts the calls of another backend."""

    meter: Meter

    async def aask(self, question: Ask) -> Reply:
        """Ask the inner backend, or raise `StopRun`."""
        self.meter.check()
        try:
            reply = await self.inner.aask(question)
        except BackendError as error:
            self.meter.failed(question.uid, error)
            raise
        self.meter.answered(question.uid, question.node, reply.model, reply.usage)
        return reply
