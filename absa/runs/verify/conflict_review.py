"""The checks of a conflict review that work without its rules.

| check | what must hold                                                                          |
|-------|-----------------------------------------------------------------------------------------|
| S1    | the candidates are the recorded triplets; their conflicts are flagged; the reviewers    |
|       | were asked if something was flagged; every counted action is in its reviewer's answer   |
| S4    | the candidates and the arbiter's actions, one by one, make the final aspects            |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from absa.nodes.language import language
from absa.nodes.polarity import read
from absa.runs.verify.words import judgement
from absa.schemas.answers import ReviewActionsAnswer, TripletsAnswer, read_answer
from absa.schemas.errors import AnswerError
from absa.schemas.output import FinalOutput

PROTOCOL = "conflict_review"
Answers = Mapping[str, Mapping[str, Any]]
Findings = Iterator[tuple[str, str]]
_PERSPECTIVES = {"p_neg": "A", "p_imp": "B", "p_lit": "C"}
_REVIEWERS = {"A": "review_a", "B": "review_b", "C": "review_c"}


def review_follows(output: FinalOutput, answers: Answers) -> Findings:
    """S1: candidates, flags and actions come from the answers."""
    yield from _candidates_follow(output, answers)
    yield from _conflicts_follow(output)
    yield from _actions_follow(output, answers)


def _candidates_follow(output: FinalOutput, answers: Answers) -> Findings:
    aspect_names = _given(output)
    key = language(output.lang).key
    expected: list[tuple[str, str | None, str]] = []
    for node, origin in _PERSPECTIVES.items():
        try:
            triplets = read_answer(TripletsAnswer, answers.get(node))[0].triplets
        except AnswerError:
            return  # a missing or unreadable answer is reported elsewhere
        for item in triplets:
            words = (item.aspect_term, item.aspect_ref)
            name = next((word for word in words if word and word.strip()), None)
            if aspect_names is not None:
                name = aspect_names.get(key(item.aspect_ref or "")) or aspect_names.get(
                    key(name or "")
                )
            polarity = read(item.polarity).value
            if polarity and (name or aspect_names is None):
                expected.append((origin, name, polarity))
    meta = output.meta
    listed = [(c.origin_agent, c.aspect_term, c.polarity) for c in meta.candidates]
    if listed != expected:
        yield "S1", f"the candidates are {_short(listed)}, the perspectives gave {_short(expected)}"
    if [c.tuple_id for c in meta.candidates] != [f"t{n}" for n in range(len(meta.candidates))]:
        yield "S1", "the candidates are not numbered t0, t1, …"
    proposed = {(key(c.name), judgement(c.category, c.polarity)) for c in meta.candidates}
    proposed |= {
        (own, "neutral") for own in (aspect_names or {}) if own not in {k for k, _ in proposed}
    }
    listed_tuples = {
        (key(t.name), judgement(t.category, t.polarity)) for t in output.final_result.stage1_tuples
    }
    if proposed != listed_tuples:
        yield "S1", "stage1_tuples are not those of the candidates"


def _conflicts_follow(output: FinalOutput) -> Findings:
    meta = output.meta
    groups: dict[str, dict[str, str]] = {}
    for c in meta.candidates:
        groups.setdefault(_aspect(output, c), {})[c.tuple_id] = c.polarity
    contested = {tuple(group) for group in groups.values() if len(set(group.values())) > 1}
    flags = [f.tuple_ids for f in meta.conflict_flags if f.conflict_type == "polarity_mismatch"]
    if contested != set(flags) or len(flags) != len(contested):
        yield "S1", f"aspects with two polarities are {_short(contested)}, flagged {_short(flags)}"
    single = [f.tuple_ids for f in meta.conflict_flags if f.conflict_type == "single_support"]
    origin = {c.tuple_id: c.origin_agent for c in meta.candidates}
    lone = {tuple(group) for group in groups.values() if len({origin[t] for t in group}) == 1}
    if single and set(single) != lone:
        yield "S1", f"aspects of one perspective are {_short(lone)}, flagged {_short(single)}"
    if output.analysis_flags.stage2_executed != bool(_flagged(output)):
        yield "S1", "the reviewers are asked if, and only if, something is flagged"


def _actions_follow(output: FinalOutput, answers: Answers) -> Findings:
    meta, flagged = output.meta, _flagged(output)
    decided = [t for a in meta.arbiter_actions for t in a.target_tuple_ids]
    if sorted(decided) != sorted(flagged):
        yield "S1", f"flagged are {_short(sorted(flagged))}, decided about {_short(decided)}"
    for action in meta.review_actions:
        raw = answers.get(_REVIEWERS.get(action.actor, ""))
        try:
            actions = read_answer(ReviewActionsAnswer, raw)[0].review_actions
        except AnswerError:
            return
        requested = {
            (item.action_type, tuple(dict.fromkeys(item.target_tuple_ids))) for item in actions
        }
        if (action.action_type, action.target_tuple_ids) not in requested:
            what = f"{action.action_type} of {', '.join(action.target_tuple_ids)}"
            yield "S1", f"{what} counts for {action.actor}, who did not ask for it"
        if not flagged.issuperset(action.target_tuple_ids):
            yield "S1", f"{action.actor} acted on {_short(action.target_tuple_ids)}: not flagged"


def actions_visible(output: FinalOutput) -> Findings:
    """S4: the candidates after the actions are the final aspects."""
    left = {c.tuple_id: c for c in output.meta.candidates}
    for action in output.meta.arbiter_actions:
        for tuple_id in action.target_tuple_ids:
            before, value = left.get(tuple_id), action.new_value or {}
            if before is None:
                yield "S4", f"{action.action_type} of {tuple_id}: the candidate does not exist"
                continue
            match action.action_type:
                case "DROP":
                    del left[tuple_id]
                case "FLIP":
                    new = {"polarity": value.get("polarity")}
                    left[tuple_id] = before.model_copy(update=new)
                case "MERGE":
                    new = {"aspect_ref": value.get("normalized_ref")}
                    left[tuple_id] = before.model_copy(update=new)
            if (left.get(tuple_id) != before) != action.applied:
                says = "marked" if action.applied else "not marked"
                yield "S4", f"{action.action_type} of {tuple_id} is {says} applied: that is wrong"
    groups: dict[tuple[str, str], list[tuple[str | None, str | None, float]]] = {}
    for c in left.values():
        forms = groups.setdefault((_aspect(output, c), judgement(c.category, c.polarity)), [])
        forms.append((c.aspect_term, c.evidence, c.confidence))
    # Given aspects without a judgement come after the others.
    shown = output.final_result.final_aspects
    judged = {name for forms in groups.values() for name, _, _ in forms}
    unjudged = [name for name in (_given(output) or {}).values() if name not in judged]
    if unjudged:
        if [a.aspect_term for a in shown[-len(unjudged) :]] != unjudged:
            yield "S4", f"given and not judged: {_short(unjudged)}; final_aspects end otherwise"
        shown = shown[: -len(unjudged)]
    polarities = [polarity for _, polarity in groups]
    if [judgement(a.category, a.polarity) for a in shown] != polarities or not all(
        (a.aspect_term, a.evidence, a.confidence) in forms
        for a, forms in zip(shown, groups.values(), strict=True)
    ):
        yield "S4", "candidates and actions make other tuples than final_aspects show"


def _flagged(output: FinalOutput) -> set[str]:
    meta = output.meta
    conflicts = {t for flag in meta.conflict_flags for t in flag.tuple_ids}
    return conflicts | {risk.tuple_id for risk in meta.validator_risks}


def _given(output: FinalOutput) -> dict[str, str] | None:
    """The aspects that the user gave, by key; None if there are none."""
    if output.meta.given_aspects is None:
        return None
    key = language(output.lang).key
    names: dict[str, str] = {}
    for term in output.meta.given_aspects:
        if key(term):
            names.setdefault(key(term), term)
    return names


def _aspect(output: FinalOutput, candidate: Any) -> str:
    key = language(output.lang).key
    return key(candidate.aspect_ref or "") or key(candidate.name)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:119]}…"
