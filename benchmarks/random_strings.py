"""No string may break the embedded analyzer: `python -m benchmarks.random_strings`.

Random strings of Unicode, half of them with words of reviews in between, through the agents of
Stage 1, whose answers must fit the schemas that models are held to; every tenth through the whole
debate graph, whose output must be read back from its JSON. Ends with 1 if anything does not.
"""

from __future__ import annotations

import argparse
import json
import random
import time

from absa import build_graph, load_settings
from absa.offline import OfflineAnalyst
from absa.schemas.errors import InputError
from absa.schemas.output import FinalOutput
from benchmarks.every_sentence import faults

WORDS = "음식이 맛있어요 안 좋지 않 지만 ㅋㅋ 👍 ㅠㅠ 서비스는".split()
WORDS += "the food was great not but n't , .".split()
RANGES = (
    *((0x20, 0x7F), (0xAC00, 0xD7A4), (0x1100, 0x11FF), (0x3130, 0x318F), (0x300, 0x370)),
    *((0x200B, 0x2070), (0x1F300, 0x1FAFF), (0, 0xD800), (0xE000, 0x110000)),
)


def drawn(source: random.Random, with_words: bool) -> str:
    pieces = []
    for _ in range(source.randrange(1, 12)):
        if with_words and source.random() < 0.5:
            pieces.append(source.choice(WORDS) + " ")
        else:
            low, high = source.choice(RANGES)
            pieces += [chr(source.randrange(low, high)) for _ in range(source.randrange(1, 6))]
    return "".join(pieces)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strings", type=int, default=20_000)
    strings: int = parser.parse_args().strings
    source, analyst = random.Random(0), OfflineAnalyst()
    graph = build_graph(load_settings("configs/default.yaml"))
    wrong = refused = through = 0
    start = time.perf_counter()
    for number in range(strings):
        text, lang = drawn(source, bool(number % 2)), ("ko", "en", None)[number % 3]
        found = faults(analyst, text, lang)
        if number % 10 == 0:
            try:
                output = graph.invoke({"text": text, "lang": lang} if lang else {"text": text})
                through += (
                    FinalOutput.model_validate_json(output["output"].model_dump_json())
                    == output["output"]
                )
            except InputError:
                refused += 1  # nothing but blanks, say: a clear refusal is an answer
            except Exception as error:  # that is what is looked for
                found.append(f"graph: {type(error).__name__}: {error}")
        wrong += len(found)
        for fault in found:
            print(f"{fault}: {text!r}")
    seconds = round(time.perf_counter() - start)
    asked = len(range(0, strings, 10))
    result = {"strings": strings, "graph": asked, "equal": through, "refused": refused}
    print(json.dumps({**result, "faults": wrong, "seconds": seconds}))
    raise SystemExit(1 if wrong or through + refused != asked else 0)


if __name__ == "__main__":
    main()
