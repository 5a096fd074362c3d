"""`moderator`: decides the label of the text by seven rules, without a model.

The order is Z, B, M, C, A, D, E. Each rule gets the label and confidence of the previous rule.

| rule  | condition                                           | effect                            |
|-------|-----------------------------------------------------|-----------------------------------|
| RuleZ | both ATE confidences are 0                          | `neutral`, 0, stop                |
| RuleB | Stage 2 present                                     | Stage 2's label and confidence    |
|       | … but its confidence is lower by 0.2 or more        | drop guard: Stage 1 is kept       |
| RuleM | Stage 2 present, the stages' labels differ          | `mixed`, the larger confidence    |
| RuleC | the Validator suggests a label, critically or surer | that label, the larger confidence |
| RuleA | no drop guard, ATSA spans overlap by 0.8, same label| mean of the ATSA confidences      |
| RuleD | ATSA's label differs                                | the surer one; a tie (0.1) stays  |
| RuleE | the debate implies another label, and the present   | the debate's label                |
|       | one is `mixed` or its confidence below 0.55         |                                   |

`moderator.rules` selects the active rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from absa.nodes.aggregates import ate_aggregate, atsa_aggregate, validator_aggregate
from absa.nodes.language import Language, language
from absa.nodes.polarity import label_of, read
from absa.nodes.thresholds import TOLERANCE, reaches
from absa.schemas.answers import LABELS, DebateSummary, Span, name_of
from absa.schemas.records import (
    Aggregate,
    ArbiterFlags,
    ModeratorOutput,
    RuleEBlock,
    ValidatorAggregate,
)
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import ModeratorUpdate, State

DROP_GUARD = 0.2
SPAN_IOU = 0.8
CONFIDENCE_TIE = 0.1
RULE_E_CEILING = 0.55
# Between the reason of a rule and its effect.
BECOMES = ", so the label becomes"
_CRITICAL_TOPICS = ("NEGATION", "IRONY", "CONTRAST")
_KEYWORDS = (
    ("mixed", ("혼합", "mixed", "엇갈", "양면")),
    ("positive", ("긍정", "호의", "좋다", "positive")),
    ("negative", ("부정", "비판", "나쁘", "negative")),
    ("neutral", ("중립", "neutral", "모호")),
)


@dataclass(frozen=True)
class Inputs:
    """The inputs of the rules. A Stage 2 that was not adopted is not among them."""

    stage1_ate: Aggregate
    stage1_atsa: Aggregate | None
    stage2_ate: Aggregate | None
    stage2_atsa: Aggregate | None
    validator: ValidatorAggregate
    debate_label: str | None
    debate_held: bool


@dataclass
class LabelState:
    """The current label and confidence, and the rules that acted."""

    label: str
    confidence: float
    drop_guard: bool = False
    rules: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    validator_override: bool = False
    reached: set[str] = field(default_factory=set)
    rule_e_block: RuleEBlock | None = None
    stopped: bool = False

    def act(self, rule: str, sentence: str, label: str, confidence: float) -> None:
        """Record that a rule acted, with its sentence, label and confidence."""
        self.rules.append(rule)
        self.sentences.append(f"{rule}: {sentence}")
        self.label, self.confidence = label, confidence


def moderator(state: State, pipeline: PipelineSettings) -> ModeratorUpdate:
    """Decide the label. A drop guard reverts the adoption."""
    adoption = state["adoption"]
    adopted = adoption.decision == "adopted"
    patched = state["patched_result"] if adopted else None
    text = state["text"]
    inputs = Inputs(
        stage1_ate=ate_aggregate(state["stage1_result"]),
        stage1_atsa=atsa_aggregate(state["stage1_result"], text),
        stage2_ate=ate_aggregate(patched) if patched else None,
        stage2_atsa=atsa_aggregate(patched, text) if patched else None,
        validator=validator_aggregate(state["stage2_validation"] or state["stage1_validation"]),
        debate_label=inferred_label(state["judge_answer"], language(state["lang"])),
        debate_held=state["judge_answer"] is not None,
    )
    decision = moderate(inputs, pipeline.moderator.rules)
    if decision.arbiter_flags.stage2_rejected_due_to_confidence:
        adoption = adoption.model_copy(update={"decision": "not_adopted", "reason": "low_signal"})
    return {"moderation": decision, "adoption": adoption}


def moderate(i: Inputs, rules: Sequence[str]) -> ModeratorOutput:
    """Run the active rules in their order."""
    current = LabelState(i.stage1_ate.label, i.stage1_ate.confidence)
    for name, rule in _RULES.items():
        if name in rules and not current.stopped:
            current.reached.add(name)
            rule(current, i)
    margin = abs(i.stage1_ate.confidence - i.stage2_ate.confidence) if i.stage2_ate else 0.0
    return ModeratorOutput(
        final_label=current.label,
        confidence=current.confidence,
        rationale=" ".join(current.sentences),
        selected_stage="stage2" if i.stage2_ate and not current.drop_guard else "stage1",
        applied_rules=tuple(current.rules),
        arbiter_flags=ArbiterFlags(
            stage2_rejected_due_to_confidence=current.drop_guard,
            validator_override_applied=current.validator_override,
            confidence_margin_used=margin,
            rule_e_fired="RuleE" in current.rules,
            rule_e_block_reason=current.rule_e_block,
            rule_b_applied="RuleB" in current.rules,
            rule_e_attempted_after_b=i.debate_held and {"B", "E"} <= current.reached,
        ),
    )


def _rule_z(c: LabelState, i: Inputs) -> None:
    stage2 = i.stage2_ate.confidence if i.stage2_ate else 0.0
    if i.stage1_ate.confidence <= TOLERANCE and stage2 <= TOLERANCE:
        c.act("RuleZ", "no aspect has a sentiment with any confidence.", "neutral", 0.0)
        c.stopped = True


def _rule_b(c: LabelState, i: Inputs) -> None:
    if i.stage2_ate is None:
        return
    one, two = i.stage1_ate, i.stage2_ate
    c.drop_guard = reaches(one.confidence - two.confidence, DROP_GUARD)
    if c.drop_guard:
        lower = f"Stage 2 ({two.confidence:.2f}) is less confident by {DROP_GUARD} or more"
        c.act("RuleB", f"{lower}, so Stage 1's label is kept.", one.label, one.confidence)
    else:
        sentence = f"Stage 2 was adopted, with the label {_says(two)}."
        c.act("RuleB", sentence, two.label, two.confidence)


def _rule_m(c: LabelState, i: Inputs) -> None:
    if i.stage2_ate is not None and i.stage1_ate.label != i.stage2_ate.label:
        confidence = max(i.stage1_ate.confidence, i.stage2_ate.confidence)
        stages = f"Stage 1 is {i.stage1_ate.label}, Stage 2 is {i.stage2_ate.label}"
        sentence = f"the stages disagree: {stages}{BECOMES} mixed ({confidence:.2f})."
        c.act("RuleM", sentence, "mixed", confidence)


def _rule_c(c: LabelState, i: Inputs) -> None:
    v = i.validator
    critical = critical_risks(v.issues)
    if v.suggested_label and (critical or reaches(v.confidence, c.confidence)):
        confidence = max(c.confidence, v.confidence)
        if v.suggested_label == c.label:
            sentence = f"the Validator agrees with {c.label} ({v.confidence:.2f})."
        elif critical:
            risks = ", ".join(dict.fromkeys(map(_in_words, critical)))
            sentence = f"veto by the Validator, from {c.label} to {v.suggested_label}: {risks}."
        else:
            surer = f"at least as sure as {c.label} ({c.confidence:.2f})"
            says = f"the Validator says {v.suggested_label} ({v.confidence:.2f}), {surer}"
            sentence = f"{says}{BECOMES} {v.suggested_label} ({confidence:.2f})."
        c.act("RuleC", sentence, v.suggested_label, confidence)
        c.validator_override = True


def _rule_a(c: LabelState, i: Inputs) -> None:
    one, two = i.stage1_atsa, i.stage2_atsa
    if c.drop_guard or i.stage2_ate is None or one is None or two is None:
        return
    if reaches(iou(one.span, two.span), SPAN_IOU) and two.label == c.label:
        mean = (one.confidence + two.confidence) / 2
        sentence = f"both stages judge the same place in the text; mean confidence {mean:.2f}."
        c.act("RuleA", sentence, c.label, mean)


def _rule_d(c: LabelState, i: Inputs) -> None:
    use_stage1 = c.drop_guard or i.stage2_ate is None
    atsa = i.stage1_atsa if use_stage1 else i.stage2_atsa
    if atsa is None or atsa.label == c.label:
        return
    evidence = f"the aspects with evidence in the text say {_says(atsa)}"
    if reaches(abs(c.confidence - atsa.confidence), CONFIDENCE_TIE) and (
        atsa.confidence > c.confidence
    ):
        sentence = f"{evidence}, surer than {c.label} ({c.confidence:.2f})."
        c.act("RuleD", sentence, atsa.label, atsa.confidence)
    else:
        stays = f"the label stays {c.label} ({c.confidence:.2f})"
        sentence = f"{stays}: {evidence}, which is not {CONFIDENCE_TIE} surer."
        c.act("RuleD", sentence, c.label, c.confidence)


def _rule_e(c: LabelState, i: Inputs) -> None:
    if not i.debate_held:
        return
    if i.debate_label is None:
        c.rule_e_block = "inferred_empty"
    elif i.debate_label == c.label:
        c.rule_e_block = "label_unchanged"
    elif c.label != "mixed" and reaches(c.confidence, RULE_E_CEILING):
        c.rule_e_block = "confidence_too_high"
    else:
        doubt = "mixed" if c.label == "mixed" else f"unsure ({c.label}, {c.confidence:.2f})"
        sentence = f"the debate says {i.debate_label}, and the label was {doubt}."
        c.act("RuleE", sentence, i.debate_label, c.confidence)


_RULES = {
    "Z": _rule_z,
    "B": _rule_b,
    "M": _rule_m,
    "C": _rule_c,
    "A": _rule_a,
    "D": _rule_d,
    "E": _rule_e,
}


def critical_risks(issues: Iterable[str]) -> list[str]:
    """The issues of type negation, irony or contrast, or of high severity."""
    return [
        issue
        for issue in issues
        if issue.endswith(":high") or any(topic in issue.upper() for topic in _CRITICAL_TOPICS)
    ]


def _in_words(issue: str) -> str:
    return issue.partition(":")[0].replace("_", " ").lower()


def _says(aggregate: Aggregate) -> str:
    return f"{aggregate.label} ({aggregate.confidence:.2f})"


def iou(one: Span | None, two: Span | None) -> float:
    """Intersection over union of two spans."""
    if one is None or two is None:
        return 0.0
    shared = min(one.end, two.end) - max(one.start, two.start)
    union = max(one.end, two.end) - min(one.start, two.start)
    return max(0, shared) / union if union else 0.0


def inferred_label(summary: DebateSummary | None, lang: Language) -> str | None:
    """The label that a debate implies: its sentence polarity, its tuples, or the judge's words."""
    if summary is None:
        return None
    sentence_label = (
        read(summary.sentence_polarity, LABELS).value if summary.sentence_polarity else None
    )
    if sentence_label:
        return sentence_label
    polarities = [
        polarity
        for t in summary.final_tuples
        if (polarity := read(t.polarity).value) and lang.key(name_of(t.aspect_term))
    ]
    if polarities:
        return label_of(polarities)
    words = summary.words.lower()
    return next((label for label, keys in _KEYWORDS if any(k in words for k in keys)), None)
