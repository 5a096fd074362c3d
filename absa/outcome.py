"""The result of one text in a few lines: the reason of the label, objections, and reviews.

`absa analyze` prints these lines under its table. The numbers of the gate, of adoption and of the
Moderator's rules are in `absa.show`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from absa import show
from absa.nodes.language import Language, language
from absa.nodes.moderator import BECOMES
from absa.nodes.polarity import exact, label_of
from absa.nodes.review_context import JUDGE, Mentions
from absa.schemas.records import AspectRecord, Correction, GateRecord, StageResult
from absa.schemas.verdicts import SKIPS, VERDICTS

if TYPE_CHECKING:
    from absa.schemas.output import AspectTuple, FinalOutput
    from absa.schemas.settings import OverrideSettings

_RULE = re.compile(r"(?=\bRule[A-Z]: )")
_NOT_ADOPTED = {
    "ev_below_threshold": "too little evidence for the change",
    "conflict_blocked": "the changes contradict each other",
    "low_signal": "Stage 2 was less confident",
}
_REVIEWS = {
    "validator": "the Validator's review",
    "ate_review": "ATE's review",
    "atsa_review": "ATSA's review",
    show.PERSON: "a person",
}


def rule_sentences(rationale: str) -> dict[str, str]:
    """The Moderator's rationale, split by rule."""
    parts = (part.strip().partition(": ") for part in _RULE.split(rationale))
    return {rule: sentence.strip() for rule, _, sentence in parts if rule.startswith("Rule")}


def label_reason(output: FinalOutput) -> str:
    """The reason of the text's label in one line."""
    result = output.final_result
    changes = [entry for entry in output.meta.correction_applied_log if "label" in _after(entry)]
    if changes:
        return f"a person changed it from {(changes[-1].before or {}).get('label')}"
    if label_of(a.polarity for a in result.final_aspects) == result.label:
        return _aspects_in_words(output)
    decision = output.moderator
    if decision is None:
        return "summed up from the aspects"
    sentences = {
        rule: sentence
        for rule, sentence in rule_sentences(decision.rationale).items()
        if rule != "RuleA" and not sentence.startswith("the label stays")
    }
    # The last rule in the list set the label, which is shown already.
    sentence = next(reversed(sentences.values()), "Stage 1's label").partition(BECOMES)[0]
    return show.printable(sentence).rstrip(".")


def _after(entry: Any) -> dict[str, Any]:
    return entry.after or {}


def _aspects_in_words(output: FinalOutput) -> str:
    """For example: one aspect is positive, 2 are negative."""
    aspects = output.final_result.final_aspects
    if not aspects:
        return "no aspect with a sentiment"
    (first, count), *others = Counter(a.polarity for a in aspects).most_common()
    noun = "unnamed judgement" if all(a.is_implicit for a in aspects) else "aspect"
    if others:
        rest = ", ".join(f"{_one(n)} {polarity}" for polarity, n in others)
        verb = f"{noun} is" if count == 1 else f"{noun}s are"
        return f"{_one(count)} {verb} {first}, {rest}"
    if count == 1:
        return f"the only {noun} is {first}"
    return f"{'both' if count == 2 else f'all {count}'} {noun}s are {first}"


def _one(count: int) -> str:
    return "one" if count == 1 else str(count)


@dataclass
class Objection:
    """A change that at least one agent of the debate asked for."""

    aspect: str
    # The requested polarity; None for an aspect to drop or rename.
    polarity: str | None
    wish: str
    speakers: list[str] = field(default_factory=list)
    evidence: str = ""


