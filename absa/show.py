"""Describes the process of one text in plain sentences, for screens and reports.

The codes of the pipeline (`low_signal`, `conflict_blocked`) become sentences with their numbers. An
unknown code is shown unchanged.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from absa.schemas.verdicts import CONFIRM, REMOVED_BY_REVIEW, SKIPS, VERDICTS

if TYPE_CHECKING:
    from absa.schemas.output import AspectTuple, FinalAspect, FinalOutput
    from absa.schemas.records import (
        ArbiterAction,
        Candidate,
        Correction,
        DiscardedAction,
        GateRecord,
        SecondOpinion,
    )
    from absa.schemas.settings import OverrideSettings

OVERRIDE = "debate_override"
PERSON = "human"

NOT_NAMED = "(not named)"
# Joiners inside emoji and Indic words, which are invisible and needed.
_JOINERS = frozenset("\u200c\u200d")

DEBATE = "debate"
_WHO = {
    "validator": "the Validator",
    "ate_review": "ATE's review",
    "atsa_review": "ATSA's review",
    OVERRIDE: "the debate",
    DEBATE: "the debate",
    PERSON: "a person",
}
_ORIGIN = {
    "validator": "review (Validator)",
    "ate_review": "review (ATE)",
    "atsa_review": "review (ATSA)",
    OVERRIDE: "debate override",
    DEBATE: "debate (category)",
    PERSON: "a person",
}
_WISH = {
    "flip_polarity": "flip its polarity",
    "drop_aspect": "drop it",
    "drop": "drop it",
    "revise_span": "move its span",
    "add": "add it",
    "set_category": "set its category",
}
_PAST = {
    "drop": "dropped",
    "change": "changed",
    "add": "added",
    "move": "moved",
    "make": "made",
    "set": "set",
}
NOT_USED = "because Stage 2 was not adopted"
_REFUSED = {
    "no_change": "it would have no effect",
    "target_not_found": "the aspect or sentiment does not exist",
    "not_in_text": "it is not in the text",
    "neutral_flip": "a neutral has no opposite",
    "span_not_in_text": "the new span is not in the text",
    "invalid_polarity": "its polarity is not valid",
    "has_sentiment": "the aspect already has a sentiment",
    "unknown_action": "the action does not exist",
    "invalid_category": "the category is not one of the set",
    "not_seconded": "only the judge asked for it",
}
_ADOPTED = {
    "risk_resolved": "it resolves risks that the Validator saw, {before} before and {after} after",
    "debate_action": "the debate asked for a change",
    "grounding_improved": "it has evidence in the text where Stage 1 had none",
    "review_applied": "the reviews changed it",
}
_COMPONENTS = {
    "debate_support": "debate support",
    "validator_resolved": "risks resolved",
    "grounding_improvement": "better grounding",
    "alignment_improvement": "tuples tied to an aspect",
}
_UNDECIDED = {
    "merge_refused": "the tuples to be merged were of different polarities",
    "flip_drop_keep": "one reviewer wanted another polarity, one to drop it, one to keep it",
    "no_majority": "no two reviewers agreed",
    "asked": "the arbiter could not tell",
    "majority": "a reviewer doubts it",
}
_DISCARDED = {
    "unknown_action": "the action does not exist",
    "invalid_category": "the category is not one of the set",
    "not_seconded": "only the judge asked for it",
    "unknown_reason_code": "its reason is not on the list",
    "no_target": "it names no tuple",
    "unknown_tuple": "the tuple does not exist",
    "not_under_review": "the tuple was not flagged for review",
    "merge_needs_two": "a merge needs at least two tuples",
    "merge_needs_ref": "a merge needs a name for the result",
    "flip_needs_polarity": "its polarity is not valid",
    "aspect_given": "given aspects cannot be merged",
}
_RULE_E_BLOCKS = {
    "confidence_too_high": "the debate's label was not used: the confidence is too high",
}

Kind = Literal["changed", "set aside", "refused", "agreed"]


class Event(NamedTuple):
    """A change by the debate, a review or the gate, or a rejected one.

    A change is `set aside` if Stage 2 was not adopted.
    """

    kind: Kind
    aspect: str
    text: str

    def __str__(self) -> str:
        return f"{self.aspect}: {self.text}" if self.aspect else self.text


@dataclass(frozen=True)
class Place:
    """The span of the aspect or evidence of a row of `final_aspects`."""

    row: int
    part: Literal["aspect", "evidence"]
    polarity: str
    start: int
    end: int


def printable(text: str, *, newlines: bool = False) -> str:
    """Escape all characters that a terminal would interpret.

    White space becomes a space. With `newlines`, line ends stay.
    """
    return "".join("\n" if newlines and c == "\n" else printable_char(c) for c in text)


def aspect_name(pair: AspectTuple | Candidate) -> str:
    """The aspect's term, or the category of an unnamed aspect."""
    return printable(pair.aspect_term or pair.category or NOT_NAMED)


