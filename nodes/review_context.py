"""`review_context`: turns the debate into weighted hints per aspect.

| edit                                            | weight | polarity of the hint              |
|-------------------------------------------------|--------|-----------------------------------|
| `set_polarity`                                  | 0.5    | `value`                           |
| `confirm_tuple`                                 | 0.5    | `target.polarity`, else Stage 1's |
| `drop_tuple`                                    | 0.8    | none                              |
| any of these in the judge's `final_patch`       | 0.8    | as above                          |
| `set_aspect_ref`, `merge_tuples`                | 0      | none                              |
| `set_category` (with a category set in force)   | 0      | none                              |

A vote to drop a tuple is not a vote for the opposite polarity. The weights are settings
(`debate.hint_weights`).

The persona debate has no edits. One hint per turn and mentioned aspect comes from the stance:

| stance     | weight | polarity of the hint |
|------------|--------|----------------------|
| `neutral`  | 0.6    | neutral              |
| `pro`      | 1.0    | positive             |
| `con`      | 1.0    | negative             |
| another    | 0.8    | neutral              |

A turn without an aspect refers to the Stage 1 aspects that have the polarity of its hint.

In a contested debate (`debate.when: contested`)

- an edit other than a confirm gives a hint only if its evidence is in the text,
- a hint's weight is multiplied by the token probability of the polarity or the drop, if the
server returns it,
- each tuple of the second reader is a hint `witness` with the weight `hint_weights.second_reader` x
  its probability. Agents do not see these hints.

Each turn with edits counts once in `mapping_stats`: it named an aspect of Stage 1 (direct), its
polarity matched one (fallback), or neither (none).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absa.nodes.categories import CategorySet, categories_of
from absa.nodes.contested import WITNESS, given_keys, witnessed
from absa.nodes.language import Language, language
from absa.nodes.polarity import PolarityCounter
from absa.nodes.text import grounded
from absa.schemas.answers import (
    EDIT_OPS,
    SET_CATEGORY,
    UNNAMED,
    DebateSummary,
    Edit,
    JudgeAnswer,
    PersonaJudgeAnswer,
    PersonaTurnAnswer,
    TurnAnswer,
    name_of,
)
from absa.schemas.records import (
    Hint,
    MappingFailReasons,
    MappingStats,
    RebuttalPoint,
    ReviewContext,
    StageResult,
    Turn,
)
from absa.schemas.settings import SECOND_READER, DebateSettings, HintWeights, PipelineSettings
from absa.schemas.state import ReviewContextUpdate, State

JUDGE = "judge"
PATCH_STANCE = "patch"
STANCE_OP = "stance"
_WEIGHED_IN_PATCH = ("set_polarity", "confirm_tuple", "drop_tuple")
_GUIDANCE = (
    "aspect_hints lists, per aspect, what each speaker of the debate asked for and how much it "
    "weighs. Follow a hint only where the review's own words support it."
)
STANCES: Mapping[str, tuple[float, str]] = {
    "neutral": (0.6, "neutral"),
    "pro": (1.0, "positive"),
    "con": (1.0, "negative"),
}
_OTHER_STANCE = (0.8, "neutral")
_STANCE_FALLBACK = "a turn that names no aspect speaks of those that have its polarity"
_FALLBACK = "none: an edit that names no known aspect keeps its own term as a new aspect"


def review_context(state: State, pipeline: PipelineSettings) -> ReviewContextUpdate:
    """Turn the debate into hints."""
    counter = PolarityCounter(categories_of(pipeline))
    lang = language(state["lang"])
    contested = pipeline.debates_contested
    witnesses = list(_witnesses(state, pipeline, lang)) if contested else []
    if pipeline.debate.protocol == "persona":
        summary = state["judge_answer"] or PersonaJudgeAnswer()
        context = stance_context(
            state["stage1_result"], state["turns"], summary, lang, pipeline.debate, witnesses
        )
    else:
        summary = state["judge_answer"] or JudgeAnswer()
        context = build_context(
            state["stage1_result"],
            state["turns"],
            summary,
            lang,
            pipeline.debate.hint_weights,
            counter,
            given=state.get("given_aspects") is not None,
            text=state["text"] if contested else None,
            witnesses=witnesses,
        )
    counter.label(summary.sentence_polarity)
    for pair in summary.final_tuples:
        counter.read(pair.polarity)
        counter.category(pair.category)
    return {"debate_hints": context, "counts": {**state["counts"], "debate": counter.counts()}}


def _witnesses(
    state: State, pipeline: PipelineSettings, lang: Language
) -> Iterator[tuple[str, Hint]]:
    """The second reader's tuples as hints, each with the name of its aspect."""
    weight = pipeline.debate.hint_weights.second_reader
    seen = witnessed(state["second_reader_answer"], lang, given_keys(state, lang))
    for one in seen.values():
        yield (
            one.name,
            Hint(
                speaker=SECOND_READER,
                op=WITNESS,
                weight=weight * one.probability,
                polarity_hint=one.polarity,
                provenance_hint=provenance(SECOND_READER, WITNESS),
            ),
        )


