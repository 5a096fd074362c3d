"""Episodic memory: finds similar past cases and derives advice from them.

A case is similar if it has the same language and at least one common structure. The three best of
them are recalled, ordered by: the share of common structures, the same number of aspects, the same
length, the later time. The advice of an episode:

| override | outcome            | advice                    |
|----------|--------------------|---------------------------|
| applied  | success            | `successful_override`     |
| applied  | harm               | `failed_override_warning` |
| any other                     || `consistency_anchor`      |

| source of the outcome              | `success`                  | `harm`               |
|------------------------------------|----------------------------|----------------------|
| the scorer, by gold for training   | a fix                      | a break              |
| else a person who reviewed it      | kept all that was changed  | took all of it back  |
| else the risks of an adopted change| fewer remained than before | more remained        |

All other outcomes are `neutral`. An override that was not adopted gives no advice.

The graph uses human reviews and risks. Gold is not in the state; the run engine replaces the
outcome after scoring (`learn`), and gold itself is never stored. Only the first analysis of a text
is stored. The text itself and episodes of the same split are never recalled (except for the
training split, or if the settings allow it).
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import combinations
from typing import Any, NamedTuple, cast, get_args

from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from absa.nodes.human_answer import without_human_review
from absa.nodes.language import Language, language
from absa.nodes.merge_candidates import aspect_of
from absa.nodes.polarity import read
from absa.nodes.review_context import Mentions, mentions_of
from absa.nodes.text import grounded
from absa.schemas.answers import L3_RISKS, Edit, PersonaTurnAnswer, Risk
from absa.schemas.errors import InputError
from absa.schemas.memory import (
    Advice,
    AdviceType,
    Episode,
    Length,
    MaskedTuple,
    Observation,
    Outcome,
    Recall,
    Signature,
    Structure,
)
from absa.schemas.output import FinalOutput
from absa.schemas.records import ReviewContext, StageResult, Turn
from absa.schemas.state import State

EPISODES = "episodes"
INDEX = "index"
TRAIN = "train"
TOP = 3
# One more than is recalled, because the sample itself can be among them.
_KEPT = TOP + 1
_LATEST = "latest"
_SHORT, _MID = 40, 120
_TRIGGER = 2
HEADING = "Memory advisory (from similar past cases):"

_RISKS: dict[str, Structure] = {
    "NEGATION": "negation",
    "NEGATION_SCOPE": "negation",
    "CONTRAST": "contrast",
    "CONTRAST_SCOPE": "contrast",
    "IRONY": "irony",
}
_MESSAGES: dict[AdviceType, str] = {
    "successful_override": "the debate's override of the first reading made the result better",
    "failed_override_warning": (
        "the debate's override made the result worse: change a polarity only where the review's "
        "own words demand it"
    ),
    "consistency_anchor": "the first reading stood in the end",
}
# The same advice type if something changed.
_REVIEWED = "the reviewers' corrections were taken over, without an override"
_UNKNOWN = "the debate's override was taken over, and it is not known whether it was right"


def signature_of(
    text: str, lang: Language, *, aspects: int, implicit: bool, risks: Iterable[str]
) -> Signature:
    """The shape of a case, after its aspects are known."""
    structures: set[Structure] = {_RISKS[risk] for risk in risks if risk in _RISKS}
    if lang.has_negation(text):
        structures.add("negation")
    if lang.has_contrast(text):
        structures.add("contrast")
    if implicit:
        structures.add("implicit")
    length: Length = "short" if len(text) < _SHORT else "mid" if len(text) < _MID else "long"
    return Signature(
        lang=lang.code,
        structures=tuple(sorted(structures)) or ("plain",),
        aspects=aspects,
        length=length,
    )


def signature_of_state(state: State) -> Signature:
    """The shape of a case, from Stage 1 or, in a conflict review, from the candidates."""
    text, lang = state["text"], language(state["lang"])
    if "stage1_result" in state:
        aspects = state["stage1_result"].aspects
        return signature_of(
            text,
            lang,
            aspects=len(aspects),
            implicit=any(a.span is None for a in aspects),
            risks=[r.type for r in state["stage1_validation"].structural_risks],
        )
    candidates = state["candidates"]
    return signature_of(
        text,
        lang,
        aspects=len({aspect_of(c, lang) for c in candidates}),
        implicit=any(not c.aspect_term or c.aspect_term not in text for c in candidates),
        risks=[r.type for r in state["validator_risks"]],
    )


def sample_id(text: str) -> str:
    """A hash of the text as its id, independent of the uid in a data file."""
    plain = " ".join(unicodedata.normalize("NFC", text).split())
    return hashlib.sha256(plain.encode()).hexdigest()[:24]


def own_recall(recall: Recall | None, text: str) -> Recall | None:
    """The recall if it belongs to this text, else None."""
    return recall if recall is not None and recall.sample == sample_id(text) else None


def store_of_run() -> BaseStore:
    """The store of the compiled graph or of LangGraph's server."""
    store = get_runtime().store
    if store is None:
        raise InputError(
            "memory is switched on, but this graph was compiled without a store: "
            "pass `store=` when you compile it"
        )
    return store


