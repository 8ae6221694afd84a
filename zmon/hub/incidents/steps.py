"""The last steps of a job's ranks, in the step log's format: of which ranks, as rows of a file, and back. Pure.

All ranks of a job of up to 64; of a larger one the culprits, those beside them and on their hosts, and others evenly.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from zmon.schema.finding import Finding
from zmon.schema.incident import PlottedStep
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot
from zmon.schema.step import Measures, OpTotals, StepRecord
from zmon.steplog import Step as Logged
from zmon.steplog.format import Run
from zmon.steplog.table import Table, write_json_lines

STEPS = 200  # of each rank
MAX_RANKS = 64
MAX_BYTES = 16 << 20  # of the file; the other parts of a capsule stay below 4 MiB
_PHASE = "phase_"


def chosen(snapshot: Snapshot, finding: Finding) -> tuple[RankState, ...]:
    """The ranks whose steps are worth keeping, the dearest first."""
    known = snapshot.known
    beside = {rank + by for rank in finding.ranks for by in (-1, 1)}
    culprits = [r for r in known if r.rank in finding.ranks]
    near = [r for r in known if r.rank in beside or r.host in finding.hosts]
    every = max(1, len(known) // MAX_RANKS)
    order = dict.fromkeys(r.rank for r in (*culprits, *near, *known[::every], *known))
    by_rank = {r.rank: r for r in known}
    return tuple(by_rank[rank] for rank in [*order][:MAX_RANKS])


@dataclass(frozen=True)
class Kept:
    """One rank's last steps."""

    state: RankState
    last: tuple[Logged, ...]

    @property
    def run(self) -> Run:
        """As the step log knows it."""
        state = self.state
        return Run(state.job_id, state.attempt, state.rank, state.run_uid, state.host, state.start, 0)

    def steps(self) -> Iterator[Logged]:
        """Oldest first; what was reported in them the agents do not tell."""
        return iter(self.last)

    def so_far(self) -> Measures:
        """What ran in one of these steps."""
        ran = [step.record.measures for step in self.last]
        phases = {phase for measures in ran for phase in measures.phases}
        ops = {op for measures in ran for op in measures.ops}
        return Measures(dict.fromkeys(phases, 0.0), dict.fromkeys(ops, OpTotals()))


def kept(state: RankState, records: Sequence[StepRecord], zero: float) -> Kept:
    """The last 200; `zero` is the unix time at which the clock they start by was 0."""
    return Kept(state, tuple(Logged(zero + record.start, record, {}) for record in records[-STEPS:]))


def lines(runs: Sequence[Kept]) -> tuple[bytes, tuple[int, ...]]:
    """The file, and the ranks that found room in it; the first ones are the dearest."""
    table, parts, size = Table.of(runs), [], 0
    for run in runs:
        part = io.BytesIO()
        write_json_lines(replace(table, runs=[run]), part)
        size += part.tell()
        if size > MAX_BYTES:
            break
        parts.append(part.getvalue())
    return b"".join(parts), tuple(run.state.rank for run in runs[: len(parts)])


def read(data: bytes) -> list[PlottedStep]:
    """What a plot needs of them; a line that is none is left out."""
    found = []
    for line in data.splitlines():
        try:
            found.append(_step(msgspec.json.decode(line, type=dict)))
        except (msgspec.DecodeError, KeyError, TypeError):
            continue
    return found


def _step(row: Mapping[str, float]) -> PlottedStep:
    own = sum(seconds for name, seconds in row.items() if name.startswith(_PHASE))
    return PlottedStep(int(row["rank"]), int(row["step"]), row["start"], row["duration"], own)
