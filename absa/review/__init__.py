"""Human review of a finished run: the queue, the stored decisions, gold and counts.

The files of the run are never changed. The decisions are stored in `reviews.jsonl` beside them. The
rules of `absa.nodes.human_answer` apply them to the outputs.
"""

from absa.review.gold import export_gold
from absa.review.queue import Item, Queue
from absa.review.summary import Summary, summarise

__all__ = ["Item", "Queue", "Summary", "export_gold", "summarise"]