class _Names:
    """Maps the aspects of the debate to their names in Stage 1."""

    def __init__(self, tuples: Iterable[AspectTuple], lang: Language) -> None:
        self._lang = lang
        terms = dict.fromkeys(t.name for t in tuples)
        self._mentions = Mentions(
            StageResult(aspects=tuple(AspectRecord(term=term) for term in terms)), lang
        )

    def name(self, target: dict[str, Any]) -> str:
        mentions = (target.get("aspect_ref"), target.get("aspect_term"))
        return self._mentions.first(mentions)[0] or ""

    def polarities(self, tuples: Iterable[AspectTuple], aspect: str) -> set[str]:
        key = self._lang.key(aspect)
        return {t.polarity for t in tuples if self._lang.key(t.name) == key}

    def dropping(self, log: Iterable[Correction], objection: Objection) -> list[str]:
        """The sources of the applied corrections that dropped the aspect or its sentiments."""
        return [e.source for e in self._applied(log, objection) if show.is_drop(e)]

    def setting(self, log: Iterable[Correction], objection: Objection) -> list[str]:
        """The sources of the applied corrections that set the requested polarity."""
        return [
            e.source
            for e in self._applied(log, objection)
            if objection.polarity in _sentiments(e.after) - _sentiments(e.before)
        ]

    def _applied(self, log: Iterable[Correction], objection: Objection) -> Iterator[Correction]:
        key = self._lang.key(objection.aspect)
        return (e for e in log if e.applied and self._lang.key(e.target_aspect or "") == key)


def debate(output: FinalOutput, settings: OverrideSettings) -> list[str]:
    """The objections of the debate and their outcome; no line without a debate."""
    if output.debate is None:
        return []
    names = _Names(output.final_result.stage1_tuples, language(output.lang))
    turns = [turn for each in output.debate.rounds for turn in each.turns]
    speakers = list(dict.fromkeys(turn.speaker for turn in turns))
    objections = list(_objections(output, names))
    lines = [_line(objection, speakers, names, output, settings) for objection in objections]
    if consensus := getattr(output.debate.summary, "consensus", None):
        lines.append(f"consensus: {show.printable(consensus)}")
    if lines:
        return lines
    return ["all agents agreed" if any(t.proposed_edits for t in turns) else "no objections"]


def _objections(output: FinalOutput, names: _Names) -> Iterator[Objection]:
    assert output.debate is not None
    turns = [turn for each in output.debate.rounds for turn in each.turns]
    edits = [(turn.speaker, edit) for turn in turns for edit in turn.proposed_edits]
    patch = output.debate.summary.final_patch
    edits += [(JUDGE, edit.model_dump()) for edit in patch]
    objections: dict[tuple[str, str], Objection] = {}
    for speaker, edit in edits:
        aspect = names.name(edit.get("target") or {})
        before = names.polarities(output.final_result.stage1_tuples, aspect)
        change = _change(edit, before)
        if not aspect or change is None:
            continue
        polarity, wish = change
        objection = objections.setdefault((aspect, wish), Objection(aspect, polarity, wish))
        if speaker not in objection.speakers:
            objection.speakers.append(speaker)
        objection.evidence = objection.evidence or edit.get("evidence") or ""
    yield from objections.values()
    if not edits:
        # The persona debate argues in prose. The gate gets one summary per aspect.
        for record in output.meta.override_gate:
            before = names.polarities(output.final_result.stage1_tuples, record.aspect)
            if record.target and record.target not in before:
                speakers = [h.speaker for h in record.hints if h.polarity_hint == record.target]
                yield Objection(
                    record.aspect,
                    record.target,
                    f"is {record.target}",
                    list(dict.fromkeys(speakers)),
                    record.evidence or "",
                )


def _change(edit: dict[str, Any], before: set[str]) -> tuple[str | None, str] | None:
    """The polarity and the request of an edit; None if it agrees with Stage 1."""
    operation, value = edit.get("op"), edit.get("value")
    if operation in ("set_polarity", "confirm_tuple"):
        word = value if operation == "set_polarity" else (edit.get("target") or {}).get("polarity")
        polarity = exact(word)
        return (polarity, f"is {polarity}") if polarity and before != {polarity} else None
    if operation == "drop_tuple" and before:
        return None, "should be dropped"
    if operation in ("set_aspect_ref", "merge_tuples") and value:
        return None, f"means {show.quoted(str(value))}"
    return None


