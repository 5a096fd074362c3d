"""Counts of a person's decisions, and the agreement of the run with the person."""

from __future__ import annotations

from collections import Counter

from pydantic import BaseModel

from absa.data import Share
from absa.nodes.human_answer import counts
from absa.nodes.language import language
from absa.review.queue import Queue
from absa.schemas.human import HumanCounts
from absa.schemas.output import FinalOutput


class Summary(BaseModel):
    """Counts over a run's reviews. Agreement covers only finished texts."""

    directory: str
    texts: int
    pending: int
    reviewed: int
    begun: int
    outdated: list[str]
    reviewers: dict[str, int]
    decisions: HumanCounts
    # Texts whose tuples, or whose label, the person did not change.
    same_tuples: Share
    same_label: Share
    # The shares of the run's tuples that the person confirmed, and the other way round.
    precision: Share
    recall: Share


def summarise(queue: Queue) -> Summary:
    """Count."""
    did: Counter[str] = Counter()
    reviewers: Counter[str] = Counter()
    same: Counter[str] = Counter()
    for item, review in queue.reviewed():
        did.update(counts(review.decisions).model_dump())
        reviewers[review.reviewer or "unknown"] += 1
        after = item.reviewed(review)
        run, person = _tuples(item.output), _tuples(after)
        same["texts"] += 1
        same["tuples"] += run == person
        same["label"] += item.output.final_result.label == after.final_result.label
        same["both"] += len(run & person)
        same["run"] += len(run)
        same["person"] += len(person)
    unfinished = [i for i in queue.items if not queue.finished(i)]
    return Summary(
        directory=str(queue.directory),
        texts=len(queue.items),
        pending=sum(bool(i.reasons) for i in unfinished),
        reviewed=same["texts"],
        begun=sum(queue.review(i) is not None for i in unfinished),
        outdated=queue.outdated,
        reviewers=dict(reviewers),
        decisions=HumanCounts(**did),
        same_tuples=Share(numerator=same["tuples"], denominator=same["texts"]),
        same_label=Share(numerator=same["label"], denominator=same["texts"]),
        precision=Share(numerator=same["both"], denominator=same["run"]),
        recall=Share(numerator=same["both"], denominator=same["person"]),
    )


def _tuples(output: FinalOutput) -> set[tuple[str, str]]:
    key = language(output.lang).key
    return {(key(t.name), t.polarity) for t in output.final_result.final_tuples}
