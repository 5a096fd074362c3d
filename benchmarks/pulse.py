"""What the debate changes, held against gold: `python -m benchmarks.pulse [FILE ...]`.

For each file (by default the development halves of the everyday sentences) one run with the default
configuration and one with the gold aspects given: the share of texts whose tuples the debate
changed, texts fixed and broken, the net gain with its 95 % interval, F1 of (term, polarity) and
label accuracy before and after, polarity of given aspects before and after, and labels that are the
opposite of all aspects, with and without a risk that says why.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from absa.nodes.polarity import OPPOSITE
from benchmarks.everyday import FOLDER, LANGUAGES, percent
from benchmarks.offline_quality import Json, lines, quality, run


def changed(out: Path) -> list[bool]:
    """For each text whether its tuples changed."""
    found = []
    for output in lines(out / "outputs.jsonl"):
        result = output["final_result"]
        first, last = (
            {(t["aspect_term"], t["polarity"]) for t in result[name]}
            for name in ("stage1_tuples", "final_tuples")
        )
        found.append(first != last)
    return found


def opposite_labels(out: Path) -> Json:
    """Labels that are the opposite of all aspects, by whether a risk gives the reason."""
    found = {"explained": 0, "unexplained": 0}
    for output in lines(out / "outputs.jsonl"):
        result = output["final_result"]
        polarities = {t["polarity"] for t in result["final_tuples"]} - {"neutral"}
        if polarities == {OPPOSITE.get(result["label"])}:
            issues = output["stage1_validator"]["issues"]
            reason = any(issue.startswith("POLARITY_MISMATCH") for issue in issues)
            found["explained" if reason else "unexplained"] += 1
    return found


def measured(data: Path, tmp: Path) -> Json:
    """Everything for one file."""
    run(data, tmp / "free")
    run(data, tmp / "given", "--given-aspects")
    free, given = quality(tmp / "free"), quality(tmp / "given")
    moved, gain = changed(tmp / "free"), free["changes"]["strict"]
    net = gain["net_gain"]

    def stages(scores: Json, *path: str) -> list[float]:
        found = []
        for stage in ("stage1", "final"):
            value = scores[stage]
            for name in path:
                value = value[name]
            found.append(percent(value))
        return found

    return {
        "texts": len(moved),
        "changed_percent": round(100 * sum(moved) / len(moved), 1),
        "fix": gain["fix"]["numerator"],
        "break": gain["break"]["numerator"],
        "net_gain": net["value"],
        "interval95": [net["interval95"]["low"], net["interval95"]["high"]],
        "net_gain_tuples": free["changes"]["tuples"]["net_gain"]["numerator"],
        "pair_f1": stages(free, "pair", "strict", "f1"),
        "label": stages(free, "label", "accuracy"),
        "given_polarity": stages(given, "polarity_of_matched", "strict", "accuracy"),
        "opposite_labels": opposite_labels(tmp / "free"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = [FOLDER / f"{lang}.dev.jsonl" for lang in LANGUAGES]
    parser.add_argument("files", type=Path, nargs="*", default=default)
    for data in parser.parse_args().files:
        with tempfile.TemporaryDirectory() as name:
            print(data.name, json.dumps(measured(data, Path(name))))


if __name__ == "__main__":
    main()
