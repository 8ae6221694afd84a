"""The recordings: drills on four hosts, all with the same job and the same struck rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lab.drills.draw import Draw
from lab.drills.drill import Drill
from lab.drills.matrix import ALL
from lab.faults.sabotage import one_rank

DRAW = Draw(repeat=0, seed=1, kind="trainer", ranks=4, step_seconds=0.25, rank=2)  # one rank on each host


@dataclass(frozen=True)
class RecordedScene:
    """One recording: what happens, in words, and the drill that makes it happen."""

    title: str
    drill: Drill


def _drill(name: str) -> Drill:
    return next(drill for drill in ALL if drill.name == name)


SCENES: Mapping[str, RecordedScene] = {
    "frozen-rank": RecordedScene("one of 4 ranks is stopped by SIGSTOP", _drill("rank-frozen")),
    "dead-link": RecordedScene("the network link of one of 4 hosts goes down", _drill("link-down")),
    "straggler": RecordedScene(
        "one of 4 ranks computes three times as long", replace(_drill("slow-rank"), fault=one_rank("slow", 3.0))
    ),
    "lost-host": RecordedScene("one of 4 hosts cannot be reached any more", _drill("host-lost")),
}