def provenance(speaker: str, stance: str = PATCH_STANCE) -> str:
    """The provenance of a hint in reviews."""
    return f"source:{speaker}/{stance}"


class Mentions:
    """Maps a mention to a Stage 1 aspect: by aspect key, then by synonym."""

    def __init__(self, result: StageResult, lang: Language) -> None:
        self._lang = lang
        self._by_key = {lang.key(a.name): a.name for a in result.aspects}
        self._by_group: dict[int, str] = {}
        for aspect in result.aspects:
            group = lang.synonym_group(aspect.name)
            if group is not None:
                self._by_group.setdefault(group, aspect.name)

    def stage1_name(self, mention: str | None) -> str | None:
        """The name of the Stage 1 aspect; None if no aspect matches."""
        key = self._lang.key(name_of(mention))
        group = self._lang.synonym_group(name_of(mention))
        return self._by_key.get(key) or (self._by_group.get(group) if group is not None else None)

    def first(self, mentions: Iterable[str | None]) -> tuple[str | None, bool]:
        """The aspect of the first usable mention, and whether Stage 1 has it.

        Empty mentions refer to the unnamed aspect of Stage 1, if it has one.
        """
        usable = [m for m in mentions if m and self._lang.key(m)]
        if not usable and (unnamed := self.stage1_name(UNNAMED)) is not None:
            return unnamed, True
        term = next((t for m in usable if (t := self.stage1_name(m)) is not None), None)
        return (term, True) if term is not None else (usable[0] if usable else None, False)


