"""A study as one page: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absa.files import replacing
from absa.report import figures
from absa.report.figures import CostPoint, Interval, cost_plot, intervals, standalone
from absa.report.markup import Markup, el
from absa.report.page import asset, policy
from absa.report.study_numbers import SMALLEST_GROUP, Case, StudyNumbers, read_study, shown

_SHOWN_CASES = 10
# All groups are drawn on one scale.
_GROUP_LIMITS = (0.0, 100.0)
_SIGNS = {"positive": "+", "negative": "−", "neutral": "○", "mixed": "±"}

# Word of the verdict: the headline. {debate} is the configuration in question.
_HEADLINES = {
    "helps": "{debate} helps: it is better than one call, and better than a vote of as many calls.",
    "hurts": "{debate} hurts.",
    "no_difference": "No difference is shown between {debate} and one call, or a vote.",
    "cannot_say": "Whether {debate} is worth its calls cannot be said.",
}
_AGAINST = {
    "helps": "better",
    "hurts": "worse",
    "better": "better, but so may any other use of the calls be",
    "no_difference": "no difference shown",
    "cannot_say": "cannot be said",
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
    "score (F1) is 100 if all pairs of the gold and no others were found; a point is a hundredth."
)


class WrittenStudy(NamedTuple):
    """What was written."""

    path: Path
    figures: list[Path]
    configurations: int
    samples: int


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
    written = []
    for figure in drawn:
        target = folder / f"{figure.file}.svg"
        with replacing(target) as file:
            file.write(standalone(figure.alone or figure.wide).encode())
        written.append(target)
    return WrittenStudy(path, written, len(study.found["configurations"]), len(study.cases))


class _Figure(NamedTuple):
    file: str
    wide: Markup
    narrow: Markup
    # What the file has, if it differs from the page.
    alone: Markup | None = None

    def inline(self) -> Markup:
        """Both widths; the style shows one of them."""
        return el("div", el("div", self.wide, class_="wide"), el("div", self.narrow, class_="slim"))


def _figures(study: StudyNumbers) -> list[_Figure]:
    drawn = []
    for role, axis in (
        ("single", "points over one call"),
        ("vote", "points over the vote"),
    ):
        if rows := _over(study, role):
            drawn.append(_both(f"over_{role}", lambda w, r=rows, a=axis: intervals(r, w, a)))
    points = _points(study)
    title = "Score by calls per text"
    cost = _both("cost", lambda width: cost_plot(points, width, "calls per text", title))
    alone = cost_plot(points, figures.WIDE, "calls per text", title, has_names=True)
    drawn.append(cost._replace(alone=alone))
    for kind, name, rows in _breakdown(study):
        drawn.append(
            _both(
                f"group_{kind}_{_slug(name)}",
                lambda w, r=rows: intervals(r, w, "score", _GROUP_LIMITS, from_zero=False),
            )
        )
    return drawn


def _both(file: str, draw: Any) -> _Figure:
    return _Figure(file, draw(figures.WIDE), draw(figures.NARROW))


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name) or "group"


def _over(study: StudyNumbers, role: str) -> list[Interval]:
    """What each configuration has over a baseline; over a vote of equal calls where known."""
    baseline = study.roles.get(role)
    if baseline not in study.names:
        return []
    equal = study.found.get("cost_line", {}).get("equal_calls", [])
    if role == "vote" and equal:
        order = {name: n for n, name in enumerate(study.names)}
        # One call against a vote of one call is the same call.
        several = [one for one in equal if one["calls"] > 1.01]
        rows = [shown(one["name"], one["difference"], one["p_holm"]) for one in several]
        return sorted(rows, key=lambda row: order.get(row.name, len(order)))
    return study.against(str(baseline))


def _points(study: StudyNumbers) -> list[CostPoint]:
    line = {p["name"]: p for p in study.found.get("cost_line", {}).get("points", [])}
    points = []
    for one in study.found["configurations"]:
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
    style = asset("page.css") + figures.style_sheet() + asset("study.css")
    title = f"absa study: {study.path.resolve().name}"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy([], [style])),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", title),
        el("style", Markup(style)),
    )
    by_file = {figure.file: figure for figure in drawn}
    body = el(
        "body",
        el(
            "main",
            _lead(study),
            _forest(study, by_file),
            _cost(study, by_file["cost"]),
            _multiples(study, by_file),
            _cases(study),
            _keep_in_mind(study),
            class_="study",
        ),
    )
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def _lead(study: StudyNumbers) -> Markup:
    verdict, debate = study.found["verdict"], str(study.roles["debate"])
    headline = _HEADLINES[verdict["word"]].format(debate=debate)
    lines = [
        el("li", el("b", title), f" {_AGAINST[verdict[role]]}", _numbers(study, role))
        for role, title in (("single", "Against one call:"), ("vote", "Against the vote:"))
        if study.roles.get(role)
    ]
    own = study.configuration(debate)
    score, each = own["scores"]["pair_strict_f1"], own["cost"]["per_sample"]
    least = _least(study)
    tiles = [
        ("Texts compared", f"{len(study.cases):,}", ""),
        ("Score of " + debate, f"{100 * score['value']:.1f}", _range(score)),
        ("Calls per text", f"{each['calls']:.3g}", f"{_dollars(each)}"),
        ("Smallest difference it could show", f"{least:.1f}" if least else "–", "points"),
    ]
    return el(
        "header",
        el("p", f"Study · {study.path.resolve().name}", class_="quiet"),
        el("h1", headline, class_=f"headline-{verdict['word']}"),
        el("ul", lines, class_="against"),
        el(
            "div",
            [
                el(
                    "div",
                    el("span", name, class_="tile-name"),
                    el("span", value, class_="tile-value"),
                    el("span", note, class_="tile-note"),
                    class_="tile",
                )
                for name, value, note in tiles
            ],
            class_="tiles",
        ),
        class_="title lead",
    )


def _range(score: Mapping[str, float]) -> str:
    return f"95 % interval {100 * score['low']:.1f} to {100 * score['high']:.1f}"


def _dollars(each: Mapping[str, Any]) -> str:
    cost = each["cost_usd"]
    return "cost not known" if cost is None else f"${cost:.5f}" if cost else "$0"


def _numbers(study: StudyNumbers, role: str) -> str:
    compared = next(c for c in study.found["comparisons"] if c["other"] == study.roles[role])
    difference = compared["differences"]["pair_strict_f1"]
    row = shown("", difference, compared["p_holm"])
    return f": {row.words()} points over {study.roles[role]}"


def _least(study: StudyNumbers) -> float | None:
    """The smallest difference, in points, that the comparisons of the verdict could show."""
    rivals = {study.roles.get("single"), study.roles.get("vote")}
    found = [
        c["smallest_shown"]
        for c in study.found["comparisons"]
        if c["other"] in rivals and c["smallest_shown"] is not None
    ]
    return 100 * max(found) if found else None


def _section(title: str, about: object, *content: object) -> Markup:
    head = el("div", el("h2", title), el("p", about, class_="about"), class_="section-head")
    return el("section", head, *content, class_="card")


def _forest(study: StudyNumbers, drawn: Mapping[str, _Figure]) -> Markup:
    vote = study.roles.get("vote")
    is_equal = bool(study.found.get("cost_line", {}).get("equal_calls"))
    if vote in study.names:
        calls = study.configuration(str(vote))["cost"]["per_sample"]["calls"]
        about_vote = (
            "Over a vote that makes as many calls as the configuration itself"
            if is_equal
            else f"Over {vote}, which makes {calls:.3g} calls per text"
        )
    parts = []
    for file, title in (
        ("over_single", f"Over one call ({study.roles.get('single')})"),
        ("over_vote", about_vote if vote in study.names else ""),
    ):
        if file in drawn:
            parts += [el("h3", title), drawn[file].inline()]
    return _section(
        "Each configuration against the baselines",
        "Points to the right of zero are for the configuration, to the left for the baseline. The "
        "line is the 95 % interval. Coloured: shown, also after correction for the number of "
        f"comparisons. {_SCORE}",
        *(parts or [el("p", "The study has neither a single call nor a vote.", class_="quiet")]),
    )


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
    names = ("", "Configuration", "Score", "Calls", "Tokens", "Cost")
    table = el(
        "table",
        el("thead", el("tr", [el("th", name, scope="col") for name in names])),
        el("tbody", rows),
        class_="counts costs",
    )
    sentences = study.found.get("cost_line", {}).get("sentences", [])
    return _section(
        "Quality against cost",
        "Higher is better, further left is cheaper. The dashed line joins the configurations that "
        "no other one surpasses at the same or a lower number of calls (the Pareto front).",
        figure.inline(),
        el("div", table, class_="scroll"),
        el("ul", [el("li", line) for line in sentences], class_="short-list spaced"),
    )


def _multiples(study: StudyNumbers, drawn: Mapping[str, _Figure]) -> Markup | None:
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
    return _section(
        "Where it differs",
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
            el("p", f"… and {left:,} more", class_="quiet") if left > 0 else None,
        ]
    return _section(
        "Texts where configurations differ",
        [
            f"{len([c for c in study.cases if c.differs]):,} of {len(study.cases):,} texts. ",
            el("code", f"absa view {study.path.name}"),
            " shows all of them with the whole debate.",
        ],
        *(parts or [el("p", "All configurations found the same in every text.")]),
    )


def _case(study: StudyNumbers, case: Case) -> Markup:
    rows = [("gold", case.gold, None)] + [
        (name, case.tuples[name], case.is_right[name]) for name in study.names
    ]
    return el(
        "details",
        el("summary", case.text, lang=case.lang if case.lang.isalpha() else None),
        el(
            "table",
            el(
                "tbody",
                [
                    el(
                        "tr",
                        el("th", name, scope="row"),
                        el("td", _pairs(pairs, case.lang)),
                        el("td", None if right is None else "✓" if right else "✕", class_="mark"),
                    )
                    for name, pairs, right in rows
                ],
            ),
            class_="case",
        ),
    )


def _pairs(pairs: Sequence[tuple[str | None, str]], lang: str) -> Markup:
    if not pairs:
        return el("span", "none", class_="quiet")
    return el(
        "span",
        [
            el(
                "span",
                el("span", term or "(not named)", lang=lang if lang.isalpha() else None),
                " ",
                el(
                    "span",
                    el("span", _SIGNS.get(polarity, "?"), class_="sign", aria_hidden="true"),
                    polarity,
                    class_=f"chip {polarity if polarity in _SIGNS else 'other'}",
                ),
                class_="pair",
            )
            for term, polarity in pairs
        ],
        class_="pairs",
    )


def _keep_in_mind(study: StudyNumbers) -> Markup:
    return _section(
        "What to keep in mind",
        "What the numbers do and do not say.",
        el("ul", [el("li", line) for line in _reservations(study)], class_="short-list spaced"),
    )


def _reservations(study: StudyNumbers) -> Iterator[str]:
    debate = str(study.roles["debate"])
    least, verdict = _least(study), study.found["verdict"]
    if least is not None:
        line = (
            f"With {len(study.cases):,} texts, a true difference of {least:.1f} points would have "
            "been shown four times in five."
        )
        if verdict["word"] == "no_difference":
            line += " A smaller one may exist: no difference shown does not mean equal."
        yield line
    settings = study.configuration(debate)["settings"] or {}
    backend = settings.get("backend", {})
    match backend.get("kind"):
        case "offline":
            yield (
                "The embedded analyser played every role. Its roles think alike, so a debate "
                "between them says little about a debate between language models."
            )
        case "replay":
            yield "The answers were recorded before. No model was called for this study."
        case _:
            yield (
                f"All this holds for {backend.get('model') or 'this model'}, these prompts and "
                "these texts. Another model may behave otherwise."
            )
    for note in dict.fromkeys((*study.found["notes"], *verdict.get("notes", ()))):
        yield f"{note[:1].upper()}{note[1:]}."
    if left := study.found["samples"]["left_out"]:
        yield f"{left:,} texts were not analysed by every configuration and are in no number here."
    yield (
        "The intervals come from drawing the texts again at random, 95 of 100 times. They do not "
        "hold what another choice of texts, annotators or prompts would change."
    )
