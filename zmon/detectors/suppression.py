"""Who silences whom: one table, which the hub and the offline analysis apply to what the detectors say of one job.

A fault is said once, by the detector that says most of it. Detectors know nothing of each other. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zmon.schema.finding import Finding
from zmon.schema.names import STALL

OF_STEPS = ("straggler", "imbalance", "slowdown", "efficiency", "input_bound")


@dataclass(frozen=True)
class Suppression:
    """While the first says more than an info, the others open nothing. `holds`: what they have open stays as it is;
    else it resolves."""

    by: str
    silenced: tuple[str, ...]
    holds: bool = False


TABLE = (
    Suppression(STALL, OF_STEPS, holds=True),  # they speak of steps from before; whether it is over, nobody can tell
    Suppression("straggler", ("slowdown", "efficiency")),  # a slowness that somebody is named for is theirs
    Suppression("imbalance", ("slowdown", "efficiency")),
    Suppression("slowdown", ("efficiency",)),  # it knows which part of a step grew
    Suppression("divergence", ("efficiency",)),  # what is computed is lost, however fast
    Suppression("coverage", ("efficiency",)),  # of ranks that nobody sees it is not known
    Suppression("hardware", ("efficiency",)),  # a card or link that fails says why
)


@dataclass(frozen=True)
class Spoken:
    """What is left of the verdicts on one job."""

    findings: Mapping[str, tuple[Finding, ...]]  # by detector; empty: it has nothing to say, or was silenced
    held: frozenset[str]  # detectors that were silenced, and what they have open stays as it is
    resolved: frozenset[str]  # detectors that were silenced, and what they have open is said by another


def suppress(verdicts: Mapping[str, Sequence[Finding]], table: Sequence[Suppression] = TABLE) -> Spoken:
    """What may be said, given what each detector says of the same Snapshot.

    A detector that is silenced itself silences others all the same. One that has nothing to say is not held: what it
    has open may be over.
    """
    speaking = {name for name, found in verdicts.items() if any(f.severity != "info" for f in found)}
    active = [row for row in table if row.by in speaking]
    silenced = {name for row in active for name in row.silenced if verdicts.get(name)}
    resolved = silenced & {name for row in active if not row.holds for name in row.silenced}
    findings = {name: () if name in silenced else tuple(found) for name, found in verdicts.items()}
    return Spoken(findings, frozenset(silenced - resolved), frozenset(resolved))
