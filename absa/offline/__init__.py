"""An analyser without a network or a key: lexicons, morphology and clause rules."""

from absa.offline.analysis import analyse
from absa.offline.analyst import OfflineAnalyst
from absa.offline.model import Analysis

__all__ = ["Analysis", "OfflineAnalyst", "analyse"]
