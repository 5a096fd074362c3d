"""The first section about a run without gold: what people like and dislike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from absa.insights import Insights, Quote, Topic
from absa.report.markup import Markup, card, el, quiet, row, scroll, table
from absa.schemas.answers import POLARITIES
from absa.show import NOT_NAMED

TOPICS = 20
_BEST = 5
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 760, 160, 40, 22
TREND = "Upwards: positive judgements. Downwards: negative. A bar links to the texts of its period."
ABOUT = (
    "Each text counts once for a topic and polarity. A topic is a category, or an aspect with its "
    "synonyms. A number links to its texts."
)


def filter_code(topic: Topic, polarity: str) -> str:
    """The name of a topic with a polarity in the filter of the samples."""
    return f"{topic.name}: {polarity}"


def filters(insights: Insights, by: str | None) -> Iterable[tuple[int, str, str]]:
    """The number of a text, a key of its row in the list of samples, and a value to filter by."""
    trend, column = insights.trend(), by or insights.comparable()
    comparison = insights.by(column) if column else None
    for topic in shown_topics(insights, comparison):
        for polarity, numbers in topic.texts.items():
            yield from ((number, "k", filter_code(topic, polarity)) for number in numbers)
    if comparison and column:
        groups = insights.values(column)
        for value in (each["value"] for each in comparison["values"]):
            yield from ((number, "v", f"{column}: {value}") for number in groups[value])
    if trend:
        for period, numbers in insights.periods(trend["column"]).items():
            yield from ((number, "p", period) for number in numbers)


def shown_topics(insights: Insights, comparison: Mapping[str, Any] | None) -> list[Topic]:
    """The topics on the page: the most frequent, the most liked and disliked, the compared."""
    compared = {
        name
        for value in (comparison["values"] if comparison else ())
        for kind in ("liked", "disliked")
        for name, _ in value[kind]
    }
    every = [
        *insights.ranked()[:TOPICS],
        *_best(insights, "negative"),
        *_best(insights, "positive"),
        *(topic for topic in insights.ranked() if topic.name in compared),
    ]
    return list({id(topic): topic for topic in every}.values())


def people(insights: Insights, run: int, by: str | None) -> Markup:
    """The section."""
    trend, column = insights.trend(), by or insights.comparable()
    return card(
        "What people say",
        None,
        el("p", _most(insights), class_="verdict-line"),
        el("p", _labels(insights), class_="about"),
        el(
            "div",
            _list(insights, run, "negative", "What people complain about"),
            _list(insights, run, "positive", "What people like"),
            class_="said",
        ),
        el("h3", "All topics"),
        quiet(ABOUT),
        _topics(insights, run),
        [
            el("h3", f"Over time, by {trend['column']}"),
            quiet(TREND),
            scroll(_trend(trend["buckets"], run)),
        ]
        if trend
        else None,
        _comparison(insights.by(column), run) if column else None,
        class_="card people",
    )


def _best(insights: Insights, polarity: str) -> list[Topic]:
    return insights.ranked(polarity)[:_BEST]


def _most(insights: Insights) -> str:
    parts = []
    for polarity, words in (("negative", "complain most about"), ("positive", "like most")):
        names = [
            f"{_readable(t.name)} ({t.count(polarity):,})" for t in _best(insights, polarity)[:3]
        ]
        if names:
            parts.append(f"People {words} {', '.join(names)}.")
    return " ".join(parts)


def _labels(insights: Insights) -> str:
    texts = len(insights.uids)
    labels = ", ".join(
        f"{_short_percent(insights.labels[p], texts)} {p}"
        for p in (*POLARITIES, "mixed")
        if insights.labels[p]
    )
    return f"{_texts(texts)}: {labels}."


def _short_percent(part: int, whole: int) -> str:
    """A percentage, with a decimal only below 1."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f} %" if 0 < share < 1 else f"{share:.0f} %"


def _readable(name: str) -> str:
    """The name of a topic without the separators of category names."""
    return name.replace("_", " ").replace("#", " ")


def _list(insights: Insights, run: int, polarity: str, title: str) -> Markup:
    topics = _best(insights, polarity)
    texts = len(insights.uids)
    longest = max((topic.count(polarity) for topic in topics), default=1)
    items = [
        el(
            "li",
            el(
                "a",
                el("span", _readable(topic.name), class_="said-name"),
                el(
                    "span",
                    _texts(topic.count(polarity)),
                    f" · {_short_percent(topic.count(polarity), texts)}",
                    class_="said-count",
                ),
                el(
                    "svg",
                    el("rect", class_="track", width="100%", height="8", rx="4"),
                    el(
                        "rect",
                        class_=polarity,
                        width=f"{100 * topic.count(polarity) / longest:.1f}%",
                        height="8",
                        rx="4",
                    ),
                    class_="said-bar",
                    aria_hidden="true",
                ),
                href=_href(topic, run, polarity),
                class_="said-head",
            ),
            [
                el("q", el("a", _emphasized(each), href=f"#{quote(each.uid, safe='')}/r{run}"))
                for each in topic.quotes.get(polarity, [])[:2]
            ],
        )
        for topic in topics
    ]
    content = el("ol", items) if items else quiet("Nothing.")
    return el("div", el("h3", title), content, class_=f"part {polarity}")


def _emphasized(shown: Quote) -> list[object]:
    before, evidence, after = shown.words.partition(shown.evidence)
    return [before, el("b", evidence) if evidence else None, after]


