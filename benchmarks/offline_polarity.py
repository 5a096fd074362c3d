"""Polarity of given aspects and of whole texts by the offline models.

    python -m benchmarks.offline_polarity DATA [--split dev] [--models DIR]

DATA holds ``<split>/<set>.jsonl``. For aspects: accuracy, macro-F1, F1 of each polarity, expected
calibration error (ten bins), with the other aspects known and with none known. For texts: accuracy
where the label is positive or negative; sentences with contradicting aspects count as right if the
answer is one of their polarities.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from absa.nodes.assets import data_dir
from absa.offline.models.folder import ModelFolder
from absa.offline.models.loading import polarity
from absa.offline.models.polarity_model import LABELS, PolarityModel
from absa.offline.text.views import view_of
from training.polarity_model import read_rows

ASPECT_SETS = ("mams", "mabsa_en", "mabsa_ko")
MEASURE_ONLY = ("aste_14res", "aste_14lap")
TEXT_SETS = ("nsmc_raw", "korsemeval", "mabsa_en", "mabsa_ko")


def calibration_error(said: np.ndarray, right: np.ndarray) -> float:
    bins = np.minimum((said * 10).astype(int), 9)
    parts = [bins == number for number in range(10)]
    return sum(
        abs(said[part].mean() - right[part].mean()) * part.mean() for part in parts if part.any()
    )


def f1_scores(answers: np.ndarray, gold: np.ndarray) -> list[float]:
    return [
        2
        * np.sum((answers == label) & (gold == label))
        / max(1, np.sum(answers == label) + np.sum(gold == label))
        for label in range(len(LABELS))
    ]


def report(name: str, said: list[tuple[float, ...]], gold: list[int], seconds: float) -> None:
    table, labels = np.array(said), np.array(gold)
    answers = table.argmax(axis=1)
    each = f1_scores(answers, labels)
    error = calibration_error(table.max(axis=1), answers == labels)
    print(
        f"{name:28} n {len(gold):5}  accuracy {100 * np.mean(answers == labels):5.1f}  "
        f"macro-F1 {100 * np.mean(each):5.1f}  "
        f"(pos {100 * each[0]:.1f} neg {100 * each[1]:.1f} neu {100 * each[2]:.1f})  "
        f"ECE {error:.3f}  {1000 * seconds / len(gold):.2f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--models", type=Path, default=data_dir("resources") / "models")
    parser.add_argument("--measure-only", action="store_true", help="the SemEval sets, too")
    options = parser.parse_args()
    folder = ModelFolder(options.models, trusted=True)
    models = {lang: polarity(folder, lang) for lang in ("en", "ko")}
    extra = MEASURE_ONLY if options.measure_only else ()
    for name in (*ASPECT_SETS, *extra):
        rows = list(read_rows(options.data / options.split / f"{name}.jsonl"))
        views = [view_of(row["text"], row["lang"]) for row in rows]
        for known in (True, False) if name not in extra else (True,):
            said, gold = [], []
            begin = time.process_time()
            for row, view in zip(rows, views, strict=True):
                if row.get("dropped_aspects"):
                    continue
                spans = [(a["from"], a["to"]) for a in row["aspects"] if a["term"]]
                for aspect in row["aspects"]:
                    if aspect["term"]:
                        span = (aspect["from"], aspect["to"])
                        others = [other for other in spans if other != span] if known else ()
                        said.append(models[view.lang].aspect(view, *span, others))
                        gold.append(LABELS.index(aspect["polarity"]))
            elapsed = time.process_time() - begin
            report(f"{name}{'' if known else ', others unknown'}", said, gold, elapsed)
    for name in TEXT_SETS:
        texts(name, list(read_rows(options.data / options.split / f"{name}.jsonl")), models)


def texts(name: str, rows: list[dict], models: dict[str, PolarityModel]) -> None:
    said, accepted = [], []
    views = [view_of(row["text"], row["lang"]) for row in rows]
    begin = time.process_time()
    for row, view in zip(rows, views, strict=True):
        labels = {row["label"]} if "label" in row else {a["polarity"] for a in row["aspects"]}
        if labels and not (name == "nsmc_raw" and labels == {"neutral"}):
            said.append(models[view.lang].text(view))
            accepted.append({LABELS.index(label) for label in labels})
    elapsed = time.process_time() - begin
    table = np.array(said)
    answers = table.argmax(axis=1)
    right = np.array([answer in labels for answer, labels in zip(answers, accepted, strict=True)])
    two = table[:, :2].argmax(axis=1)
    plain = np.array([labels <= {0, 1} for labels in accepted])
    of_two = np.array([answer in labels for answer, labels in zip(two, accepted, strict=True)])
    print(
        f"{name + ', text':28} n {len(right):5}  accuracy {100 * right.mean():5.1f}  "
        f"positive or negative only {100 * of_two[plain].mean():5.1f}  "
        f"ECE {calibration_error(table.max(axis=1), right):.3f}  "
        f"{1000 * elapsed / len(rows):.2f} ms"
    )


if __name__ == "__main__":
    main()
