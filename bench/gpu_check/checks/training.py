"""Checks the boxes of watched trainings: the bundled trainer, DDP and FSDP2, each as a user would start it.

A box must have every step, and the parts of a step must sum to its duration. The sum of all steps is compared with the
host's clock, and the number of collectives with torch's flight recorder, as the rank's worker server returns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bench.gpu_check.kit import BoxContent, Kit
from bench.gpu_check.machine import Machine
from bench.gpu_check.records import TrainedRank
from bench.gpu_check.result import FAILED, MEASURED, NOT_CHECKED, Result, outcome_of
from bench.gpu_check.settings import Setting
from bench.rows import US_PER_SECOND
from zmon.schema.steps import DURATION, START, Steps

TRAINER_STEPS = 200  # of the bundled trainer
STEPS = 100  # of DDP and FSDP2
SUM_NS = 1000  # limit of a difference: times of the device are rounded to nanoseconds, part by part
# Limit of a difference: the host notes the end of a step when it has submitted it, and the device may end it later.
WALL_RATIO = 0.15
_WARM_UP_STEPS = 10  # the comparison with the host's clock leaves them out
_LIMIT_SECONDS = 120.0


def run_trainer(kit: Kit, setting: Setting) -> Iterator[Result]:
    """Run the bundled trainer."""
    job = kit.run(setting, "bundled", str(TRAINER_STEPS), seconds=_LIMIT_SECONDS)
    yield from compare(kit.machine, setting, TRAINER_STEPS, job.boxes(), job.records(TrainedRank))


def run_parallel(kind: str, kit: Kit, setting: Setting) -> Iterator[Result]:
    """Run a small training with DDP or FSDP2."""
    job = kit.run(setting, "parallel", kind, str(STEPS), seconds=_LIMIT_SECONDS)
    ranks = job.records(TrainedRank)
    boxes = job.boxes()
    yield from compare(kit.machine, setting, STEPS, boxes, ranks)
    yield compare_collectives(boxes, ranks)


def compare(
    machine: Machine, setting: Setting, num_steps: int, boxes: Sequence[BoxContent], ranks: Sequence[TrainedRank]
) -> Iterator[Result]:
    """Yield the comparisons of all boxes; a figure is that of the worst rank."""
    counts = [box.num_steps for box in boxes]
    all_recorded = all(count == num_steps == box.steps.num_rows for count, box in zip(counts, boxes, strict=True))
    yield Result("steps in the box", outcome_of(all_recorded), min(counts), "", f"{num_steps} trained")
    differences = [difference for box in boxes for difference in _differences(box.steps)]
    largest = max(differences, default=0)
    yield Result(
        "largest difference of a step from the sum of its parts",
        outcome_of(bool(differences) and largest <= SUM_NS), largest, "ns", f"limit {SUM_NS} ns",
    )  # fmt: skip
    dropped = max(box.num_dropped for box in boxes)
    yield Result("records that the probe dropped", outcome_of(not dropped), dropped, "", "0")
    backends = {box.identity.backend for box in boxes}
    yield Result("backend", outcome_of(backends == {setting.backend}), _join(backends), "", setting.backend)
    if setting.num_gpus:
        has_events = all(rank.has_device_events for rank in ranks)
        yield Result(
            "times from device events", outcome_of(has_events), "yes" if has_events else "no", compared_with="yes"
        )
        yield _compare_devices(machine, boxes)
        yield _compare_wall(boxes)
    overhead = max(box.overhead_seconds / max(box.num_steps, 1) for box in boxes)
    yield Result("overhead that zmon reports, per step", MEASURED, overhead * US_PER_SECOND, unit="µs")


def compare_collectives(boxes: Sequence[BoxContent], ranks: Sequence[TrainedRank]) -> Result:
    """Compare the sequences of the box with the sequences of the flight recorder, for the first rank that differs."""
    results = [_compare_collectives(box, rank) for box, rank in zip(boxes, ranks, strict=True)]
    return next((result for result in results if result.outcome == FAILED), results[0])


def _compare_collectives(box: BoxContent, rank: TrainedRank) -> Result:
    subject = "collectives in the box, by process group"
    if rank.last_sequences is None:
        return Result(subject, FAILED, note=f"no flight record: {rank.flight_error}")
    sequences = {f"{box.identity.backend}:{group}": number for group, number in box.sequences.items() if number}
    holds = sequences == rank.last_sequences and not rank.num_pending
    recorded = f"flight recorder: {_join(f'{group} {number:,}' for group, number in rank.last_sequences.items())}"
    if rank.num_pending:
        recorded += f", {rank.num_pending} not done"
    figure = _join(f"{group} {number:,}" for group, number in sequences.items())
    return Result(subject, outcome_of(holds), figure, compared_with=recorded)


def _compare_devices(machine: Machine, boxes: Sequence[BoxContent]) -> Result:
    subject = "device in the box"
    devices = {box.identity.device for box in boxes}
    if not machine.uuids:
        return Result(subject, NOT_CHECKED, _join(devices), note=machine.smi_error)
    known = devices <= set(machine.uuids)
    compared_with = f"nvidia-smi: {_join(machine.uuids)}"
    return Result(subject, outcome_of(known), _join(devices), compared_with=compared_with)


def _compare_wall(boxes: Sequence[BoxContent]) -> Result:
    subject = "sum of the steps, of the host's time from first to last"
    ratios = [ratio for box in boxes if (ratio := _wall_ratio(box.steps)) is not None]
    if not ratios:
        return Result(subject, NOT_CHECKED, note="there are too few steps")
    worst = max(ratios, key=lambda ratio: abs(ratio - 1))
    holds = abs(worst - 1) <= WALL_RATIO
    return Result(subject, outcome_of(holds), worst, compared_with=f"{1 - WALL_RATIO:g} … {1 + WALL_RATIO:g}")


def _wall_ratio(steps: Steps) -> float | None:
    """Return the sum of the steps ÷ the host's time from the first one's end to the last one's; None if too few."""
    starts = steps.column(START)[_WARM_UP_STEPS:]
    durations = steps.column(DURATION)[_WARM_UP_STEPS:]
    if len(starts) < 2:
        return None
    first_end = starts[0] + durations[0]
    last_end = starts[-1] + durations[-1]
    return sum(durations[1:]) / (last_end - first_end)


def _differences(steps: Steps) -> list[int]:
    """Return for each step its difference from the sum of its parts, in nanoseconds."""
    parts = zip(steps.sums("phase"), steps.sums("exposed"), steps.column(DURATION), strict=True)
    return [abs(self_time + exposed - duration) for self_time, exposed, duration in parts]


def _join(words: Iterable[str | None]) -> str:
    return ", ".join(sorted(map(str, words)))
