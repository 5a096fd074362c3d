"""A second, literal reading of conflict review's rules, to hold the nodes against.

Plain functions over plain dicts, written from the rules and not from the nodes. Only what is not
conflict review's own is borrowed: aspect keys, clauses and negation of a language.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

from absa.nodes.language import Language
from absa.schemas.answers import REASON_CODES

Json = dict[str, Any]
POLARITIES = ("positive", "negative", "neutral")
SHORT = {"pos": "positive", "neg": "negative", "neu": "neutral"}
FLIP_WINS = ("NEGATION_SCOPE", "CONTRAST_CLAUSE", "STRUCTURAL_INCONSISTENT")


def review(text: str, lang: Language, triplets: list[list[Json]], said: list[list[Json]]) -> Json:
    """Everything the rules decide, from the triplets of A, B, C and their review actions."""
    counts = {"exact": 0, "repaired": 0, "invalid": 0}
    candidates = numbered(text, triplets, counts)
    flags = conflicts(candidates, lang)
    risks = [risk for c in candidates for risk in risks_of(c, text, lang)]
    doubtful = {i for f in flags for i in f["tuple_ids"]} | {i for i, _ in risks}
    accepted, discarded = checked(said if doubtful else [], doubtful, counts)
    actions = [decided(c, candidates, accepted) for c in candidates if c["id"] in doubtful]
    left = collapsed(carried_out(candidates, actions), text, lang)
    label, confidence = agg(left)
    applied = [a["applied"] for a in actions if a["action"] != "KEEP"]
    before = {(lang.key(c["term"] or "implicit"), c["polarity"]) for c in candidates}
    # A change is one of the tuples or of the label; who took one of two equal tuples made none.
    moved = before != {(lang.key(c["term"] or "implicit"), c["polarity"]) for c in left}
    changed = moved or label != agg(candidates)[0]
    return {
        "candidates": [(c["id"], c["origin"], c["term"], c["polarity"]) for c in candidates],
        "conflict_flags": flags,
        "validator_risks": risks,
        "review_actions": accepted,
        "discarded": discarded,
        "arbiter_actions": actions,
        "flagged": [a["id"] for a in actions if a["flag"]],
        "stage1_tuples": before,
        "final": [
            (c["term"], c["polarity"], c["evidence"], c["span"], c["confidence"]) for c in left
        ],
        "label": label,
        "confidence": confidence,
        "change_type": "guided" if any(applied) else "unguided" if changed else "none",
        "counts": (counts["repaired"], counts["invalid"]),
        "reviewed": bool(doubtful),
    }


def numbered(text: str, triplets: list[list[Json]], counts: dict[str, int]) -> list[Json]:
    """All triplets with a valid polarity in the order A, B, C as t0, t1, …"""
    found: list[Json] = []
    for origin, items in zip("ABC", triplets, strict=True):
        for item in items:
            polarity = polarity_of(item.get("polarity"), counts)
            if polarity is None:
                continue
            ref = filled(item.get("aspect_ref"))
            term = filled(item.get("aspect_term")) or ref
            confidence = item.get("confidence")
            found.append(
                {
                    "id": f"t{len(found)}",
                    "origin": origin,
                    "term": term,
                    "ref": ref,
                    "polarity": polarity,
                    "evidence": item.get("evidence"),
                    "said_span": item.get("span"),
                    "span": place(text, term, item.get("span")),
                    "confidence": 0.5 if confidence is None else confidence,
                }
            )
    return found


def filled(word: str | None) -> str | None:
    return word if word and word.strip() else None


def place(text: str, term: str, said: Json | None) -> tuple[int, int] | None:
    """The span that was said if it covers the term, else where the term is found first."""
    if said and term and covers(text, said, term):
        return said["start"], said["end"]
    start = text.find(term) if term else -1
    return (start, start + len(term)) if start >= 0 else None


def covers(text: str, span: Json, term: str) -> bool:
    inside = 0 <= span["start"] < span["end"] <= len(text)
    return inside and text[span["start"] : span["end"]] == term


def aspect(c: Json, lang: Language) -> str:
    """The key of its reference; one that has no key names nothing."""
    return lang.key(c["ref"] or "") or lang.key(c["term"] or "implicit")


def conflicts(candidates: list[Json], lang: Language) -> list[Json]:
    """Aspects with two polarities; then pairs of aspects with candidates whose spans overlap."""
    by_aspect: dict[str, list[Json]] = {}
    for c in candidates:
        by_aspect.setdefault(aspect(c, lang), []).append(c)
    flags = [
        flag(same, "polarity_mismatch")
        for same in by_aspect.values()
        if len({c["polarity"] for c in same}) > 1
    ]
    for one, other in combinations(by_aspect.values(), 2):
        touching = [(a, b) for a in one for b in other if overlap(a["span"], b["span"])]
        if touching:
            involved = {c["id"] for pair in touching for c in pair}
            flags.append(flag([c for c in candidates if c["id"] in involved], "aspect_overlap"))
    return flags


def flag(same: list[Json], kind: str) -> Json:
    ids = [c["id"] for c in same]
    return {"aspect_term": same[0]["term"], "tuple_ids": ids, "conflict_type": kind}


def overlap(a: tuple[int, int] | None, b: tuple[int, int] | None) -> bool:
    return bool(a and b and a[0] < b[1] and b[0] < a[1])


def risks_of(c: Json, text: str, lang: Language) -> list[tuple[str, str]]:
    """What is wrong with one candidate taken by itself."""
    found = []
    if not in_text(c["evidence"], text):
        found.append((c["id"], "EVIDENCE_GAP"))
    if c["said_span"] and not covers(text, c["said_span"], c["term"]):
        found.append((c["id"], "SPAN_MISMATCH"))
    if c["polarity"] == "positive" and negated(c, text, lang):
        found.append((c["id"], "NEGATION_SCOPE"))
    return found


def in_text(evidence: str | None, text: str) -> bool:
    return bool(evidence and evidence.strip() and evidence in text)


def negated(c: Json, text: str, lang: Language) -> bool:
    """A negation stands in a clause of its evidence, or of its term where it has none.

    Evidence that stands in several places is the first one in a clause of the term, if any.
    """
    ends = [m.end() for m in re.finditer(r"(?<=[.!?…])\s+|\n+", text)]
    cuts = sorted({0, len(text), *ends, *(a for a, _ in lang.clauses(text))})
    clauses = list(zip(cuts, cuts[1:], strict=False))
    own = [clause for clause in clauses if overlap(c["span"], clause)]
    around = own
    if in_text(words := c["evidence"], text):
        starts = [i for i in range(len(text)) if text.startswith(words, i)]
        places = [(i, i + len(words)) for i in starts]
        beside = [at for at in places if any(overlap(at, clause) for clause in own)]
        around = [clause for clause in clauses if overlap([*beside, *places][0], clause)]
    return any(lang.has_negation(text[a:b]) for a, b in around)


def checked(
    said: list[list[Json]], doubtful: set[str], counts: dict[str, int]
) -> tuple[list[Json], list[str]]:
    """The actions that may count, and the actors of those that may not."""
    accepted, discarded = [], []
    for actor, actions in zip("ABC", said, strict=False):
        for item in actions:
            kind, targets, value = item["action_type"], item["target_tuple_ids"], None
            good = kind in ("DROP", "MERGE", "FLIP", "KEEP", "FLAG")
            good = good and bool(targets) and set(targets) <= doubtful
            good = good and item["reason_code"] in REASON_CODES
            new = item.get("new_value") or {}
            if good and kind == "FLIP":
                value = polarity_of(new.get("polarity"), counts)
            if good and kind == "MERGE":
                value = filled(new.get("normalized_ref"))
                good = len(set(targets)) > 1
            if not good or (kind in ("FLIP", "MERGE") and value is None):
                discarded.append(actor)
                continue
            accepted.append(
                {
                    "actor": actor,
                    "action": kind,
                    "targets": list(dict.fromkeys(targets)),
                    "value": value,
                    "reason": item["reason_code"],
                }
            )
    return accepted, discarded


SILENCE: Json = {"action": "KEEP", "value": None, "targets": None, "reason": None}


def decided(c: Json, candidates: list[Json], accepted: list[Json]) -> Json:
    """What becomes of one flagged tuple."""
    about = [a for a in accepted if c["id"] in a["targets"]]
    marked = any(a["action"] == "FLAG" for a in about)
    votes = [
        next((a for a in about if a["actor"] == actor and a["action"] != "FLAG"), SILENCE)
        for actor in "ABC"
    ]
    winners = [v for v in votes if sum(same_vote(v, w) for w in votes) > 1]
    uncertain = {"action": "KEEP", "value": None, "flag": True, "reason": "POLARITY_UNCERTAIN"}
    if winners:
        first = next((v for v in winners if v["reason"]), winners[0])
        won = {"action": first["action"], "value": first["value"], "reason": first["reason"]}
        targets = first["targets"] or []
        if won["action"] == "MERGE" and len({polarity_at(candidates, i) for i in targets}) > 1:
            won = uncertain
    elif sorted(v["action"] for v in votes) == ["DROP", "FLIP", "KEEP"]:
        flip = next(v for v in votes if v["action"] == "FLIP")
        won = {"action": "FLIP", "value": flip["value"], "reason": flip["reason"]}
        won = won if flip["reason"] in FLIP_WINS else uncertain
    else:
        won = uncertain
    return {
        **won,
        "id": c["id"],
        "flag": marked or bool(won.get("flag")),
        "applied": (won["action"] == "DROP")
        or (won["action"] == "FLIP" and won["value"] != c["polarity"])
        or (won["action"] == "MERGE" and won["value"] != c["ref"]),
    }


def same_vote(v: Json, w: Json) -> bool:
    if v["action"] == "MERGE" == w["action"] and set(v["targets"]) != set(w["targets"]):
        return False
    return bool((v["action"], v["value"]) == (w["action"], w["value"]))


def polarity_at(candidates: list[Json], tuple_id: str) -> str:
    return next(str(c["polarity"]) for c in candidates if c["id"] == tuple_id)


def carried_out(candidates: list[Json], actions: list[Json]) -> list[Json]:
    done = []
    by_id = {a["id"]: a for a in actions}
    for c in candidates:
        act = by_id.get(c["id"], {"action": "KEEP"})
        if act["action"] == "FLIP":
            c = {**c, "polarity": act["value"]}
        if act["action"] == "MERGE":
            c = {**c, "ref": act["value"]}
        if act["action"] != "DROP":
            done.append(c)
    return done


def collapsed(tuples: list[Json], text: str, lang: Language) -> list[Json]:
    """Of the tuples of one aspect and polarity, the best supported one."""
    groups: dict[tuple[str, str], list[Json]] = {}
    for c in tuples:
        groups.setdefault((aspect(c, lang), c["polarity"]), []).append(c)

    def support(c: Json) -> tuple[bool, bool, float, int]:
        named = bool(c["term"]) and c["term"] in text
        return named, in_text(c["evidence"], text), c["confidence"], -int(c["id"][1:])

    return [max(group, key=support) for group in groups.values()]


def agg(tuples: list[Json]) -> tuple[str, float]:
    found = {c["polarity"] for c in tuples} - {"neutral"}
    label = "mixed" if len(found) == 2 else next(iter(found), "neutral")
    carriers = found or {"neutral"}
    weights = [c["confidence"] for c in tuples if c["polarity"] in carriers]
    return label, sum(weights) / len(weights) if weights else 0.0


def polarity_of(word: str | None, counts: dict[str, int]) -> str | None:
    """The canonical word; misspelt by one or two letters it is repaired, else invalid."""
    low = (word or "").lower()
    if low in POLARITIES or low in SHORT:
        return SHORT.get(low, low)
    near = [p for p in POLARITIES if distance(low, p) <= 2]
    counts["repaired" if len(near) == 1 else "invalid"] += 1
    return near[0] if len(near) == 1 else None


def distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]
