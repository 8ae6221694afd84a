"""Reads steps from the step log, and counts those that are missing.

A step is the difference of two consecutive boundaries. A step without one of its two boundaries is left out and
counted, never invented.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from zmon.box import layout, ring
from zmon.box.ring import Row
from zmon.box.steps import StepEnds, totals, whole_steps
from zmon.box.versions import LAYOUTS
from zmon.errors import ZmonError
from zmon.schema.steps import Steps
from zmon.steplog.format import SUFFIX, Block, Run, blocks, read_header

_HEADER_BYTES = 4096  # larger than any header
_CHUNK_ROWS = 4096


class Chunk(NamedTuple):
    """Some consecutive steps of a rank."""

    steps: Steps  # in unix time
    reported: Sequence[Mapping[str, float]]  # for each row: gauges that the job reported in the step or before the next


@dataclass
class RunSteps:
    """The steps of one run of a rank, read one segment at a time. Iterating also counts what is missing."""

    run: Run
    segments: list[tuple[Path, int]]  # each with its size at the beginning, because the agent may be writing
    missing: int = 0  # number of steps that are missing between others
    missing_before: int = 0  # number of steps that are missing before the first one
    damaged: list[str] = field(default_factory=list)  # one line for each damaged segment

    def chunks(self) -> Iterator[Chunk]:
        """Yield every step in the log, oldest first."""
        ends: list[StepEnds] = []
        reported: list[dict[str, float]] = []  # for each step, its gauges; each following boundary may add to the last
        gauges: dict[str, float] = {}  # of the last step; until there is one, they will be those of the first step
        previous: Row | None = None
        has_step = False
        for boundary in self._boundaries():
            if previous is None:
                self.missing_before = boundary[layout.STEPS]
            elif boundary[layout.NUMBER] != previous[layout.NUMBER] + 1:
                self.missing += boundary[layout.STEPS] - previous[layout.STEPS]
                gauges = {}
            elif boundary[layout.KIND] == layout.STEP:
                if len(ends) == _CHUNK_ROWS:
                    yield self._chunk(ends, reported)
                    ends, reported = [], []
                if has_step:
                    gauges = {}
                has_step = True
                ends.append(StepEnds(previous, boundary))
                reported.append(gauges)
            gauges.update(self._reported(boundary))  # reports of an evaluation belong to the step before it
            previous = boundary
        if ends:
            yield self._chunk(ends, reported)

    def _chunk(self, ends: list[StepEnds], reported: list[dict[str, float]]) -> Chunk:
        return Chunk(whole_steps({self.run.run_uid: ends}, unix=True), reported)

    def num_boundaries(self) -> int:
        """Return an upper bound of the number of boundaries. It is quick, because it unpacks no block."""
        return sum(block.count for path, size in self.segments for block in _blocks(path, size) if block)

    def columns(self) -> Iterable[str]:
        """Return the columns that a step of the run may have, by the totals up to the last boundary in the log."""
        segments = reversed(self.segments)
        present = (block for path, size in segments for block in reversed([*_blocks(path, size)]) if block)
        last = next((boundary for block in present for boundary in reversed([*self._valid(block)])), None)
        return () if last is None else totals(last)

    def _reported(self, boundary: Row) -> dict[str, float]:
        """Return the gauges that were reported since the previous boundary, by name."""
        values = boundary[layout.VALUES : layout.FIRST]
        gauges = enumerate(zip(self.run.reports, values, strict=False))
        return {name: value for index, (name, value) in gauges if boundary[layout.REPORTED] >> index & 1}

    def _boundaries(self) -> Iterator[Row]:
        """Yield each boundary once: a segment begins with the last one of the segment before. Note what is damaged."""
        last = 0  # number of the last one
        for path, size in self.segments:
            num_damaged = 0
            for block in _blocks(path, size):
                if block is None:
                    num_damaged += 1
                    continue
                for boundary in self._valid(block):
                    if boundary[layout.NUMBER] > last:
                        last = boundary[layout.NUMBER]
                        yield boundary
            if num_damaged:
                self.damaged.append(f"{path} is damaged in {num_damaged} places; the rest of it is used")

    def _valid(self, block: Block) -> Iterator[Row]:
        """Return the boundaries of a block that are not torn."""
        raw = block.boundaries(self.run.boundary_size)
        return ring.boundaries(raw, block.first, self.run.seed, LAYOUTS[self.run.box_version])


def read_runs(folder: Path) -> tuple[list[RunSteps], list[str]]:
    """Return the runs in a job's directory, by attempt and rank, and one line for each segment that is not usable."""
    segments: defaultdict[tuple[int, int, float, str], list[tuple[Path, int]]] = defaultdict(list)
    runs: dict[str, Run] = {}
    unusable: list[str] = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            with path.open("rb") as file:
                run, _ = read_header(file.read(_HEADER_BYTES))
            segments[run.attempt, run.rank, run.start, run.run_uid].append((path, path.stat().st_size))
            runs[run.run_uid] = run  # the newest segment has the names of all gauges
        except FileNotFoundError:  # the agent has deleted it, because it was the oldest
            continue
        except (OSError, ZmonError) as error:
            unusable.append(f"cannot use {path}: {getattr(error, 'strerror', None) or error}")
    return [RunSteps(runs[run_uid], paths) for (_, _, _, run_uid), paths in sorted(segments.items())], unusable


def _blocks(path: Path, size: int) -> Iterator[Block | None]:
    """Yield the blocks in the first `size` bytes of a segment, None for a damaged part; nothing if it was deleted."""
    try:
        with path.open("rb") as file:
            data = file.read(size)
        _, offset = read_header(data)
    except FileNotFoundError:
        return
    except (OSError, ZmonError):
        yield None
        return
    yield from blocks(data, offset)