def build_context(
    stage1: StageResult,
    turns: Sequence[Turn],
    summary: DebateSummary,
    lang: Language,
    weights: HintWeights,
    counter: PolarityCounter,
    *,
    given: bool = False,
    text: str | None = None,
    witnesses: Iterable[tuple[str, Hint]] = (),
) -> ReviewContext:
    """The review context of a patch debate.

    With given aspects (`given`), edits about other aspects are ignored. In a contested debate the
    evidence of an edit must be in `text`, and `witnesses` are the hints of the second reader.
    """
    mentions = Mentions(stage1, lang)
    stage1_polarities = {lang.key(a.name): a.polarities for a in stage1.aspects}
    hints: dict[str, list[Hint]] = {}
    names: dict[str, str] = {}  # aspect key -> its name in aspect_hints
    stats = {"direct": 0, "none": 0}
    fails = {"no_aspects": 0, "no_match": 0}
    points: list[RebuttalPoint] = []

    def add(edit: Edit, speaker: str, weight: float) -> tuple[str, bool] | None:
        term, is_mapped = mentions.first(mentions_of(edit))
        if term is None or (given and not is_mapped):
            return None
        if text is not None and edit.op != "confirm_tuple" and not grounded(text, edit.evidence):
            return names.get(lang.key(term), term), is_mapped
        if text is not None and edit.word_probability is not None:
            weight *= edit.word_probability
        name = names.setdefault(lang.key(term), term)
        polarity = _polarity_said(edit, stage1_polarities.get(lang.key(term), frozenset()))
        if polarity is not None:
            counter.read(polarity)
        if edit.op == SET_CATEGORY:
            counter.category(edit.value)
        hint = Hint(
            speaker=speaker,
            op=edit.op,
            weight=weight,
            polarity_hint=polarity,
            confidence=edit.confidence,
            provenance_hint=provenance(speaker),
        )
        hints.setdefault(name, []).append(hint)
        return name, is_mapped

    for turn in sorted(turns, key=lambda t: t.index):
        assert isinstance(turn.answer, TurnAnswer), "the turns of a patch debate are edits"
        edits = known_edits(turn.answer.proposed_edits, counter.categories)
        placed = [p for e in edits if (p := add(e, turn.speaker, getattr(weights, e.op)))]
        if not turn.answer.proposed_edits:
            pass  # a turn without edits agrees with everything, which is valid
        elif any(is_mapped for _, is_mapped in placed):
            stats["direct"] += 1
        else:
            stats["none"] += 1
            fails["no_match" if stage1.aspects else "no_aspects"] += 1
        points.append(_rebuttal(turn, edits, [name for name, _ in placed]))
    for edit in known_edits(summary.final_patch, counter.categories):
        in_patch = edit.op in _WEIGHED_IN_PATCH
        add(edit, JUDGE, weights.final_patch if in_patch else getattr(weights, edit.op))
    _add_witnesses(hints, names, witnesses, mentions, lang)

    return ReviewContext(
        **_about(stage1, lang, stats, fails),
        summary=summary,
        rebuttal_points=tuple(points),
        aspect_hints=hints,
        aspect_evidence=_evidence(summary, mentions, names, lang),
        fallback_mapping_policy=_FALLBACK,
    )


def _about(
    stage1: StageResult, lang: Language, stats: dict[str, int], fails: dict[str, int]
) -> dict[str, Any]:
    """The fields that both kinds of debate fill in the same way."""
    return {
        "aspect_terms": tuple(a.name for a in stage1.aspects),
        "synonym_hints": {a.name: s for a in stage1.aspects if (s := lang.synonyms(a.name))},
        "mapping_stats": MappingStats(**stats),
        "mapping_fail_reasons": MappingFailReasons(**fails),
        "review_guidance": _GUIDANCE,
    }


def stance_context(
    stage1: StageResult,
    turns: Sequence[Turn],
    summary: DebateSummary,
    lang: Language,
    debate: DebateSettings,
    witnesses: Iterable[tuple[str, Hint]] = (),
) -> ReviewContext:
    """The review context of a persona debate; `witnesses` are the hints of the second reader."""
    hints: dict[str, list[Hint]] = {}
    stats = {"direct": 0, "fallback": 0, "none": 0}
    fails = {"no_aspects": 0, "no_match": 0, "neutral_stance": 0, "fallback_used": 0}
    points: list[RebuttalPoint] = []
    for turn in sorted(turns, key=lambda t: t.index):
        answer = turn.answer
        assert isinstance(answer, PersonaTurnAnswer), "the turns of a persona debate are prose"
        stance = (answer.stance or "").strip() or debate.speakers[turn.speaker].stance or "neutral"
        weight, polarity = STANCES.get(stance.strip().lower(), _OTHER_STANCE)
        named = _mentioned(stage1, "\n".join((answer.message or "", *answer.key_points)), lang)
        alike = [a.name for a in stage1.aspects if polarity in a.polarities]
        if named:
            stats["direct"] += 1
        elif alike:
            stats["fallback"] += 1
            fails["fallback_used"] += 1
        else:
            stats["none"] += 1
            why = "neutral_stance" if polarity == "neutral" else "no_match"
            fails[why if stage1.aspects else "no_aspects"] += 1
        source = provenance(turn.speaker, stance)
        refs = named or alike
        for term in refs:
            hint = Hint(
                speaker=turn.speaker,
                op=STANCE_OP,
                weight=weight,
                polarity_hint=polarity,
                provenance_hint=source,
            )
            hints.setdefault(term, []).append(hint)
        points.append(
            RebuttalPoint(
                speaker=turn.speaker,
                stance=stance,
                aspect_refs=tuple(refs),
                key_points=tuple(answer.key_points or ([answer.message] if answer.message else [])),
                message=answer.message,
                weight=weight,
                polarity_hint=polarity,
                provenance_hint=source,
            )
        )
    names = {lang.key(term): term for term in hints}
    _add_witnesses(hints, names, witnesses, Mentions(stage1, lang), lang)
    return ReviewContext(
        **_about(stage1, lang, stats, fails),
        summary=summary,
        rebuttal_points=tuple(points),
        aspect_hints=hints,
        stage1_evidence={
            a.name: next((s.evidence for s in a.sentiments if s.evidence), None)
            for a in stage1.aspects
        },
        fallback_mapping_policy=_STANCE_FALLBACK,
    )


