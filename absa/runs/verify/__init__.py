"""`verify`: checks that the files of a run directory are complete and consistent.

| check  | what must hold                                                                        |
|--------|---------------------------------------------------------------------------------------|
| Counts | every sample of the data once per seed in every file; the manifest says so too        |
| Journal| every line of every file is the journal's; so are the facts in the manifest           |
| S1     | the decisions follow from the recorded answers                                        |
| S2     | the final tuples are those of the final aspects; every polarity is canonical          |
| S3     | if the debate's tuples are not the final ones, there is an allowed reason             |
| S4     | every correction marked applied can be seen in the patched result; a person's         |
|        | decisions, on what they were shown, make the final one                                |
| S5     | every explicit aspect is at its span; evidence is in the text, or marked as not       |
| S6     | no gold, key or secret in prompts, traces, outputs and memory; recalled cases are     |
|        | neither the sample itself nor from the evaluated split                                |
| Metrics| the scores follow from outputs and gold                                               |

S1, S4 and S6 are checked twice. First the recorded answers are replayed, and every decision must
equal the record. The hashes of the prompts must be equal, too, which shows that a prompt held only
the text and earlier answers. Because a replay cannot show a fault of the rules themselves, a second
check works without them where that is possible.

Only one sample is in memory at a time. For the others, only the positions of their lines are kept.
"""

from absa.runs.verify.report import Check, VerifyReport, Violation
from absa.runs.verify.run import verify

__all__ = ["Check", "VerifyReport", "Violation", "verify"]
