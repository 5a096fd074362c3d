"""How the time of the embedded analyzer grows with the length of hostile texts.

``python -m benchmarks.long_texts [--lengths 1000 10000] [--shapes bang korean]`` analyzes texts of
several shapes with the whole debate graph, and prints seconds of processor time by length. The last
column is the growth of the time per character from the second longest to the longest text: 1 is
linear, the factor between the lengths is quadratic.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence

from absa import analyze
from absa.config import load_settings
from absa.schemas.settings import Settings

LENGTHS = (1_000, 10_000, 100_000, 300_000)
#: What is repeated until a text is long enough.
SHAPES: Mapping[str, str] = {
    "bang": "!",
    "word": "a",
    "clauses": "The food was great but the service was slow. ",
    "aspects": "food, rice, staff, wine, room, ",
    "negations": "not good ",
    "lines": "a\n",
    "hyphens": "good-",
    "apostrophes": "n't ",
    "emoji": "\N{GRINNING FACE}",
    "hangul": "가격은비싸고음식은맛있지만직원이불친절해요",
    "syllable": "가",
    "korean": "사용감은 좋지만 가격은 비싸요. ",
}


def text_of(shape: str, length: int) -> str:
    """A text of a shape, of exactly this length."""
    unit = SHAPES[shape]
    return (unit * (length // len(unit) + 1))[:length]


def seconds(text: str, settings: Settings) -> float:
    """The processor time that a text takes."""
    began = time.process_time()
    analyze(text, settings)
    return time.process_time() - began


def growth(lengths: Sequence[int], times: Sequence[float]) -> float:
    """How the time per character grows from the second longest to the longest text."""
    return (times[-1] / lengths[-1]) / (times[-2] / lengths[-2])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    asked = parser.parse_args()
    settings = load_settings(None, {"pipeline.max_text_chars": max(asked.lengths)})
    for warm_up in ("The food was great.", "가격은 비싸요."):
        analyze(warm_up, settings)
    out = sys.stdout
    out.write("shape".ljust(12) + "".join(f"{n:>10,}" for n in asked.lengths) + "    growth\n")
    for shape in asked.shapes:
        times = [seconds(text_of(shape, length), settings) for length in asked.lengths]
        row = shape.ljust(12) + "".join(f"{t:>10.2f}" for t in times)
        if len(times) > 1:
            row += f"{growth(asked.lengths, times):>10.1f}"
        out.write(row + "\n")
        out.flush()


if __name__ == "__main__":
    main()
