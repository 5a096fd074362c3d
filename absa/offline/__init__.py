"""An analyzer without a network or a key: learned models, lexicons, morphology, clause rules.

| where          | what                                                                          |
|----------------|-------------------------------------------------------------------------------|
| `text`         | what stands in a text: tokens, clauses, opinion words, noun phrases           |
| `models`       | the learned models: the files of a model folder and the networks in them      |
| `analysis`     | `Analyser`: text and models together give one `Analysis` of a text            |
| `roles`        | how each agent's answer is made from the analysis                             |
| `analyst`      | `OfflineAnalyst`: calls the role of an agent                                  |
| `training`     | what `absa train` does                                                        |
"""

from absa.offline.analysis import Analyser
from absa.offline.analyst import OfflineAnalyst
from absa.offline.text.annotations import Analysis

__all__ = ["Analyser", "Analysis", "OfflineAnalyst"]
