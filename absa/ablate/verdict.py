"""The verdict on the debate: one word per baseline, one overall, and sentences with numbers.

Against one baseline, the first row that applies decides:

| # | against a baseline                                                    | word            |
|---|-----------------------------------------------------------------------|-----------------|
| 1 | this baseline was not compared                                        | `cannot_say`    |
| 2 | the debate is better (*), but the vote made fewer calls               | `cannot_say`    |
| 3 | the debate is worse (*), but the vote made more calls                 | `cannot_say`    |
| 4 | better (*) than the single call, while the vote's word is not `helps` | `better`        |
| 5 | the debate is better (*)                                              | `helps`         |
| 6 | the debate is worse (*)                                               | `hurts`         |
| 7 | otherwise                                                             | `no_difference` |

(*) The 95 % interval of the difference excludes zero and the corrected p is at most 0.05.
In row 4 the additional calls alone can be the reason.

The overall word is again that of the first row that applies. `better` is less than `helps`:

| # | words for the single call and the vote  | overall         |
|---|-----------------------------------------|-----------------|
| 1 | at least one is `hurts`                 | `hurts`         |
| 2 | both are `helps`                        | `helps`         |
| 3 | at least one is `cannot_say`            | `cannot_say`    |
| 4 | otherwise                               | `no_difference` |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from absa.statistics import ALPHA

Word = Literal["helps", "hurts", "better", "no_difference", "cannot_say"]
WORDS: dict[str, str] = {
    "helps": "helps",
    "hurts": "hurts",
    "better": "better, but perhaps only because of the additional calls",
    "no_difference": "no difference shown at this size",
    "cannot_say": "cannot be said",
}
# Tolerance of mean calls per sample: one call in a hundred samples counts as equal cost.
_EQUAL_CALLS = 0.01
_SAME_SIGN = 1e-12


@dataclass(frozen=True)
class Spent:
    """The cost per sample. None is unknown."""

    calls: float
    cost_usd: float | None = None

    def __str__(self) -> str:
        cost = "unknown cost" if self.cost_usd is None else f"${self.cost_usd:.5f}"
        return f"{self.calls:.3g} {'call' if self.calls == 1 else 'calls'}, {cost}"


@dataclass(frozen=True)
class Against:
    """The difference of the debate and a baseline in strict pair F1."""

    name: str
    difference: float
    low: float
    high: float
    p_holm: float
    smallest_shown: float | None
    samples_that_differ: int
    overlap_difference: float
    spent: Spent


@dataclass(frozen=True)
class Verdict:
    """The verdict and its reasons."""

    word: Word
    single: Word
    vote: Word
    sentence: str
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For `ablation.json`."""
        return {**asdict(self), "notes": list(self.notes)}


def word_against(baseline: Against) -> Word:
    """The word for the difference at this sample size."""
    if baseline.p_holm <= ALPHA:
        if baseline.low > 0:
            return "helps"
        if baseline.high < 0:
            return "hurts"
    return "no_difference"


def word_against_vote(baseline: Against, debate: Spent) -> Word:
    """The word against a vote, which counts only if the numbers of calls are comparable."""
    word = word_against(baseline)
    gap = baseline.spent.calls - debate.calls
    unfair = {"helps": gap < -_EQUAL_CALLS, "hurts": gap > _EQUAL_CALLS}
    return "cannot_say" if unfair.get(word) else word


def overall(single: Word, vote: Word) -> Word:
    """One word for both baselines."""
    both = (single, vote)
    if "hurts" in both:
        return "hurts"
    if both == ("helps", "helps"):
        return "helps"
    return "cannot_say" if "cannot_say" in both else "no_difference"


def decide(
    debate: str, spent: Spent, samples: int, single: Against | None, vote: Against | None
) -> Verdict:
    """The verdict on the debate."""
    on_single: Word = word_against(single) if single else "cannot_say"
    on_vote: Word = word_against_vote(vote, spent) if vote else "cannot_say"
    if on_single == "helps" and on_vote != "helps":
        on_single = "better"
    word = overall(on_single, on_vote)
    parts = [
        _head(debate, word),
        *(_against("the single call", single, on_single) if single else ()),
        *(_against("the vote", vote, on_vote) if vote else ()),
        *_missing(single, vote),
        _cost(spent, single, vote),
        f"({samples:,} samples.)",
    ]
    notes = tuple(_notes(spent, single, vote))
    return Verdict(word, on_single, on_vote, " ".join(parts), notes)


def _head(debate: str, word: Word) -> str:
    if word == "no_difference":
        return f"Debate ({debate}): no difference shown at this size."
    if word == "cannot_say":
        return f"Debate ({debate}): it cannot be said whether it is worth its calls."
    return f"The debate ({debate}) {word}."


def _against(what: str, baseline: Against, word: Word) -> Sequence[str]:
    numbers = (
        f"{points(baseline.difference)} points of strict pair F1, 95 % interval "
        f"{points(baseline.low)} to {points(baseline.high)}, corrected p {baseline.p_holm:.3g}"
    )
    text = f"Against {what} ({baseline.name}): {WORDS[word]} ({numbers})"
    if word == "no_difference":
        if baseline.low > 0 or baseline.high < 0:
            text += (
                "; the interval, which is not corrected, excludes zero, but after correction for "
                "the number of comparisons no difference is shown"
            )
        if not baseline.samples_that_differ:
            text += "; no sample scores differently"
        elif baseline.smallest_shown is not None:
            text += f"; a difference of {100 * baseline.smallest_shown:.1f} could have been shown"
    return (f"{text}.",)


def _missing(single: Against | None, vote: Against | None) -> Sequence[str]:
    lines = []
    if single is None:
        lines.append("No configuration makes a single call, so there is no comparison with one.")
    if vote is None:
        lines.append("No configuration is a vote, so the debate cannot be compared at equal cost.")
    return lines


def _cost(spent: Spent, single: Against | None, vote: Against | None) -> str:
    parts = [f"debate {spent}"]
    parts += [f"vote {vote.spent}"] if vote else []
    parts += [f"single {single.spent}"] if single else []
    return f"A sample costs: {'; '.join(parts)}."


def _notes(spent: Spent, single: Against | None, vote: Against | None) -> Sequence[str]:
    notes = []
    for comparison in (single, vote):
        if comparison is None:
            continue
        strict, overlap = _sign(comparison.difference), _sign(comparison.overlap_difference)
        if strict != overlap:
            notes.append(
                f"strict and overlap scoring disagree about the sign against {comparison.name}: "
                f"{points(comparison.difference)} and {points(comparison.overlap_difference)}"
            )
    if vote is not None and abs(vote.spent.calls - spent.calls) > _EQUAL_CALLS:
        notes.append(
            f"not at equal cost: {vote.name} makes {vote.spent.calls:.3g} different calls a "
            f"sample, the debate {spent.calls:.3g}"
        )
    return notes


def _sign(value: float) -> int:
    return 0 if abs(value) < _SAME_SIGN else 1 if value > 0 else -1


def points(value: float) -> str:
    """A fraction as signed percentage points."""
    shown = f"{100 * value:+.1f}"
    return "0.0" if float(shown) == 0 else shown
