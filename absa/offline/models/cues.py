"""What the polarity models look at: named cues of an aspect in its text, and of a whole text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

from absa.offline.stopping import watched
from absa.offline.text.annotations import Opinion, Token, View

#: Characters ``[start, end)`` of an aspect term; an empty span is an unnamed aspect.
Span = tuple[int, int]
Cues = dict[str, float]

#: Upper ends of the distance steps, in tokens.
_STEPS = (1, 2, 3, 5, 8, 13, 21)
_NEGATED_WORDS = 5
_CHARACTERS = 1000
_RUN = re.compile(r"(.)\1{2,}")
_LAST = attrgetter("last")

#: Zones of a word: side, distance step, aspects between, clauses between; then head and company.
_ZONE_STEPS = (1, 2, 3, 5, 9)
_PER_SIDE = (len(_ZONE_STEPS) + 1) * 9
_HEAD_ZONE = 2 * _PER_SIDE
_COMPANY_ZONE = _HEAD_ZONE + 1
ZONES = _COMPANY_ZONE + 1


@dataclass(frozen=True, slots=True)
class Scene:
    """What all aspects of a text share: words as the models read them, and whose clause each is."""

    words: tuple[str, ...]
    starts: tuple[int, ...]
    clause_of: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an aspect stands: its tokens ``[first, last)``, its clause, the aspects beside it."""

    first: int
    last: int
    clause: int
    before: tuple[tuple[int, int], ...]
    after: tuple[tuple[int, int], ...]


@lru_cache(maxsize=64)
def scene_of(view: View) -> Scene:
    """The words of a text; ``!`` marks what a negator turns round."""
    clause_of = [0] * len(view.tokens)
    for number, clause in enumerate(view.clauses):
        clause_of[clause.first : clause.last] = [number] * (clause.last - clause.first)
    negated = _negated(view)
    return Scene(
        tuple(
            "!" + _word(token, view.lang) if index in negated else _word(token, view.lang)
            for index, token in watched(enumerate(view.tokens))
        ),
        tuple(token.start for token in view.tokens),
        tuple(clause_of),
    )


def _word(token: Token, lang: str) -> str:
    if token.tag in ("NUM", "SN"):
        return "0"
    if lang == "ko":
        return f"{token.lemma}/{token.tag[:1]}"
    return "not" if token.tag == "NEG" else token.lemma


def _negated(view: View) -> set[int]:
    marked: set[int] = set()
    for index in watched(view.negators):
        if view.lang == "en":
            end = view.clauses[bisect_right(view.clauses, index, key=_LAST)].last
            marked.update(range(index + 1, min(index + 1 + _NEGATED_WORDS, end)))
        elif view.tokens[index].tag == "MAG":
            marked.update(range(index + 1, index + 3))
        else:
            marked.update(range(index - 3, index))
    return marked


def _tokens_of(scene: Scene, start: int, end: int) -> tuple[int, int]:
    first = max(0, bisect_left(scene.starts, start + 1) - 1)
    return first, max(first + 1, bisect_left(scene.starts, end))


def place_of(view: View, start: int, end: int, others: Sequence[Span]) -> Place:
    """Find an aspect and its neighbours among the tokens."""
    scene = scene_of(view)
    first, last = _tokens_of(scene, start, end)
    spans = sorted({_tokens_of(scene, *other) for other in others})
    return Place(
        first,
        last,
        scene.clause_of[first],
        tuple(span for span in spans if span[1] <= first),
        tuple(span for span in spans if span[0] >= last),
    )


def aspect_cues(
    view: View, start: int, end: int, others: Sequence[Span], valence: Mapping[str, float]
) -> Cues:
    """The cues of one aspect.

    Args:
        view: the text.
        start: where the aspect term begins, in characters.
        end: where it ends; ``end <= start`` asks for an aspect that is not named.
        others: spans of the other aspects.
        valence: what single words said about whole texts elsewhere, positive or negative.
    """
    cues: Cues = {}
    if not view.tokens:
        return cues
    scene = scene_of(view)
    if end <= start:
        _unnamed(cues, scene, valence)
        return cues
    place = place_of(view, start, end, others)
    _words_around(cues, view, scene, place, valence)
    _exact_neighbours(cues, scene, place)
    _opinions_around(cues, view, scene, place)
    _shape(cues, view, place)
    return cues


def _unnamed(cues: Cues, scene: Scene, valence: Mapping[str, float]) -> None:
    cues["unnamed"] = 1.0
    for word in scene.words:
        for bag in ("b:", "c:", "g:"):
            cues[bag + word] = 1.0
    total = sum(valence.get(word, 0.0) for word in scene.words)
    for reach in ("all", "clause", "own", "near"):
        cues["x:" + reach] = _clipped(total, 3.0)


