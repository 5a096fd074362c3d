"""`verify`: does a run directory tell the truth?

| check  | what must hold                                                                        |
|--------|---------------------------------------------------------------------------------------|
| Counts | every sample of the data once per seed in every file; the manifest says so too        |
| Journal| every line of every file is the journal's; so are the facts in the manifest           |
| S1     | what was decided follows from the recorded answers                                    |
| S2     | the final tuples are those of the final aspects; every polarity is canonical          |
| S3     | a debate whose tuples are not the final ones was overruled for an allowed reason      |
| S4     | every correction marked applied can be seen in the patched result; a person's         |
|        | decisions, on what they were shown, make the final one                                |
| S5     | every explicit aspect stands at its span; evidence is in the text, or marked as not   |
| S6     | no gold, key or secret in prompts, traces, outputs and memory; what was recalled is   |
|        | neither the sample itself nor of the evaluated split                                  |
| Metrics| the scores are those that outputs and gold give                                       |

S1, S4 and S6 are checked twice. The recorded answers go through the decision layer again, and
everything it decides must be what is on record, the prompts' hashes included: a prompt with that
hash held the text and earlier answers, and nothing else. And because that could not show a fault
of the decision layer itself, what can be checked without it is checked without it.

One sample is held at a time; of the others only the places of their lines.
"""

from absa.runs.verify.report import Check, VerifyReport, Violation
from absa.runs.verify.run import verify

__all__ = ["Check", "VerifyReport", "Violation", "verify"]
