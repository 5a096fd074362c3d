"""An analyser without a network or a key: learned models, lexicons, morphology, clause rules."""

from absa.offline.analysis import Analyser
from absa.offline.analyst import OfflineAnalyst
from absa.offline.model import Analysis

__all__ = ["Analyser", "Analysis", "OfflineAnalyst"]
