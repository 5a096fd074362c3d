"""No text may break the embedded analyzer: `python -m benchmarks.every_sentence DATA`.

Every text of every file below DATA that `absa data` can read, through the three agents of Stage 1;
what they say must fit the schemas that models are held to. Ends with 1 if anything does not.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path

from absa.data import BadLine, DataError, read_samples
from absa.offline import OfflineAnalyst
from absa.schemas.answers import Answer, AteAnswer, AtsaAnswer, ValidatorAnswer, read_answer

ROLES: dict[str, type[Answer]] = {
    "ate": AteAnswer,
    "atsa": AtsaAnswer,
    "validator": ValidatorAnswer,
}


def faults(
    analyst: OfflineAnalyst, text: str, lang: str | None, domain: str | None = None
) -> list[str]:
    """What is wrong with what is said about a text."""
    found = []
    seen = {"text": text, "lang": lang, "domain": domain}
    for role, answer in ROLES.items():
        try:
            _, notes = read_answer(answer, analyst.answer(role, seen))
        except Exception as error:  # that is what is looked for
            notes = [f"{type(error).__name__}: {error}"]
        found += [f"{role}: {note}" for note in notes]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with data files, at any depth")
    folder: Path = parser.parse_args().data
    analyst, texts, wrong = OfflineAnalyst(), Counter[str](), 0
    start = time.perf_counter()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        try:
            for sample in read_samples(path):
                if isinstance(sample, BadLine):
                    continue
                texts[str(path.relative_to(folder))] += 1
                for fault in faults(analyst, sample.text, sample.lang, sample.domain):
                    wrong += 1
                    print(f"{path}: {sample.uid}: {fault}: {sample.text!r}")
        except DataError as error:
            print(f"left out: {error}")
    seconds = round(time.perf_counter() - start)
    print(json.dumps({"texts": texts, "all": texts.total(), "faults": wrong, "seconds": seconds}))
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