def _words_around(
    cues: Cues, view: View, scene: Scene, place: Place, valence: Mapping[str, float]
) -> None:
    """Bags of words by reach: text, clause, the stretch up to the next aspect."""
    words, clause_of = scene.words, scene.clause_of
    first, last = place.first, place.last
    sentence = view.clauses[place.clause].sentence
    in_sentence = [clause.sentence == sentence for clause in view.clauses]
    left = place.before[-1][1] if place.before else 0
    right = place.after[0][0] if place.after else len(words)
    head = words[last - 1]
    cues["h:" + head] = cues["t:" + " ".join(words[first:last])] = 1.0
    sums = {"all": 0.0, "clause": 0.0, "own": 0.0, "own>": 0.0, "near": 0.0}
    for index, word in enumerate(words):
        if first <= index < last:
            continue
        side, distance = ("<", first - index) if index < first else (">", index - last + 1)
        cues["b:" + word] = 1.0
        own = left <= index < right and in_sentence[clause_of[index]]
        if clause_of[index] == place.clause:
            cues["c:" + word] = 1.0
        if own:
            cues["g:" + word] = cues["g" + side + word] = 1.0
            if index + 1 < right and index + 1 != first:
                cues[f"g{side}{word} {words[index + 1]}"] = 1.0
        value = valence.get(word)
        if value:
            sums["all"] += value
            sums["near"] += value / (1 + distance / 4)
            if clause_of[index] == place.clause:
                sums["clause"] += value
            if own:
                sums["own"] += value
                if side == ">":
                    sums["own>"] += value
    if valence:
        for reach, total in sums.items():
            cues["x:" + reach] = _clipped(total, 3.0)


def _exact_neighbours(cues: Cues, scene: Scene, place: Place) -> None:
    """The words right before and after; aspects among them are ``#``."""
    first, last, size = place.first, place.last, len(scene.words)
    taken = {i for span in (*place.before, *place.after) for i in range(*span)}

    def run(begin: int, end: int) -> str:
        return " ".join(
            "" if not 0 <= i < size else "#" if i in taken else scene.words[i]
            for i in range(begin, end)
        )

    for length in (1, 2, 3):
        cues[f"L{length}:{run(first - length, first)}"] = 1.0
        cues[f"R{length}:{run(last, last + length)}"] = 1.0
    cues[f"LR:{run(first - 1, first)}@{run(last, last + 1)}"] = 1.0
    cues[f"LR2:{run(first - 2, first)}@{run(last, last + 2)}"] = 1.0
    if not {run(first - 1, first), run(last, last + 1)}.isdisjoint((",", "and", "or")):
        cues["listed"] = 1.0


def _relation(opinion: Opinion, place: Place) -> tuple[str, int, int]:
    """On which side an opinion stands, how far, and how many aspects are in between."""
    if opinion.first < place.first:
        between = sum(1 for span in place.before if span[0] >= opinion.last)
        return "<", max(1, place.first - opinion.last + 1), between
    between = sum(1 for span in place.after if span[1] <= opinion.first)
    return ">", max(1, opinion.first - place.last + 1), between


def _opinions_around(cues: Cues, view: View, scene: Scene, place: Place) -> None:
    """What the lexicon's opinions add up to by reach, and which is nearest."""
    sums: dict[str, float] = {}
    nearest: tuple[tuple[bool, int, int], Opinion, str] | None = None
    head = scene.words[place.last - 1]
    for opinion in view.opinions:
        score = opinion.score
        if place.first <= opinion.first and opinion.last <= place.last:
            sums["term"] = sums.get("term", 0.0) + score
            continue
        side, distance, between = _relation(opinion, place)
        away = abs(opinion.clause - place.clause)
        sign = "+" if score > 0 else "-"
        reached = {
            "all": score,
            "near": score / (1 + distance / 4) * 0.5 ** (between + away),
        }
        if not away:
            reached["clause"] = reached["clause" + side] = score
        if not between:
            reached["free" + side] = score
            reached["free"] = score / (1 + distance / 6)
            if not away:
                reached["own" + side] = score
            cues[f"ho:{head}|{scene.words[opinion.last - 1]}"] = 1.0
        for reach, value in reached.items():
            sums[reach] = sums.get(reach, 0.0) + value
        step = bisect_left(_STEPS, distance)
        cues[f"o{side}{step}{min(away, 2)}{min(between, 2)}{sign}"] = 1.0
        cues[f"o{side}{min(away, 1)}{min(between, 1)}{sign}"] = 1.0
        key = (away > 0, between, distance)
        if nearest is None or key < nearest[0]:
            nearest = (key, opinion, side)
    for reach, total in sums.items():
        value = _clipped(total, 2.0)
        cues["v:" + reach] = value
        cues[f"w:{reach}{round(value * 2)}"] = 1.0
    for reach in ("clause", "free"):
        if reach not in sums:
            cues["no:" + reach] = 1.0
    if nearest is not None:
        (away_, between, distance), opinion, side = nearest
        sign = "+" if opinion.score > 0 else "-"
        step = bisect_left(_STEPS, distance)
        cues[f"n:{side}{sign}{step}{min(between, 2)}{int(away_)}"] = 1.0
        cues[f"n:{sign}{scene.words[opinion.last - 1]}"] = 1.0