def printable_char(char: str) -> str:
    """One character in printable form, which can be longer."""
    if char.isprintable() or char in _JOINERS:
        return char
    if char in "\t\n\r" or unicodedata.category(char) == "Zs":
        # The ideographic space stays, because it is two cells wide.
        return char if char == "\u3000" else " "
    return char.encode("unicode_escape").decode()


def quoted(text: str) -> str:
    """A quoted text that fits on a line."""
    return f'"{printable(text)}"'


def places(output: FinalOutput) -> list[Place]:
    """The spans of aspects and evidence. Of several occurrences, evidence nearest its aspect."""
    aspects, evidence = [], []
    for row, aspect in enumerate(output.final_result.final_aspects, start=1):
        span = aspect.span
        if span is not None:
            aspects.append(Place(row, "aspect", aspect.polarity, span.start, span.end))
        start = _nearest(output.text, aspect)
        if start is not None:
            end = start + len(str(aspect.evidence))
            evidence.append(Place(row, "evidence", aspect.polarity, start, end))
    return [*aspects, *evidence]


def _nearest(text: str, aspect: FinalAspect) -> int | None:
    """The start of the evidence nearest to the aspect; of two, the one after it."""
    if not aspect.evidence or not aspect.evidence.strip():
        return None
    size, span = len(aspect.evidence), aspect.span
    starts = list(_occurrences(text, aspect.evidence))
    if not starts or span is None:
        return starts[0] if starts else None

    def distance(start: int) -> tuple[int, bool]:
        return max(0, start - span.end, span.start - (start + size)), start < span.start

    return min(starts, key=distance)


def _occurrences(text: str, piece: str) -> Iterator[int]:
    start = text.find(piece)
    while start >= 0:
        yield start
        start = text.find(piece, start + 1)


def origin(aspect: FinalAspect, output: FinalOutput) -> str:
    """The source of a final aspect: Stage 1, a review or a debate override."""
    log = output.meta.correction_applied_log
    if any(entry.source == PERSON and _made(entry, aspect) for entry in log):
        return _ORIGIN[PERSON]
    if output.meta.protocol == "conflict_review":
        return _perspectives(aspect, output)
    if output.meta.selective is not None:
        return _witnesses(aspect, output.meta.selective)
    if output.meta.adopt_decision == "adopted":
        for entry in reversed(log):
            if not (entry.applied and _made(entry, aspect)):
                continue
            if entry.proposal_type == CONFIRM:
                aspect = _unconfirmed(entry, aspect)
            else:
                return _ORIGIN.get(entry.source, printable(entry.source))
    return "Stage 1"


def _witnesses(aspect: FinalAspect, opinion: SecondOpinion) -> str:
    """The number of calls with the tuple, and the analyzer's probability."""
    for t in opinion.tuples:
        if (t.aspect_term, t.category, t.polarity) == (
            aspect.aspect_term,
            aspect.category,
            aspect.polarity,
        ):
            calls = f"{t.votes} of {opinion.calls} calls"
            return calls if t.is_implicit else f"{calls}, analyzer {t.p:.2f}"
    return "calls"


def _perspectives(aspect: FinalAspect, output: FinalOutput) -> str:
    """The perspectives with this tuple; if none has it, the reviewers changed it."""
    own = (aspect.aspect_term, aspect.category, aspect.polarity)
    agents = dict.fromkeys(
        c.origin_agent
        for c in output.meta.candidates
        if (c.aspect_term, c.category, c.polarity) == own
    )
    return f"perspective {', '.join(agents)}" if agents else "review (arbiter)"


def _made(entry: Correction, aspect: FinalAspect) -> bool:
    before, after = entry.before or {}, entry.after or {}
    if after.get("aspect_term") != aspect.aspect_term:
        return False
    own = {
        "polarity": aspect.polarity,
        "confidence": aspect.confidence,
        "evidence": aspect.evidence,
        **({"category": aspect.category} if aspect.category else {}),
    }
    if own not in after.get("sentiments", []):
        return False
    moved = (before.get("aspect_term"), before.get("span")) != (
        after.get("aspect_term"),
        after.get("span"),
    )
    return moved or own not in before.get("sentiments", [])


