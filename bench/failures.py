"""Score the classes of failures on a folder of labelled logs: `python -m bench.failures FOLDER`.

A log is a file `class--name.log`, the output of a launch that failed. The report has the accuracy, the mean over the
classes of F1 (the harmonic mean of precision and recall), and every miss.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from zmon.job.failures import Clues, Failure, classify

_LINES = 300  # of the end of a log: what a rank's clues have


def score(pairs: list[tuple[str, str]]) -> tuple[float, float]:
    """Return accuracy and macro-F1 of pairs of the label and the class that was found."""
    right = Counter(label for label, name in pairs if label == name)
    labels, names = Counter(label for label, _ in pairs), Counter(name for _, name in pairs)
    f1 = [2 * right[cause] / (labels[cause] + names[cause]) for cause in labels | names]
    return right.total() / len(pairs), sum(f1) / len(f1)


def failure_of(log: Path) -> Failure:
    """Return the class of the end of a log."""
    return classify(Clues(output=tuple(log.read_text(errors="replace").splitlines()[-_LINES:])))


def main() -> int:
    """Print the report; return 2 if there is no log."""
    logs = sorted(Path(sys.argv[1]).glob("*--*.log"))
    if not logs:
        print(f"{sys.argv[1]} has no file `class--name.log`")
        return 2
    pairs = []
    for log in logs:
        label = log.name.partition("--")[0]
        failure = failure_of(log)
        pairs.append((label, failure.name))
        if failure.name != label:
            print(f"{log.name}: {failure.name}, by “{failure.clue[:100]}”")
    accuracy, macro_f1 = score(pairs)
    classes = len({label for label, _ in pairs})
    print(f"{len(logs)} logs of {classes} classes: accuracy {accuracy:.3f}, macro-F1 {macro_f1:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