def _add_witnesses(
    hints: dict[str, list[Hint]],
    names: dict[str, str],
    witnesses: Iterable[tuple[str, Hint]],
    mentions: Mentions,
    lang: Language,
) -> None:
    """Add the hints of the second reader after those of the debate."""
    for term, hint in witnesses:
        name = mentions.stage1_name(term) or term
        hints.setdefault(names.setdefault(lang.key(name), name), []).append(hint)


def _mentioned(stage1: StageResult, words: str, lang: Language) -> list[str]:
    """The Stage 1 aspects in prose, by name or synonym."""
    return [
        a.name
        for a in stage1.aspects
        if any(lang.names(words, term) for term in (a.name, *lang.synonyms(a.name)))
    ]


def known_edits(edits: Iterable[Edit], categories: CategorySet | None) -> list[Edit]:
    """The edits with a valid op."""
    return [e for e in edits if e.op in EDIT_OPS or (categories and e.op == SET_CATEGORY)]


def mentions_of(edit: Edit) -> tuple[str | None, ...]:
    """The words by which an edit names its aspect, the most specific first."""
    return edit.target.aspect_ref, edit.target.aspect_term, edit.target.category


def _polarity_said(edit: Edit, stage1_polarities: frozenset[str]) -> str | None:
    """The raw polarity word of an edit. The gate checks its spelling."""
    if edit.op == "set_polarity":
        return edit.value
    if edit.op == "confirm_tuple":
        if edit.target.polarity is not None:
            return edit.target.polarity
        return next(iter(stage1_polarities)) if len(stage1_polarities) == 1 else None
    return None


def _evidence(
    summary: DebateSummary, mentions: Mentions, names: dict[str, str], lang: Language
) -> dict[str, str | None]:
    """The judge's evidence per aspect; the first of several entries counts."""
    evidence: dict[str, str | None] = {}
    for entry in summary.aspect_evidence:
        term, _ = mentions.first((entry.aspect_ref,))
        name = names.get(lang.key(term)) if term else None
        if name is not None:
            evidence.setdefault(name, entry.evidence)
    return evidence


def _rebuttal(turn: Turn, edits: list[Edit], refs: list[str]) -> RebuttalPoint:
    def said(edit: Edit) -> str:
        target = edit.target.aspect_ref or edit.target.aspect_term or "?"
        words = [edit.op, target, edit.value or edit.target.polarity or ""]
        return " ".join(w for w in words if w) + (f' ("{edit.evidence}")' if edit.evidence else "")

    return RebuttalPoint(
        speaker=turn.speaker,
        stance=PATCH_STANCE,
        aspect_refs=tuple(dict.fromkeys(refs)),
        key_points=tuple(said(e) for e in edits),
        provenance_hint=provenance(turn.speaker),
    )