def _unconfirmed(entry: Correction, aspect: FinalAspect) -> FinalAspect:
    """The aspect with its confidence before a confirm raised it."""
    pairs = zip((entry.before or {})["sentiments"], (entry.after or {})["sentiments"], strict=True)
    confidence = next(
        old["confidence"]
        for old, new in pairs
        if (new["polarity"], new["confidence"], new["evidence"])
        == (aspect.polarity, aspect.confidence, aspect.evidence)
    )
    return aspect.model_copy(update={"confidence": confidence})


def events(output: FinalOutput, settings: OverrideSettings) -> list[Event]:
    """The changes of reviews, debate and gate, applied or rejected, in that order."""
    meta = output.meta
    adopted = meta.adopt_decision == "adopted"
    dropped: set[str | None] = set()
    lines = []
    for entry in meta.correction_applied_log:
        was_dropped = entry.target_aspect in dropped
        lines.append(correction_event(entry, adopted, was_dropped=was_dropped))
        if is_drop(entry):
            dropped.add(entry.target_aspect)
    lines += [
        Event("refused", "", f"{printable(note)}; a review may not replace Stage 1's list")
        for note in meta.stage2_review_violation
    ]
    lines += [
        _gate(record, output, settings) for record in meta.override_gate if record.verdict in SKIPS
    ]
    decided = (arbiter_event(action, output) for action in meta.arbiter_actions)
    lines += [event for event in decided if event is not None]
    lines += [_discarded(action) for action in meta.discarded_actions]
    return lines


def arbiter_event(action: ArbiterAction, output: FinalOutput) -> Event | None:
    """The decision on a flagged tuple; None if it was kept without a mark."""
    (tuple_id,) = action.target_tuple_ids
    own = next(c for c in output.meta.candidates if c.tuple_id == tuple_id)
    aspect, value = aspect_name(own), printable(_value(action))
    why = f" ({plain(action.reason_code)})" if action.reason_code else ""
    if action.applied:
        did = {
            "DROP": f"dropped it as {own.polarity}",
            "FLIP": f"changed {own.polarity} to {value}",
            "MERGE": f"took it for {quoted(value)}",
        }[action.action_type]
        return Event("changed", aspect, f"the reviewers {did}{why}")
    if action.flag:
        doubt = _UNDECIDED.get(action.case, printable(action.case))
        return Event("refused", aspect, f"kept as {own.polarity}, marked as uncertain: {doubt}")
    return None


def _value(action: ArbiterAction) -> str:
    return next(iter((action.new_value or {}).values()), "")


def _discarded(discarded: DiscardedAction) -> Event:
    action = discarded.action
    what = (
        f"{action.get('action_type')} of {', '.join(action.get('target_tuple_ids') or ['nothing'])}"
    )
    why = _DISCARDED.get(discarded.why, discarded.why)
    who = "the arbiter" if discarded.actor == "arbiter" else f"reviewer {discarded.actor}"
    return Event("refused", "", printable(f"{who}: {what} was discarded, {why}"))


def plain(code: str) -> str:
    """A code with spaces instead of underscores."""
    return printable(code.replace("_", " ").lower())


def is_drop(entry: Correction) -> bool:
    """Whether an applied correction dropped an aspect, or the sentiments of one."""
    if not entry.applied or not (entry.before or {}).get("sentiments"):
        return False
    return entry.after is None or not entry.after.get("sentiments")


def correction_event(entry: Correction, adopted: bool, *, was_dropped: bool = False) -> Event:
    """The event of an entry of `correction_applied_log`.

    Args:
        entry: The entry.
        adopted: Whether Stage 2 was adopted.
        was_dropped: Whether an earlier entry dropped the aspect.
    """
    who = _WHO.get(entry.source, printable(entry.source))
    aspect = printable(entry.target_aspect or "")
    if not entry.applied:
        wish = _WISH.get(entry.proposal_type.lower(), printable(entry.proposal_type))
        why = _REFUSED.get(entry.reason or "", printable(entry.reason or "no reason given"))
        if was_dropped and entry.reason == "target_not_found":
            why = "it was already dropped"
        return Event("refused", aspect, f"{who} wanted to {wish}, but {why}")
    changes = _changes(entry.before, entry.after)
    reason = printable(entry.reason or "").strip()
    detail = f" ({reason})" if reason else ""
    if adopted or entry.source == PERSON:
        return Event("changed", aspect, f"{who} {_past(changes)}{detail}")
    wish = " and ".join(f"{verb} {what}" for verb, what in changes)
    return Event("set aside", aspect, f"{who} wanted to {wish}{detail}; not used, {NOT_USED}")