def _line(
    objection: Objection,
    speakers: list[str],
    names: _Names,
    output: FinalOutput,
    settings: OverrideSettings,
) -> str:
    """For example: EPM: 직원 is negative ("불친절하고"), 3 of 3 agreed → changed."""
    who, *_ = objection.speakers or [JUDGE]
    votes = sum(speaker in objection.speakers for speaker in speakers)
    records = (r for r in output.meta.override_gate if r.aspect == objection.aspect)
    record = next(records, None)
    evidence = objection.evidence or (record and record.evidence) or ""
    quote = f" ({show.quoted(evidence)})" if evidence.strip() else ""
    agreed = f", {votes} of {len(speakers)} agreed" if votes > 1 else ""
    aspect = show.printable(objection.aspect)
    outcome = _became(objection, names, record, output, settings)
    return f"{_speaker(who)}: {aspect} {objection.wish}{quote}{agreed} → {outcome}"


def _speaker(name: str) -> str:
    return show.printable(name.upper() if len(name) <= 3 else name.capitalize())


def _became(
    objection: Objection,
    names: _Names,
    record: GateRecord | None,
    output: FinalOutput,
    settings: OverrideSettings,
) -> str:
    result = output.final_result
    before = names.polarities(result.stage1_tuples, objection.aspect)
    after = names.polarities(result.final_tuples, objection.aspect)
    if objection.polarity is None:
        if before and not after:
            return "dropped" + _by(names.dropping(output.meta.correction_applied_log, objection))
        if objection.wish.startswith("means"):
            return "not changed: only a review may rename an aspect"
        if output.meta.override_gate and not settings.allow_drop:
            return "kept: only a review may drop an aspect"
        return "kept"
    if objection.polarity in after - before:
        did = "changed" if before else "added"
        return did + _by(names.setting(output.meta.correction_applied_log, objection))
    not_done = "not changed" if before else "not added"
    kept = f"kept as {' and '.join(sorted(after))}" if after else not_done
    why = _why_not(record, objection, output)
    return f"{kept}: {why}" if why else kept


def _by(sources: list[str]) -> str:
    """The review that made a change; nothing if the debate made it."""
    review = _REVIEWS.get(sources[-1]) if sources else None
    return f", by {review}" if review else ""


def _why_not(record: GateRecord | None, objection: Objection, output: FinalOutput) -> str:
    if record is None:
        return ""
    if record.verdict not in SKIPS:
        return _NOT_ADOPTED.get(output.meta.adopt_reason, "Stage 2 was not adopted")
    if record.target and record.target != objection.polarity:
        return "the others confirmed it"
    facts = VERDICTS.get(record.verdict)
    name = facts.name if facts else show.plain(record.verdict)
    return name[:1].lower() + name[1:]


def reviews(output: FinalOutput) -> list[str]:
    """The changes of the reviewers, and the tuples that the arbiter left in doubt."""
    meta = output.meta
    if meta.protocol == "conflict_review":
        decided = (show.arbiter_event(action, output) for action in meta.arbiter_actions)
        lines = [str(event) for event in decided if event is not None]
        if lines:
            return lines
        doubtful = len(meta.arbiter_actions)
        if not doubtful:
            return ["all perspectives agreed"]
        return [f"{doubtful} of {len(meta.candidates)} tuples in doubt, the reviewers kept all"]
    adopted = meta.adopt_decision == "adopted"
    lines = []
    for entry in meta.correction_applied_log:
        changed = entry.applied and _tuples(entry.before) != _tuples(entry.after)
        if changed and entry.source != show.OVERRIDE:
            # The sources at the end of the reason are shown by `absa analyze -v` only.
            reason = (entry.reason or "").removesuffix(f"[{entry.provenance}]").strip()
            brief = entry.model_copy(update={"reason": reason or None})
            event = show.correction_event(brief, adopted)
            why = _NOT_ADOPTED.get(meta.adopt_reason)
            is_explained = event.kind == "set aside" and why
            lines.append(f"{event}" + (f" ({why})" if is_explained else ""))
    return lines


def _sentiments(snapshot: Any) -> set[str]:
    return {s["polarity"] for s in (snapshot or {}).get("sentiments", ())}


def _tuples(snapshot: Any) -> Any:
    if not snapshot or "sentiments" not in snapshot:
        return None
    return snapshot["aspect_term"], sorted({s["polarity"] for s in snapshot["sentiments"]})
