"""The last steps of a job's ranks in a capsule: the choice of ranks, and the file steps.jsonl. Pure.

The file has JSON lines, as `zmon steps` exports them. It holds all ranks of a job with up to 64 ranks. Of a larger job
it holds the culprits, the ranks next to them and on their hosts, and an even sample of the others.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from zmon.schema.finding import Finding
from zmon.schema.incident import PlottedStep
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.measures import ns
from zmon.schema.rank import RankState
from zmon.schema.steps import START, Steps
from zmon.steplog import Chunk
from zmon.steplog.format import Run
from zmon.steplog.table import Table, write_json_lines

MAX_STEPS = 200  # steps of each rank
MAX_RANKS = 64
MAX_BYTES = 16 << 20  # size of the file; the other parts of a capsule stay below 4 MiB
_PHASE = "phase_"


def choose_ranks(snapshot: Snapshot, finding: Finding) -> tuple[RankState, ...]:
    """Return the ranks whose steps are stored, the most important first."""
    reported = snapshot.reported_ranks
    neighbors = {rank + offset for rank in finding.ranks for offset in (-1, 1)}
    culprits = [r for r in reported if r.rank in finding.ranks]
    adjacent = [r for r in reported if r.rank in neighbors or r.host in finding.hosts]
    stride = max(1, len(reported) // MAX_RANKS)
    order = dict.fromkeys(r.rank for r in (*culprits, *adjacent, *reported[::stride], *reported))
    by_rank = {r.rank: r for r in reported}
    return tuple(by_rank[rank] for rank in [*order][:MAX_RANKS])


@dataclass(frozen=True)
class LastSteps:
    """The last steps of one rank, in unix time."""

    state: RankState
    steps: Steps

    @property
    def run(self) -> Run:
        """The rank as the step log describes it."""
        state = self.state
        return Run(state.job_id, state.attempt, state.rank, state.run_uid, state.host, state.start, 0)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the steps. They have no reports, since agents do not send these."""
        yield Chunk(self.steps, [{}] * self.steps.num_rows)

    def columns(self) -> Iterable[str]:
        return self.steps.columns


def last_steps(state: RankState, steps: Steps, clock_zero: float) -> LastSteps:
    """Return the last 200 steps; `clock_zero` is the unix time at which the clock of `steps` was 0."""
    last = steps.select(range(max(steps.num_rows - MAX_STEPS, 0), steps.num_rows))
    lowest, differences = last.columns.get(START, (0, b""))  # differences from the lowest number
    return LastSteps(state, replace(last, columns={**last.columns, START: (lowest + ns(clock_zero), differences)}))


def encode(runs: Sequence[LastSteps]) -> tuple[bytes, tuple[int, ...]]:
    """Return the content of the file, and the ranks that fit into it; `runs` has the most important ranks first."""
    table = Table.from_runs(runs)
    parts = []
    size = 0
    for run in runs:
        part = io.BytesIO()
        write_json_lines(replace(table, runs=[run]), part)
        size += part.tell()
        if size > MAX_BYTES:
            break
        parts.append(part.getvalue())
    return b"".join(parts), tuple(run.state.rank for run in runs[: len(parts)])


def read(data: bytes) -> list[PlottedStep]:
    """Return what a plot needs of each line; lines that cannot be decoded are left out."""
    steps = []
    for line in data.splitlines():
        try:
            steps.append(_step(msgspec.json.decode(line, type=dict)))
        except (msgspec.DecodeError, KeyError, TypeError):
            continue
    return steps


def _step(row: Mapping[str, float]) -> PlottedStep:
    self_seconds = sum(seconds for name, seconds in row.items() if name.startswith(_PHASE))
    return PlottedStep(int(row["rank"]), int(row["step"]), row["start"], row["duration"], self_seconds)