def _shape(cues: Cues, view: View, place: Place) -> None:
    """How many aspects and clauses there are, how they are joined, and which this is."""
    clause = view.clauses[place.clause]
    following = place.clause + 1
    link = view.clauses[following].link if following < len(view.clauses) else ""
    beside = sum(clause.first <= a < clause.last for a, _ in (*place.before, *place.after))
    for cue in (
        f"k:{min(len(place.before) + len(place.after), 5)}",
        f"k:{min(len(place.before), 3)}<>{min(len(place.after), 3)}",
        f"k:beside{beside}",
        f"link:{clause.link}",
        f"link:>{link}",
        f"link:{clause.link}>{link}",
        f"clause:{min(place.clause, 3)}/{min(len(view.clauses), 4)}",
    ):
        cues[cue] = 1.0


def _clipped(value: float, limit: float) -> float:
    return max(-limit, min(limit, value))


def zone_words(view: View, start: int, end: int, others: Sequence[Span]) -> list[tuple[str, int]]:
    """The words and word pairs around an aspect, and the opinions' scores, each with its zone."""
    if not view.tokens or end <= start:
        return []
    scene = scene_of(view)
    place = place_of(view, start, end, others)
    words, size = scene.words, len(scene.words)
    first, last = place.first, place.last
    passed = _aspects_between(size, place)
    zones = [0] * size
    placed: list[tuple[str, int]] = []
    for index in range(size):
        if first <= index < last:
            continue
        side, distance = (0, first - index) if index < first else (1, index - last + 1)
        away = min(2, abs(scene.clause_of[index] - place.clause))
        step = bisect_left(_ZONE_STEPS, distance)
        zone = zones[index] = side * _PER_SIDE + step * 9 + passed[index] * 3 + away
        placed.append((words[index], zone))
        if index + 1 < size and index + 1 != first:
            placed.append((f"{words[index]} {words[index + 1]}", zone))
    for opinion in view.opinions:
        if not first <= opinion.first < last:
            placed.append((f"o:{round(opinion.score * 2)}", zones[opinion.first]))
    placed.append(("h:" + words[last - 1], _HEAD_ZONE))
    placed.append((f"k:{min(len(place.before) + len(place.after), 4)}", _COMPANY_ZONE))
    return placed


def _aspects_between(size: int, place: Place) -> list[int]:
    """For each token how many aspects (at most two) begin between it and this one."""
    passed = [0] * size
    for begin, _ in place.before:
        for index in range(begin):
            passed[index] += 1
    for begin, _ in place.after:
        for index in range(begin + 1, size):
            passed[index] += 1
    return [min(2, count) for count in passed]


def text_cues(view: View) -> Cues:
    """The cues of a whole text: runs of one to three words, in Korean also of characters."""
    cues: Cues = {}
    before = previous = ""
    for word in watched((*scene_of(view).words, "")):
        cues["1" + word] = cues[f"2{previous} {word}"] = 1.0
        cues[f"3{before} {previous} {word}"] = 1.0
        before, previous = previous, word
    if view.lang == "ko":
        # Reviews are typed in haste: characters see through spelling and missing spaces.
        text = _RUN.sub(r"\1\1", f" {view.text[:_CHARACTERS].lower()} ")
        for size in (2, 3, 4, 5):
            for index in range(len(text) - size + 1):
                cues["#" + text[index : index + size]] = 1.0
    total = sum(opinion.score for opinion in view.opinions)
    if view.opinions:
        cues["v:sum"] = _clipped(total, 3.0)
        cues["v:last"] = view.opinions[-1].score
        cues[f"w:sum{round(_clipped(total, 2.0) * 2)}"] = 1.0
    else:
        cues["no:opinion"] = 1.0
    return cues
