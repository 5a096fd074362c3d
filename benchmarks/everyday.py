"""How the embedded analyzer reads everyday sentences: `python -m benchmarks.everyday [FILE ...]`.

For each file (by default the development halves) one run with the default configuration and one
with the gold aspects given, through `absa run`: F1 of terms and of (term, polarity) before and
after the debate, polarity of given aspects, labels of whole texts, calibration error. `--errors`
lists what was read wrong. The test halves are for a reported number, looked at once.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from absa.nodes.language import language
from benchmarks.offline_quality import Json, calibration_error, judged, lines, quality, run

FOLDER = Path(__file__).parent / "data" / "everyday"
LANGUAGES = ("ko", "en")


def percent(rate: Json) -> float:
    return round(100 * (rate["rate"] or 0.0), 1)


def measured(data: Path, tmp: Path) -> Json:
    run(data, tmp / "free")
    run(data, tmp / "given", "--given-aspects")
    free, given = quality(tmp / "free"), quality(tmp / "given")
    matched = given["final"]["polarity_of_matched"]["strict"]
    return {
        "texts": free["samples"],
        "term_f1": percent(free["final"]["aspect"]["strict"]["f1"]),
        "pair_f1_stage1": percent(free["stage1"]["pair"]["strict"]["f1"]),
        "pair_f1": percent(free["final"]["pair"]["strict"]["f1"]),
        "net_gain_tuples": free["changes"]["tuples"]["net_gain"]["numerator"],
        "given_polarity": percent(matched["accuracy"]),
        "given_macro_f1": round(100 * matched["macro_f1"], 1),
        "label": percent(free["final"]["label"]["accuracy"]),
        "ece": calibration_error(list(judged(data, tmp / "free"))),
    }


def pairs(aspects: list[Json], term: str, lang: str) -> set[tuple[str, str]]:
    key = language(lang).key
    return {(key(a[term]), a["polarity"]) for a in aspects if a[term] and not a.get("is_implicit")}


def show_errors(data: Path, tmp: Path) -> None:
    gold = {row["uid"]: row for row in lines(data)}
    given = {o["uid"]: o["final_result"] for o in lines(tmp / "given" / "outputs.jsonl")}
    for output in lines(tmp / "free" / "outputs.jsonl"):
        row, final = gold[output["uid"]], output["final_result"]
        wanted = pairs(row["aspects"], "term", row["lang"])
        free = pairs(final["final_aspects"], "aspect_term", row["lang"])
        turned = wanted ^ pairs(given[row["uid"]]["final_aspects"], "aspect_term", row["lang"])
        notes = {
            "missed": wanted - free,
            "extra": free - wanted,
            "given": turned - wanted,
            "label": final["label"] != row["label"] and f"{final['label']}, not {row['label']}",
        }
        if any(notes.values()):
            shown = "; ".join(f"{what}: {note}" for what, note in notes.items() if note)
            print(f"{row['text']}\n    {shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = [FOLDER / f"{lang}.dev.jsonl" for lang in LANGUAGES]
    parser.add_argument("files", type=Path, nargs="*", default=default)
    parser.add_argument("--errors", action="store_true", help="list what was read wrong")
    options = parser.parse_args()
    for data in options.files:
        with tempfile.TemporaryDirectory() as name:
            print(data.name, json.dumps(measured(data, Path(name))))
            if options.errors:
                show_errors(data, Path(name))


if __name__ == "__main__":
    main()