# Recall -----------------------------------------------------------------------------------------
#
# The search of a store scans everything under a prefix. So an index is stored beside the episodes:
# one item per set of structures, which points to the latest few episodes of every cell (number of
# aspects, length, split). It always has the best three. One read of at most 16 keys finds them.


class Pointer(NamedTuple):
    """An index entry of an episode: its cell, its time and its key."""

    aspects: int
    length: str
    split: str | None
    at: int
    sample: str


def index_reads(signature: Signature) -> list[GetOp]:
    """The index reads for cases with a common structure."""
    return [
        GetOp(_room(INDEX, signature.lang), _index_key(s))
        for s in _overlapping(signature.structures)
    ]


def _room(kind: str, lang: str) -> tuple[str, str]:
    # A store does not accept empty names or names with a dot.
    return kind, lang.replace(".", "-") or "-"


def _overlapping(structures: Sequence[Structure]) -> list[tuple[Structure, ...]]:
    names: list[Structure] = sorted(s for s in get_args(Structure) if s != "plain")
    sets = [c for size in range(1, len(names) + 1) for c in combinations(names, size)]
    return [s for s in (("plain",), *sets) if set(s) & set(structures)]


def _index_key(structures: Sequence[Structure]) -> str:
    return "+".join(structures)


def best(
    index: Iterable[Item | None],
    signature: Signature,
    *,
    sample: str,
    split: str | None,
    any_split: bool,
) -> list[GetOp]:
    """Pointers to the most similar episodes, without the text itself and its own split."""
    hidden = None if any_split or split == TRAIN else split
    asked = set(signature.structures)
    ranked: list[tuple[float, bool, bool, int, str]] = []
    for item in index:
        if item is None:
            continue
        has = set(item.key.split("+"))
        common = len(has & asked) / len(has | asked)
        # Thousands per recall, so no Pointer object is made for each.
        ranked += [
            (common, aspects == signature.aspects, length == signature.length, at, key)
            for aspects, length, of_split, at, key in item.value[_LATEST]
            if key != sample and (hidden is None or of_split != hidden)
        ]
    room = _room(EPISODES, signature.lang)
    return [GetOp(room, key) for *_, key in nlargest(TOP, ranked)]


def _pointers(indexed: Item | None) -> list[Pointer]:
    return [Pointer(*entry) for entry in indexed.value[_LATEST]] if indexed else []


def episodes_in(items: Iterable[Item | None]) -> tuple[Episode, ...]:
    """The episodes of a read, without those deleted meanwhile."""
    return tuple(Episode.model_validate(item.value) for item in items if item is not None)


def require_readable(item: Item) -> None:
    """Check an item of the store: an episode or an entry of the index.

    Raises:
        ValueError, TypeError, KeyError: The item is damaged.
    """
    if item.namespace[0] == EPISODES:
        Episode.model_validate(item.value)
    else:
        _pointers(item)


def advice_of(episode: Episode) -> Advice:
    """The advice of an episode."""
    kind: AdviceType = "consistency_anchor"
    if episode.override == "applied" and episode.outcome != "neutral":
        worked = episode.outcome == "success"
        kind = "successful_override" if worked else "failed_override_warning"
    changed = set(episode.stage1) != set(episode.final)
    message = _MESSAGES[kind]
    if kind == "consistency_anchor" and changed:
        message = _UNKNOWN if episode.override == "applied" else _REVIEWED
    shape = ", ".join(episode.signature.structures)
    return Advice(type=kind, message=f"In a similar case ({shape}) {message}.")


def memory_context(recall: Recall | None) -> str | None:
    """The advice for reviewers; None if there is none or it must not be shown."""
    if recall is None or recall.condition != "on" or not recall.advice:
        return None
    return "\n".join((HEADING, *(f"- {a.message}" for a in recall.advice)))


def warns(recall: Recall | None) -> bool:
    """Whether memory warns of an override."""
    return (
        recall is not None
        and recall.condition == "on"
        and any(a.type == "failed_override_warning" for a in recall.advice)
    )