def _href(topic: Topic, run: int, polarity: str) -> str:
    return _link(run, topic=filter_code(topic, polarity))


def _link(run: int, **wanted: str) -> str:
    return "#/samples?" + urlencode({"run": run, **wanted})


def _texts(number: int) -> str:
    return f"{number:,} text" if number == 1 else f"{number:,} texts"


def _topics(insights: Insights, run: int) -> Markup:
    heads = ("Topic", "Positive", "Negative", "Neutral", "", "Negative share", "All")
    judged = sum(topic.total for topic in insights.topics.values())
    rows = [_row(topic, run, judged) for topic in insights.ranked()[:TOPICS]]
    more = len(insights.topics) - len(rows)
    hint = quiet(f"and {more:,} more topics: absa insights --json") if more > 0 else None
    return scroll(table(heads, rows, "counts topics"), hint)


def _row(topic: Topic, run: int, judged: int) -> Markup:
    others = [n for n, _ in topic.names.most_common(5) if n != topic.name]
    name = _readable(topic.name) if topic.name != NOT_NAMED else "the text as a whole"
    counts = [
        el("a", f"{topic.count(p):,}", href=_href(topic, run, p)) if topic.count(p) else "0"
        for p in POLARITIES
    ]
    shares = [
        _short_percent(topic.count("negative"), topic.total),
        _short_percent(topic.total, judged),
    ]
    names = el("small", ", ".join(others)) if others else None
    return row((name, names), [*counts, _split(topic), *shares])


def _split(topic: Topic) -> Markup:
    parts, at = [], 0.0
    for polarity in ("positive", "neutral", "negative"):
        share = 100 * topic.count(polarity) / topic.total
        place = {"x": f"{at:.1f}%", "width": f"{share:.1f}%", "height": "10"}
        parts.append(el("rect", class_=polarity, **place))
        at += share
    return el("svg", parts, class_="split", aria_hidden="true")


def _trend(buckets: list[dict[str, Any]], run: int) -> Markup:
    """Bars over time: positive upwards, negative downwards."""
    highest = max((max(b["positive"], b["negative"]) for b in buckets), default=1) or 1
    step = (_WIDTH - _LEFT) / max(1, len(buckets))
    middle = (_HEIGHT - _BOTTOM) / 2
    every = max(1, -(-len(buckets) // 12))
    marks = []
    for n, b in enumerate(buckets):
        x = _LEFT + n * step
        title = el(
            "title",
            f"{b['bucket']}: {b['positive']:,} positive, {b['negative']:,} negative "
            f"({_short_percent(b['negative'], sum(b[p] for p in POLARITIES))}) "
            f"in {_texts(b['texts'])}. Complaints: "
            + (
                ", ".join(f"{_readable(name)} {count:,}" for name, count in b["disliked"]) or "none"
            ),
        )
        up, down = (middle * b[p] / highest for p in ("positive", "negative"))
        size = {"x": f"{x + 1:.1f}", "width": f"{max(1.0, step - 2):.1f}"}
        marks.append(
            el(
                "a",
                title,
                el("rect", class_="hit", y="0", height=f"{_HEIGHT - _BOTTOM}", **size),
                el("rect", class_="up", y=f"{middle - up:.1f}", height=f"{up:.1f}", **size),
                el("rect", class_="down", y=f"{middle:.1f}", height=f"{down:.1f}", **size),
                href=_link(run, period=b["bucket"]),
            )
        )
        if n % every == 0:
            at = {"x": f"{x + step / 2:.1f}", "y": str(_HEIGHT - 4), "text_anchor": "middle"}
            marks.append(el("text", b["bucket"], class_="tick", **at))
    scale = [
        el("text", f"{highest:,}", x=str(_LEFT - 6), y=y, text_anchor="end", class_="tick")
        for y in ("10", f"{_HEIGHT - _BOTTOM:.0f}")
    ]
    line = {"x1": str(_LEFT), "x2": str(_WIDTH), "y1": f"{middle}", "y2": f"{middle}"}
    return el(
        "svg",
        scale,
        el("line", class_="grid", **line),
        marks,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        class_="trend",
        role="img",
        aria_label="Positive judgements upwards, negative downwards, over time",
    )


def _comparison(by: Mapping[str, Any], run: int) -> list[Markup]:
    heads = ("Texts", "Positive", "Negative", "Negative share", "Complaints", "Praise")
    groups = {each["value"]: f"{by['column']}: {each['value']}" for each in by["values"]}
    rows = [
        el(
            "tr",
            el("th", _group_link(value["value"], run, groups[value["value"]]), scope="row"),
            [el("td", f"{value[name]:,}") for name in ("texts", "positive", "negative")],
            el("td", _short_percent(value["negative"], sum(value[p] for p in POLARITIES))),
            [
                el(
                    "td",
                    [
                        _group_link(
                            f"{_readable(name)} {count:,}",
                            run,
                            groups[value["value"]],
                            topic=f"{name}: {polarity}",
                        )
                        for name, count in value[kind]
                    ],
                    class_=f"names {polarity}",
                )
                for kind, polarity in (("disliked", "negative"), ("liked", "positive"))
            ],
        )
        for value in by["values"]
    ]
    return [
        el("h3", f"By {by['column']}"),
        scroll(table((by["column"], *heads), rows, "counts compared")),
    ]


def _group_link(words: str, run: int, group: str, **topic: str) -> Markup:
    return el("a", words, href=_link(run, group=group, **topic))