def _categories(sentiments: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(s["category"] for s in sentiments if s.get("category")))


def _past(changes: Iterable[tuple[str, str]]) -> str:
    """The changes as facts, such as: moved it to "hot food" and dropped its sentiment."""
    return " and ".join(f"{_PAST[verb]} {what}" for verb, what in changes)


def _changes(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> list[tuple[str, str]]:
    """What a correction does: verbs with their objects."""
    if after is None:
        return [("drop", "it")]
    if "label" in after:
        return [("change", f"the label from {(before or {}).get('label')} to {after['label']}")]
    new = after["sentiments"]
    if before is None:
        return [("add", f"it as {_polarities(new)}" if new else "it")]
    old = before["sentiments"]
    parts = []
    if (before["aspect_term"], before["span"]) != (after["aspect_term"], after["span"]):
        parts.append(("move", f"it to {quoted(after['aspect_term'])}"))
    if not new and old:
        parts.append(("drop", "its sentiment"))
    elif _polarities(old) != _polarities(new):
        change = ("change", f"{_polarities(old)} to {_polarities(new)}")
        parts.append(change if old else ("make", f"it {_polarities(new)}"))
    elif _categories(old) != _categories(new):
        parts.append(("set", f"its category to {printable(' and '.join(_categories(new)))}"))
    elif not parts:
        confidences = (" and ".join(f"{s['confidence']:.2f}" for s in each) for each in (old, new))
        parts.append(("change", "its confidence from {} to {}".format(*confidences)))
    return parts


def _polarities(sentiments: list[Mapping[str, Any]]) -> str:
    return " and ".join(dict.fromkeys(printable(s["polarity"]) for s in sentiments))


def _gate(record: GateRecord, output: FinalOutput, settings: OverrideSettings) -> Event:
    why = gate_reason(record, output, settings)
    aspect = printable(record.aspect)
    if record.verdict == "already_confident":
        return Event("agreed", aspect, why)
    polarities = {t.polarity for t in output.final_result.stage2_tuples if t.name == record.aspect}
    if polarities == {record.target}:
        return Event("refused", aspect, f"not confirmed as {record.target}: {why}")
    wish = f" to {record.target}" if record.target else ""
    return Event("refused", aspect, f"no override{wish}: {why}")


def gate_reason(record: GateRecord, output: FinalOutput, settings: OverrideSettings) -> str:
    """The reason of the gate's verdict on an aspect."""
    divided = record.margin < settings.min_margin - 1e-9
    if record.verdict == "action_ambiguity" and not divided:
        return REMOVED_BY_REVIEW
    facts = VERDICTS.get(record.verdict)
    return (facts.reason if facts else printable(record.verdict)).format(
        evidence=quoted(record.evidence or ""),
        total=number(record.total),
        margin=number(record.margin),
        drop=number(record.drop_score),
        target=record.target,
        min_total=number(settings.min_total),
        min_margin=number(settings.min_margin),
        min_target_conf=number(settings.min_target_conf),
        overrides=settings.max_overrides_per_sample,
        risks=", ".join(dict.fromkeys(map(_risk, output.stage1_validator.issues))) or "unnamed",
    )


def _risk(issue: str) -> str:
    return printable(issue.partition(":")[0].replace("_", " ").lower())


def adoption(output: FinalOutput, settings: OverrideSettings) -> str:
    """Whether Stage 2 was adopted, and why."""
    meta = output.meta
    if meta.protocol == "conflict_review":
        return _reviewed(output)
    if meta.selective is not None:
        return second_opinion(meta.selective)
    if meta.debate_skipped:
        return "Stage 1 and the analyzer agree: the debate and Stage 2 were skipped"
    if not output.analysis_flags.stage2_executed:
        return "there was no Stage 2; Stage 1's result stands"
    if meta.adopt_decision == "adopted":
        why = _ADOPTED.get(meta.adopt_reason, printable(meta.adopt_reason))
        why = why.format(before=meta.stage1_risks, after=meta.stage2_risks)
        return f"Stage 2 was adopted: {why} ({_evidence_value(output)})"
    return f"Stage 1's result stands: {_not_adopted(output, settings)}"


def second_opinion(opinion: SecondOpinion) -> str:
    """The effect of the embedded analyzer on the result."""
    calls = f"{opinion.calls} call" + ("s" if opinion.calls > 1 else "")
    if not opinion.reads_language:
        return f"the analyzer has no model of this language: a plain vote of {calls}"
    if opinion.outcome == "agreed":
        return "the first call and the analyzer agree: 1 call"
    if opinion.outcome == "reader_alone":
        return "the analyzer decides alone, because the model agrees with it too rarely"
    kept = sum(t.kept for t in opinion.tuples)
    return (
        f"the first call and the analyzer differ: {calls}, {kept} of {len(opinion.tuples)} tuples "
        f"kept, trust in the analyzer {opinion.trust:.2f} ({_TRUST[opinion.trust_from]})"
    )


_TRUST = {"setting": "as set", "run": "measured on this run", "default": "default"}


def _reviewed(output: FinalOutput) -> str:
    if not output.analysis_flags.stage2_executed:
        return "nothing was in doubt, so the reviewers were not asked"
    actions = output.meta.arbiter_actions
    changed, marked = sum(a.applied for a in actions), sum(a.flag for a in actions)
    return (
        f"{len(actions)} of {len(output.meta.candidates)} tuples were in doubt: the reviewers "
        f"changed {changed}" + (f", {marked} are marked as uncertain" if marked else "")
    )


def _not_adopted(output: FinalOutput, settings: OverrideSettings) -> str:
    meta, flags = output.meta, output.moderator and output.moderator.arbiter_flags
    if flags and flags.stage2_rejected_due_to_confidence:
        drop = number(flags.confidence_margin_used)
        return f"Stage 2 was less confident by {drop}, so the Moderator went back to Stage 1"
    if meta.adopt_reason == "ev_below_threshold":
        return f"there is too little for Stage 2's changes ({_evidence_value(output)})"
    if meta.adopt_reason == "conflict_blocked":
        return f"Stage 2 was blocked, since {_conflict(output)}"
    if not output.final_result.stage2_tuples:
        return "Stage 2 left no aspect with a sentiment"
    for record in meta.override_gate:
        if not record.applied and record.verdict == meta.adopt_reason:
            why = gate_reason(record, output, settings)
            return f"Stage 2 changed nothing, and the gate held the debate back: {why}"
    if meta.adopt_reason in VERDICTS:
        return "Stage 2 changed nothing"
    return printable(meta.adopt_reason)


def _conflict(output: FinalOutput) -> str:
    result = output.final_result
    polarities_of: dict[str, set[str]] = {}
    for pair in result.stage2_tuples:
        polarities_of.setdefault(aspect_name(pair), set()).add(pair.polarity)
    before = [aspect_name(t) for t in result.stage1_tuples]
    for aspect, polarities in polarities_of.items():
        if len(polarities) > 1 and before.count(aspect) < 2:
            return (
                f"{quoted(aspect)} would have two polarities ({' and '.join(sorted(polarities))})"
            )
    return "it is not what the debate agreed on"


def _evidence_value(output: FinalOutput) -> str:
    meta = output.meta
    if meta.ev_score is None:
        return "no evidence value"
    sign = "<" if meta.adopt_reason == "ev_below_threshold" else "≥"
    parts = ", ".join(
        f"{_COMPONENTS.get(name, name)} {number(value)}"
        for name, value in meta.ev_components.items()
    )
    score = f"evidence value {number(meta.ev_score)} {sign} {number(meta.ev_threshold)}"
    return f"{score}: {parts}" if parts else score


def person(output: FinalOutput) -> str | None:
    """Whether a person was asked, and why; None without human review."""
    word = output.meta.human_review
    if word is None:
        return None
    why = printable("; ".join(reason.detail for reason in word.reasons))
    if word.status == "pending":
        return f"waits for a person: {why}"
    counts = word.counts.model_dump()
    did = ", ".join(f"{times} {what}" for what, times in counts.items() if times)
    return f"{printable(word.reviewer or 'a person')}: {did or 'nothing to change'} ({why})"


def rules(output: FinalOutput) -> str:
    """The effects of the Moderator's rules on the label, with their numbers."""
    decision = output.moderator
    if decision is None:
        return "no Moderator: the label is the aggregate of the aspects"
    if decision.rationale.strip():
        return printable(decision.rationale)
    stage = "Stage 2" if decision.selected_stage == "stage2" else "Stage 1"
    blocked = _RULE_E_BLOCKS.get(decision.arbiter_flags.rule_e_block_reason or "")
    return f"{stage}'s label; no rule changed it" + (f"; {blocked}" if blocked else "")


def number(value: float) -> str:
    """A number with at most three decimals, and at least one."""
    text = f"{value:.3f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text