# Deadlock ---------------------------------------------------------------------------------------


def deadlock(
    turns: Sequence[Turn],
    hints: ReviewContext,
    stage1: StageResult,
    risks: Iterable[Risk],
    text: str,
    lang: Language,
) -> tuple[Observation, ...]:
    """The signs of deadlock. Two of four are a deadlock.

    | observation                  | if                                                     |
    |------------------------------|--------------------------------------------------------|
    | `polarity_disagreement`      | two speakers gave one aspect different polarities      |
    | `confirmed_and_dropped`      | a tuple was both confirmed and dropped                 |
    | `contested_without_evidence` | a contested aspect has no evidence in the text         |
    | `l3_risk`                    | a risk of negation, contrast, mismatch or irony        |

    An aspect is contested if speakers contradict each other or Stage 1: they ask for another
    polarity, or to drop it.
    """
    mentions = Mentions(stage1, lang)
    stage1_polarities = {lang.key(a.name): a.polarities for a in stage1.aspects}
    divided: set[str] = set()
    questioned: set[str] = set()
    for term, hinted in hints.aspect_hints.items():
        key = lang.key(term)
        polarities = [(h.speaker, p) for h in hinted if (p := read(h.polarity_hint).value)]
        if any(a != b and p != q for (a, p), (b, q) in combinations(polarities, 2)):
            divided.add(key)
        if {p for _, p in polarities} - stage1_polarities.get(key, frozenset()):
            questioned.add(key)
        if any(h.op == "drop_tuple" for h in hinted):
            questioned.add(key)
    targets = [(_target(edit, mentions, lang), edit) for edit in _edits(turns)]
    undone = _confirmed_and_dropped(targets) & {lang.key(term) for term in hints.aspect_hints}
    supported = {key for key, edit in targets if grounded(text, edit.evidence)}
    supported |= {
        lang.key(a.name)
        for a in stage1.aspects
        if any(grounded(text, s.evidence) for s in a.sentiments)
    }
    signs: dict[Observation, bool] = {
        "polarity_disagreement": bool(divided),
        "confirmed_and_dropped": bool(undone),
        "contested_without_evidence": not divided | undone | questioned <= supported,
        "l3_risk": any(r.type in L3_RISKS for r in risks),
    }
    return tuple(sign for sign, holds in signs.items() if holds)


def is_deadlock(observations: Sequence[Observation]) -> bool:
    """Whether at least two of the four signs are present."""
    return len(observations) >= _TRIGGER


def _edits(turns: Sequence[Turn]) -> list[Edit]:
    return [
        edit
        for turn in turns
        if not isinstance(turn.answer, PersonaTurnAnswer)
        for edit in turn.answer.proposed_edits
    ]


def _target(edit: Edit, mentions: Mentions, lang: Language) -> str:
    term, _ = mentions.first(mentions_of(edit))
    return lang.key(term or "")


def _confirmed_and_dropped(targets: Sequence[tuple[str, Edit]]) -> set[str]:
    """Aspects with a tuple that is both; an edit without a polarity means all tuples."""

    def named(op: str) -> list[tuple[str, str | None]]:
        return [(key, read(e.target.polarity).value) for key, e in targets if e.op == op]

    return {
        aspect
        for aspect, confirmed in named("confirm_tuple")
        for other, dropped in named("drop_tuple")
        if aspect == other and (confirmed == dropped or confirmed is None or dropped is None)
    }


# Remembering ------------------------------------------------------------------------------------


def may_write(split: str | None, *, any_split: bool) -> bool:
    """Whether a case may be stored, which is not allowed for evaluated splits."""
    return any_split or split is None or split == TRAIN


def episode_of(output: FinalOutput, signature: Signature, split: str | None, at: int) -> Episode:
    """The episode of a finished case, without words of its text."""
    meta = output.meta
    lang = language(output.lang)
    result = output.final_result
    names: dict[str, str] = {}

    def masked(tuples: Iterable[Any]) -> tuple[MaskedTuple, ...]:
        return tuple(
            MaskedTuple(
                aspect=names.setdefault(lang.key(t.name), f"A{len(names) + 1}"), polarity=t.polarity
            )
            for t in tuples
        )

    overridden = meta.gate_decision == "APPLY"
    return Episode(
        sample=sample_id(output.text),
        split=split,
        signature=signature,
        stage1=masked(result.stage1_tuples),
        final=masked(result.final_tuples),
        risks_before=meta.stage1_risks,
        risks_after=meta.stage2_risks,
        corrections=(
            *(f"{c.source}/{c.proposal_type}" for c in meta.correction_applied_log if c.applied),
            *(f"arbiter/{a.action_type}" for a in meta.arbiter_actions if a.applied),
        ),
        override="applied" if overridden else "skipped" if meta.override_gate else "none",
        outcome=_outcome(output),
        at=at,
    )


