"""The share of NaNs for which zmon names the right rank and step, in DDP, FSDP2 and the bundled trainer on four ranks.

    python -m bench.first_nan [--injections N] [--kinds KIND…] [--seed S]

In each round one rank has one NaN, or an infinite number, in a batch of a random step. Ten times a second, the boxes
are read as an agent reads them, and the detector judges their content. A round is right if the first finding and the
last one name the rank, and the last one names a step at most 2 away. Each kind takes two minutes.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

from bench.first_nan_job import JOBS, Injected
from bench.ranks import BOXES, JobFailed, last_lines, start_job
from bench.rows import PERCENT, load_line, parser_of, table_line
from zmon.agent.sources.boxes import Boxes
from zmon.detectors import ALL
from zmon.job.reported_values import ReportedValues
from zmon.job.timeline import newest_attempt
from zmon.schema.evidence import DivergenceEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot

RANKS = 4
Result = Literal[
    "right",  # the rank and about the step
    "unnamed",  # a finding that names no rank
    "wrong",  # another rank or another step
    "silent",  # no finding
]
_DETECTOR = next(detector for detector in ALL if detector.name == "divergence")
_LOOK_SECONDS = 0.1  # between two readings of the boxes
_MAX_FINDING_SECONDS = 1.0  # after the last step
_MAX_ROUND_SECONDS = 60.0  # a job whose round takes longer is aborted
_MAX_STEPS_AWAY = 2
_HEADS = ("job", "rounds", "right", "rank and step", "exact step", "unnamed", "wrong", "silent", "steps until named")


@dataclass(frozen=True)
class Round:
    """An injection, and the first and the last finding about it."""

    injected: Injected
    first: Finding | None
    last: Finding | None

    @property
    def result(self) -> Result:
        """The comparison of the findings with the injection."""
        if self.first is None or self.last is None:
            return "silent"
        if not self.first.ranks or not self.last.ranks:
            return "unnamed"
        if {self.first.ranks, self.last.ranks} != {(self.injected.rank,)} or self.steps_away is None:
            return "wrong"
        return "right" if abs(self.steps_away) <= _MAX_STEPS_AWAY else "wrong"

    @property
    def steps_away(self) -> int | None:
        """The steps from the injection to the step that the last finding names; None if it names none."""
        first_step = _evidence(self.last).first_step
        return first_step - self.injected.step if isinstance(first_step, int) else None


def _evidence(finding: Finding | None) -> DivergenceEvidence:
    return finding.evidence_of(DivergenceEvidence) if finding else DivergenceEvidence()


class Watch:
    """Reads the boxes of one job as an agent does, and judges their content as a hub does."""

    def __init__(self, root: Path) -> None:
        self._boxes = Boxes(root, "node-a")
        self._reported = ReportedValues()

    def finding(self) -> Finding | None:
        """Read all boxes, and return the detector's finding."""
        self._boxes.scan()
        ranks = newest_attempt(state for _, state in self._boxes.ranks())
        if len(ranks) < RANKS:
            return None
        snapshot = Snapshot(
            "bench", time.time(), attempt=0, world_size=RANKS, ranks=ranks, missing=(), unwatched=(), agents=(),
            not_finite=self._reported.not_finite(ranks),
        )  # fmt: skip
        return next(iter(_DETECTOR.detect(snapshot)), None)


def rounds(kind: str, injections: int, seed: int) -> Iterator[Round]:
    """Run the job and yield each round. Raises JobFailed."""
    with tempfile.TemporaryDirectory(prefix="zmon-bench-", dir="/dev/shm") as name:
        folder = Path(name)
        job = start_job(folder, "bench.first_nan_job", kind, str(injections), str(seed), ranks=RANKS)
        try:
            watch = Watch(folder / BOXES)
            last_step = 0
            for number in range(1, injections + 1):
                round_ = _watch_round(watch, folder, number, last_step)
                if round_ is None:
                    raise JobFailed(f"{kind}: round {number} does not end:\n{last_lines(folder)}")
                yield round_
                last_step = round_.injected.step
                (folder / "read").write_text(str(number))
        finally:
            job.end()


def _watch_round(watch: Watch, folder: Path, number: int, last_step: int) -> Round | None:
    """Watch until the round has ended and has a finding, or could have one; return None if it does not end."""
    first = None
    deadline = time.monotonic() + _MAX_ROUND_SECONDS
    while (injected := _done(folder, number)) is None:
        if time.monotonic() > deadline:
            return None
        first = first or _later(watch.finding(), last_step)
        time.sleep(_LOOK_SECONDS)
    deadline = time.monotonic() + _MAX_FINDING_SECONDS
    while first is None and time.monotonic() < deadline:
        first = _later(watch.finding(), last_step)
        time.sleep(_LOOK_SECONDS)
    return Round(injected, first, _later(watch.finding(), last_step))


def _later(finding: Finding | None, step: int) -> Finding | None:
    """Return the finding, unless it is about the round before, which had its fault in this step."""
    return finding if finding is not None and (finding.step or 0) > step else None


def _done(folder: Path, number: int) -> Injected | None:
    """Return the injection of a round that has ended, else None."""
    try:
        injected = msgspec.json.decode((folder / "done").read_bytes(), type=Injected)
    except FileNotFoundError:
        return None
    return injected if injected.number == number else None


def main() -> None:
    """Measure and print the table, and each round that is not right."""
    parser = parser_of(__doc__)
    parser.add_argument("--injections", type=int, default=100, help="rounds of each kind of job (100)")
    parser.add_argument("--kinds", nargs="+", choices=tuple(JOBS), default=tuple(JOBS), help="only these jobs")
    parser.add_argument("--seed", type=int, default=1, help="seed of ranks and steps (1)")
    arguments = parser.parse_args()
    print(table_line(_HEADS, _HEADS), flush=True)
    for kind in arguments.kinds:
        all_rounds = [*rounds(kind, arguments.injections, arguments.seed)]
        print(table_line(_cells(kind, all_rounds), _HEADS), flush=True)
        for round_ in all_rounds:
            if round_.result != "right":
                print(f"  {round_.result}: {round_.injected}: {round_.last.summary if round_.last else 'no finding'}")
    print(load_line())


def _cells(kind: str, all_rounds: list[Round]) -> tuple[str, ...]:
    counts = Counter(round_.result for round_ in all_rounds)
    right = [round_ for round_ in all_rounds if round_.result == "right"]
    steps_to_finding = [_evidence(round_.first).num_steps for round_ in right]
    steps = [num_steps for num_steps in steps_to_finding if isinstance(num_steps, int)]
    return (
        kind, str(len(all_rounds)), str(counts["right"]), f"{counts['right'] / len(all_rounds) * PERCENT:.1f} %",
        f"{sum(round_.steps_away == 0 for round_ in right) / len(all_rounds) * PERCENT:.1f} %",
        *(str(counts[result]) for result in ("unnamed", "wrong", "silent")),
        f"{median(steps):.0f}, at most {max(steps)}" if steps else "–",
    )  # fmt: skip


if __name__ == "__main__":
    main()
