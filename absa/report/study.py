"""Writes a study as one page: the verdict first, then the numbers behind it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from absa.files import replacing
from absa.report import figures, png
from absa.report.figures import CostPoint, Interval, cost_plot, intervals, standalone
from absa.report.markup import (
    Markup,
    asset,
    card,
    document,
    el,
    items,
    quiet,
    scroll,
    table,
    tile,
)
from absa.report.study_numbers import SMALLEST_GROUP, Case, StudyNumbers, read_study, shown

_SHOWN_CASES = 10
# All groups are drawn on one scale.
_GROUP_LIMITS = (0.0, 100.0)
_SIGNS = {"positive": "+", "negative": "−", "neutral": "○", "mixed": "±"}

# The headline for each verdict. {debate} is the name of the debate's configuration.
_HEADLINES = {
    "helps": "{debate} helps: it is better than one call, and better than a vote of as many calls.",
    "hurts": "{debate} hurts.",
    "no_difference": "No difference is shown between {debate} and one call, or a vote of calls.",
    "cannot_say": "The study cannot say whether {debate} is worth its calls.",
}
_AGAINST = {
    "helps": "better",
    "hurts": "worse",
    "better": "better, but any other use of the calls may be too",
    "no_difference": "no difference shown",
    "cannot_say": "not decided",
}
_GROUPS = {
    ("aspects", "explicit"): "All aspects are named",
    ("aspects", "implicit"): "Some aspects are not named",
    ("aspects", "none"): "No aspect",
    ("polarities", "conflict"): "Positive and negative in one text",
    ("polarities", "no_conflict"): "Not both polarities",
    ("lang", "ko"): "Korean",
    ("lang", "en"): "English",
}
_SCORE = (
    "A pair is an aspect with its polarity. It is right if the gold has exactly this pair. The "
    "score (F1) is 100 if the result has all pairs of the gold and no others; a point is a "
    "hundredth."
)


class WrittenStudy(NamedTuple):
    """The written page and figures."""

    path: Path
    # The SVG files, and the PNG files beside them.
    figures: list[Path]
    png: list[Path]
    configurations: int
    samples: int
    # Why PNG files are missing, or what they lack.
    problem: str | None


def write_study(directory: Path, path: Path) -> WrittenStudy:
    """Write the page of a study, and its figures beside it.

    Raises:
        NoRun: There is no study, or one of its runs is missing or damaged.
        StorageError: A file cannot be written.
    """
    study = read_study(directory)
    drawn = _figures(study)
    with replacing(path) as file:
        file.write(_page(study, drawn).encode("utf-8", "replace"))
    folder = path.with_name(f"{path.stem}_figures")
    folder.mkdir(exist_ok=True)
    written, pictures = [], []
    has_png = png.is_available()
    for figure in drawn:
        svg = standalone(figure.alone or figure.wide)
        written.append(_write(folder / f"{figure.name}.svg", svg.encode()))
        if has_png:
            pictures.append(_write(folder / f"{figure.name}.png", png.png(svg)))
    problem = png.HINT if not has_png else None if png.has_font() else png.NO_FONT
    configurations = len(study.document["configurations"])
    return WrittenStudy(path, written, pictures, configurations, len(study.cases), problem)


def _write(path: Path, content: bytes) -> Path:
    with replacing(path) as file:
        file.write(content)
    return path


class _Figure(NamedTuple):
    name: str
    wide: Markup
    narrow: Markup
    # What the file has, if it differs from the page.
    alone: Markup | None = None

    def inline(self) -> Markup:
        """Both widths. The style sheet shows the one that fits."""
        return el("div", el("div", self.wide, class_="wide"), el("div", self.narrow, class_="slim"))


def _figures(study: StudyNumbers) -> list[_Figure]:
    points = _points(study)
    drawn = []
    for role, axis in (("single", "points over one call"), ("vote", "points over the vote")):
        if rows := _over(study, role):
            drawn.append(_figure(f"over_{role}", partial(intervals, rows, axis=axis)))
    draw = partial(cost_plot, points, axis="calls per text", title="Score by calls per text")
    drawn.append(_figure("cost", draw)._replace(alone=draw(figures.WIDE, has_names=True)))
    for kind, name, rows in _breakdown(study):
        draw = partial(intervals, rows, axis="score", limits=_GROUP_LIMITS, from_zero=False)
        drawn.append(_figure(f"group_{kind}_{_slug(name)}", draw))
    return drawn


def _figure(name: str, draw: Callable[[int], Markup]) -> _Figure:
    return _Figure(name, draw(figures.WIDE), draw(figures.NARROW))


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name) or "group"


def _over(study: StudyNumbers, role: str) -> list[Interval]:
    """The difference of each configuration to a baseline, or to a vote with equal calls."""
    baseline = study.roles.get(role)
    if baseline not in study.names:
        return []
    equal = study.document.get("cost_line", {}).get("equal_calls", [])
    if role == "vote" and equal:
        order = {name: n for n, name in enumerate(study.names)}
        # For a single call, the vote with equal calls is the call itself.
        several = [one for one in equal if one["calls"] > 1.01]
        rows = [shown(one["name"], one["difference"], one["p_holm"]) for one in several]
        return sorted(rows, key=lambda row: order.get(row.name, len(order)))
    return study.against(str(baseline))


def _points(study: StudyNumbers) -> list[CostPoint]:
    line = {p["name"]: p for p in study.document.get("cost_line", {}).get("points", [])}
    points = []
    for one in study.document["configurations"]:
        score, each = one["scores"]["pair_strict_f1"], one["cost"]["per_sample"]
        if score is None or each["calls"] is None:
            continue
        calls = line.get(one["name"], each)["calls"]
        value, low, high = (100 * score[part] for part in ("value", "low", "high"))
        points.append(CostPoint(one["name"], calls, value, low, high, False))
    return [p._replace(is_on_front=not any(_surpasses(o, p) for o in points)) for p in points]


def _surpasses(one: CostPoint, other: CostPoint) -> bool:
    as_good = one.cost <= other.cost and one.value >= other.value
    return as_good and (one.cost, one.value) != (other.cost, other.value)


def _breakdown(study: StudyNumbers) -> Iterator[tuple[str, str, list[Interval]]]:
    for kind, groups in study.groups.items():
        large = {
            name: at
            for name, at in groups.items()
            if len(at) >= SMALLEST_GROUP
            and any(term for n in at for term, _ in study.cases[n].gold)
        }
        if len(large) > 1:
            for name, places in sorted(large.items(), key=lambda item: -len(item[1])):
                yield kind, name, study.group_scores(places)


# The page ---------------------------------------------------------------------------------------


def _page(study: StudyNumbers, drawn: Sequence[_Figure]) -> str:
    by_name = {figure.name: figure for figure in drawn}
    main = el(
        "main",
        _lead(study),
        _differences(study, by_name),
        _cost(study, by_name["cost"]),
        _groups(study, by_name),
        _cases(study),
        card(
            "What to keep in mind",
            "What the numbers do and do not say.",
            items(_reservations(study), "short-list spaced"),
        ),
        class_="study",
    )
    return document(
        f"absa study: {study.path.resolve().name}",
        asset("page.css") + asset("figures.css") + asset("study.css"),
        el("body", main),
    )


def _lead(study: StudyNumbers) -> Markup:
    verdict, debate = study.document["verdict"], str(study.roles["debate"])
    headline = _HEADLINES[verdict["word"]].format(debate=f"the debate ({debate})")
    headline = headline[:1].upper() + headline[1:]
    lines = [
        [el("b", title), f" {_AGAINST[verdict[role]]}", _numbers(study, role)]
        for role, title in (("single", "Against one call:"), ("vote", "Against the vote:"))
        if study.roles.get(role)
    ]
    own = study.configuration(debate)
    score, each = own["scores"]["pair_strict_f1"], own["cost"]["per_sample"]
    least = _least(study)
    tiles = [
        tile("Texts compared", f"{len(study.cases):,}", ""),
        tile(f"Score of {debate}", f"{100 * score['value']:.1f}", _range(score)),
        tile("Calls per text", f"{each['calls']:.3g}", f"{_dollars(each)} per text"),
        tile("Smallest difference it could show", f"{least:.1f}" if least else "–", "points"),
    ]
    return el(
        "header",
        quiet(f"Study · {study.path.resolve().name}"),
        el("h1", headline, class_=f"headline-{verdict['word']}"),
        items(lines, "against"),
        el("div", tiles, class_="tiles"),
        class_="title lead",
    )


def _range(score: Mapping[str, float]) -> str:
    return f"95 % interval {100 * score['low']:.1f} to {100 * score['high']:.1f}"


def _dollars(each: Mapping[str, Any]) -> str:
    cost = each["cost_usd"]
    return "cost not known" if cost is None else f"${cost:.5f}" if cost else "$0"


def _numbers(study: StudyNumbers, role: str) -> str:
    compared = next(c for c in study.document["comparisons"] if c["other"] == study.roles[role])
    difference = compared["differences"]["pair_strict_f1"]
    row = shown("", difference, compared["p_holm"])
    return f": {row.words()} points over {study.roles[role]}"


def _least(study: StudyNumbers) -> float | None:
    """The smallest difference, in points, that the comparisons of the verdict can show."""
    rivals = {study.roles.get("single"), study.roles.get("vote")}
    smallest = [
        c["smallest_shown"]
        for c in study.document["comparisons"]
        if c["other"] in rivals and c["smallest_shown"] is not None
    ]
    return 100 * max(smallest) if smallest else None


def _differences(study: StudyNumbers, drawn: Mapping[str, _Figure]) -> Markup:
    vote = study.roles.get("vote")
    is_equal = bool(study.document.get("cost_line", {}).get("equal_calls"))
    if vote in study.names:
        calls = study.configuration(str(vote))["cost"]["per_sample"]["calls"]
        about_vote = (
            "Over a vote that makes as many calls as the configuration itself"
            if is_equal
            else f"Over {vote}, which makes {calls:.3g} calls per text"
        )
    parts = []
    for name, title in (
        ("over_single", f"Over one call ({study.roles.get('single')})"),
        ("over_vote", about_vote if vote in study.names else ""),
    ):
        if name in drawn:
            parts += [el("h3", title), drawn[name].inline()]
    return card(
        "Each configuration against the baselines",
        "Right of zero the configuration is better, left of zero the baseline. The line is the "
        "95 % interval. Coloured: significant, also after correction for the number of "
        f"comparisons. {_SCORE}",
        *(parts or [quiet("The study has neither a single call nor a vote.")]),
    )


def _with_minus(sentence: str) -> str:
    """The sentence with the signs of the figures beside it."""
    return re.sub(r"(?<![\w.-])-(?=\d)", "−", re.sub(r"[+-]0\.0\b", "0.0", sentence))


def _cost(study: StudyNumbers, figure: _Figure) -> Markup:
    points = _points(study)
    rows = []
    for number, point in enumerate(points, 1):
        each = study.configuration(point.name)["cost"]["per_sample"]
        tokens = [each["prompt_tokens"], each["completion_tokens"]]
        rows.append(
            el(
                "tr",
                el("td", el("span", number, class_="key good" if point.is_on_front else "key")),
                el("th", point.name, scope="row"),
                el("td", f"{point.value:.1f}"),
                el("td", f"{point.cost:.3g}"),
                el("td", "–" if None in tokens else f"{sum(tokens):,.0f}"),
                el("td", _dollars(each)),
            )
        )
    heads = ("", "Configuration", "Score", "Calls", "Tokens", "Cost")
    sentences = study.document.get("cost_line", {}).get("sentences", [])
    return card(
        "Quality against cost",
        "Higher is better, further left is cheaper. The dashed line is the Pareto front: no other "
        "configuration has a higher score at the same or a lower number of calls.",
        figure.inline(),
        scroll(table(heads, rows, "counts costs")),
        items(map(_with_minus, sentences), "short-list spaced"),
    )


def _groups(study: StudyNumbers, drawn: Mapping[str, _Figure]) -> Markup | None:
    parts = [
        el(
            "figure",
            el(
                "figcaption",
                el("b", _GROUPS.get((kind, name), name)),
                el("span", f" {len(study.groups[kind][name]):,} texts", class_="quiet"),
            ),
            drawn[f"group_{kind}_{_slug(name)}"].narrow,
        )
        for kind, name, _ in _breakdown(study)
    ]
    if not parts:
        return None
    return card(
        "By kind of text",
        f"The score of each configuration by kind of text. Groups of fewer than {SMALLEST_GROUP} "
        "texts, or without a named aspect, are left out. Small groups have wide intervals, and "
        "nothing here is corrected for the number of groups.",
        el("div", parts, class_="multiples"),
    )


def _cases(study: StudyNumbers) -> Markup:
    debate, single = str(study.roles["debate"]), study.roles.get("single")
    differing = [case for case in study.cases if case.differs]
    kinds: list[tuple[str, list[Case]]] = []
    if single in study.names:
        won = [c for c in differing if c.is_right[debate] and not c.is_right[single]]
        lost = [c for c in differing if c.is_right[single] and not c.is_right[debate]]
        kinds = [(f"Only {debate} is right", won), (f"Only {single} is right", lost)]
        differing = [c for c in differing if c not in won and c not in lost]
    kinds.append(("Other differences", differing))
    parts = []
    for title, cases in kinds:
        if not cases:
            continue
        left = len(cases) - _SHOWN_CASES
        parts += [
            el("h3", title, el("small", f"{len(cases):,} texts")),
            [_case(study, case) for case in cases[:_SHOWN_CASES]],
            quiet(f"… and {left:,} more") if left > 0 else None,
        ]
    return card(
        "Texts where configurations differ",
        [
            f"{len([c for c in study.cases if c.differs]):,} of {len(study.cases):,} texts. ",
            el("code", f"absa view {study.path.name}"),
            " shows all of them with the whole debate.",
        ],
        *(parts or [el("p", "All configurations have the same result for every text.")]),
    )


def _case(study: StudyNumbers, case: Case) -> Markup:
    rows = [("gold", case.gold, None)] + [
        (name, case.tuples[name], case.is_right[name]) for name in study.names
    ]
    marks = {True: "✓", False: "✕", None: None}
    cells = [
        el(
            "tr",
            el("th", name, scope="row"),
            el("td", _pairs(pairs, case.lang)),
            el("td", marks[is_right], class_="mark"),
        )
        for name, pairs, is_right in rows
    ]
    return el(
        "details",
        el("summary", case.text, lang=_lang(case.lang)),
        el("table", el("tbody", cells), class_="case"),
    )


def _lang(lang: str) -> str | None:
    return lang if lang.isalpha() else None


def _pairs(pairs: Sequence[tuple[str | None, str]], lang: str) -> Markup:
    if not pairs:
        return el("span", "none", class_="quiet")
    parts = []
    for term, polarity in pairs:
        sign = el("span", _SIGNS.get(polarity, "?"), class_="sign", aria_hidden="true")
        kind = polarity if polarity in _SIGNS else "other"
        chip = el("span", sign, polarity, class_=f"chip {kind}")
        name = el("span", term or "(not named)", lang=_lang(lang))
        parts.append(el("span", name, " ", chip, class_="pair"))
    return el("span", parts, class_="pairs")


def _reservations(study: StudyNumbers) -> Iterator[str]:
    debate = str(study.roles["debate"])
    least, verdict = _least(study), study.document["verdict"]
    if least is not None:
        line = (
            f"With {len(study.cases):,} texts, a true difference of {least:.1f} points would be "
            "shown with a probability of 80 %."
        )
        if verdict["word"] == "no_difference":
            line += " A smaller one may exist: no difference shown does not mean equal."
        yield line
    settings = study.configuration(debate)["settings"] or {}
    backend = settings.get("backend", {})
    match backend.get("kind"):
        case "offline":
            yield (
                "The embedded analyzer played every role. Its roles share one analysis, so their "
                "debate says little about a debate between language models."
            )
        case "replay":
            yield "The answers are those of a recorded run. No model was called for this study."
        case _:
            yield (
                f"These results are for {backend.get('model') or 'this model'}, these prompts and "
                "these texts. Another model may give other results."
            )
    for note in dict.fromkeys((*study.document["notes"], *verdict.get("notes", ()))):
        # A note that begins with the name of a configuration keeps it as it is.
        is_named = note.partition(":")[0] in study.names
        yield _with_minus(f"{note if is_named else note[:1].upper() + note[1:]}.")
    if left := study.document["samples"]["left_out"]:
        yield f"{left:,} texts were not analyzed by every configuration. They are not counted."
    yield (
        "The intervals are from a bootstrap over the texts. They do not cover differences between "
        "annotators, prompts or kinds of text."
    )
