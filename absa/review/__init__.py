"""A person goes through a finished run: the queue, the decisions on disk, gold and counts.

The run directory's own files are never changed: what a person decides stands in `reviews.jsonl`
beside them, and is laid over the outputs by the rules of `absa.nodes.human_answer`.
"""

from absa.review.gold import export_gold
from absa.review.queue import Item, Queue
from absa.review.summary import Summary, summarise

__all__ = ["Item", "Queue", "Summary", "export_gold", "summarise"]
