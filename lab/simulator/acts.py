"""The acts of zmon about a simulated job: the intents of a policy, as if each rule were enforced and no agent refused.

An act changes nothing in the simulation: the job goes on as without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import aiohttp
from msgspec.structs import replace

from lab.drills.acts import Blame
from lab.simulator.observation import UNIX
from lab.simulator.truth import Truth
from zmon.hub.acts import Intents, Policy
from zmon.hub.acts.guards import Site, refusals
from zmon.schema.act import ACTED, ENFORCE, OBSERVE, Intent
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot

_NOBODY = cast(aiohttp.ClientSession, None)  # rules that observe ask no agent


class SimulatedActs:
    """The acts that a hub with a policy would ask for."""

    def __init__(self, policy: Policy, folder: Path) -> None:
        observing = Policy(tuple(replace(rule, mode=OBSERVE) for rule in policy.rules))
        self._intents = Intents(observing, folder, ())
        self.acts: list[Intent] = []

    def update(self, findings: Iterable[Finding], snapshots: Iterable[Snapshot], now: float) -> None:
        """Follow the findings, as the hub does in every pass; `now` is the hub's time."""
        jobs = {snapshot.job_id: snapshot for snapshot in snapshots}
        earlier = {intent.id for intent in self._intents.all()}
        self._intents.update(_NOBODY, findings, jobs.values(), now)
        for intent in self._intents.all():
            act = replace(intent, mode=ENFORCE, result=ACTED)
            if intent.id not in earlier and not any(refusals(act, jobs[act.job_id], Site(self.acts))):
                self.acts.append(act)


def blames(truths: Sequence[Truth]) -> list[Blame]:
    """Return the faults for which zmon may act."""
    return [
        Blame(UNIX + truth.time, truth.ranks, heals=truth.strike.seconds is not None)
        for truth in truths
        if not truth.is_quiet
    ]