def _outcome(output: FinalOutput) -> Outcome:
    """The outcome by human review, else by the risks."""
    meta = output.meta
    if meta.human_review is not None and meta.human_review.status == "reviewed":
        return by_person(without_human_review(output), output)
    if meta.adopt_decision != "adopted" or meta.stage2_risks is None:
        return "neutral"
    return _sign(meta.stage1_risks - meta.stage2_risks)


def by_person(agents: FinalOutput, reviewed: FinalOutput) -> Outcome:
    """The outcome by human review: whether a person kept the agents' changes or undid them."""
    key = language(agents.lang).key

    def tuples(given: Iterable[Any]) -> set[tuple[str, str]]:
        return {(key(t.aspect_term), t.polarity) for t in given}

    final = tuples(agents.final_result.final_tuples)
    changed = final ^ tuples(agents.final_result.stage1_tuples)
    taken_back = changed & (final ^ tuples(reviewed.final_result.final_tuples))
    if not changed or (taken_back and taken_back != changed):
        return "neutral"
    return "harm" if taken_back else "success"


def _sign(gain: int) -> Outcome:
    return "success" if gain > 0 else "harm" if gain < 0 else "neutral"


def learn(store: BaseStore, output: FinalOutput, outcome: Outcome) -> bool:
    """Replace the outcome of an episode by a better one, such as from gold.

    Returns false if this text or this result of it is not stored.
    """
    if output.meta.memory is None:
        return False
    recall = output.meta.memory.recall
    place = GetOp(_room(EPISODES, recall.signature.lang), recall.sample)
    (item,) = cast("list[Item | None]", store.batch([place]))
    if item is None:
        return False
    episode = Episode.model_validate(item.value)
    this = episode_of(output, recall.signature, episode.split, episode.at)
    if this.model_copy(update={"outcome": episode.outcome}) != episode:
        return False
    better = episode.model_copy(update={"outcome": outcome})
    store.batch([PutOp(place.namespace, place.key, better.model_dump(mode="json"))])
    return True


def reads(episode: Episode) -> list[GetOp]:
    """The reads before a write: the episode, if it exists, and its index entry."""
    signature = episode.signature
    return [
        GetOp(_room(EPISODES, signature.lang), episode.sample),
        GetOp(_room(INDEX, signature.lang), _index_key(signature.structures)),
    ]


def writes(episode: Episode, stored: Item | None, indexed: Item | None) -> list[PutOp]:
    """The writes of an episode and its index entry; empty for a text that is already stored."""
    if stored is not None:
        return []
    room = _room(EPISODES, episode.signature.lang)
    return [
        PutOp(room, episode.sample, episode.model_dump(mode="json")),
        _index_entry(episode.signature, [*_pointers(indexed), _pointer(episode)]),
    ]


def forgetting(episode: Episode) -> PutOp:
    """The writes to delete an episode. The index must be rebuilt afterwards."""
    return PutOp(_room(EPISODES, episode.signature.lang), episode.sample, None)


def index_of(episodes: Iterable[Episode]) -> list[PutOp]:
    """The index, rebuilt from the episodes."""
    entries: dict[tuple[str, tuple[str, ...]], list[Episode]] = {}
    for episode in episodes:
        key = (episode.signature.lang, episode.signature.structures)
        entries.setdefault(key, []).append(episode)
    return [
        _index_entry(alike[0].signature, [_pointer(e) for e in alike]) for alike in entries.values()
    ]


def _pointer(episode: Episode) -> Pointer:
    signature = episode.signature
    return Pointer(signature.aspects, signature.length, episode.split, episode.at, episode.sample)


def _index_entry(signature: Signature, pointers: Iterable[Pointer]) -> PutOp:
    cells: dict[tuple[int, str, str | None], list[Pointer]] = {}
    for pointer in sorted(pointers, key=lambda p: (p.at, p.sample)):
        cells.setdefault((pointer.aspects, pointer.length, pointer.split), []).append(pointer)
    latest = [list(pointer) for cell in cells.values() for pointer in cell[-_KEPT:]]
    return PutOp(_room(INDEX, signature.lang), _index_key(signature.structures), {_LATEST: latest})
