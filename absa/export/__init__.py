"""Results of a run in the formats that other tools read."""

from absa.export.texts import Judged, Judgement, judged_texts
from absa.export.writers import WRITERS, export

__all__ = ["WRITERS", "Judged", "Judgement", "export", "judged_texts"]
