"""Count the outcomes of random compositions, simulated or of real jobs: results by fault, and calibration. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

from lab.drills.result import Result

PROVED = ("lock", "state", "carrier", "sequence")  # evidence that shows the culprit
DIAGNOSED_RIGHT = ("right", "late")
CONFIDENCE_LIMITS = (0.0, 0.4, 0.6, 0.75, 0.85, 0.93, 1.0)  # of the bands in which findings are counted


@dataclass(frozen=True)
class Outcome:
    """The outcome of one play of a composition."""

    fault: str  # the first fault
    evidence: str  # what proves it
    result: Result
    confidence: float | None = None  # of the first finding that names somebody
    skipped: str | None = None  # the reason why it was not played


def by_fault(outcomes: Sequence[Outcome]) -> dict[str, Counter[str]]:
    """Return the results of each fault; plays that were skipped are left out."""
    counts: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        if outcome.skipped is None:
            counts.setdefault(outcome.fault, Counter())[outcome.result] += 1
    return counts


def unknown_ratio(outcomes: Iterable[Outcome]) -> float | None:
    """Return the share of `unknown` among the plays whose fault is proved; None if there is none."""
    proved = [outcome for outcome in outcomes if outcome.evidence in PROVED and outcome.skipped is None]
    return sum(outcome.result == "unknown" for outcome in proved) / len(proved) if proved else None


def calibration(outcomes: Iterable[Outcome]) -> list[tuple[str, int, float]]:
    """Return for each band of confidence: its name, the number of diagnoses, and the share that was right."""
    diagnoses = [
        (outcome.confidence, outcome.result in DIAGNOSED_RIGHT)
        for outcome in outcomes
        if outcome.confidence is not None and outcome.result in (*DIAGNOSED_RIGHT, "wrong name", "wrong cause")
    ]
    rows = []
    for low, high in pairwise(CONFIDENCE_LIMITS):
        band = [is_right for confidence, is_right in diagnoses if low < confidence <= high]
        if band:
            rows.append((f"{low:g} to {high:g}", len(band), sum(band) / len(band)))
    return rows


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the tables of all outcomes in Markdown."""
    counts = by_fault(outcomes)
    shown = [result for result in get_args(Result) if any(result in counter for counter in counts.values())]
    lines = [f"| first fault | plays | {' | '.join(shown)} |", "|-" * (len(shown) + 2) + "|"]
    for fault in sorted(counts):
        cells = [str(counts[fault][result] or "") for result in shown]
        lines.append(f"| {fault} | {counts[fault].total()} | {' | '.join(cells)} |")
    total = sum(counts.values(), Counter[str]())
    lines.append(f"| all | {total.total()} | {' | '.join(str(total[result] or '') for result in shown)} |")
    lines += ["", "| confidence | findings | right |", "|-|-|-|"]
    lines += [f"| {band} | {number} | {share:.0%} |" for band, number, share in calibration(outcomes)]
    ratio = unknown_ratio(outcomes)
    if ratio is not None:
        lines += ["", f"{ratio:.1%} unknown where a lock, a state, a carrier or a sequence proves the fault"]
    if skipped := Counter(outcome.skipped for outcome in outcomes if outcome.skipped):
        lines += ["", *(f"{number} skipped: {reason}" for reason, number in skipped.most_common())]
    return "\n".join(lines)
