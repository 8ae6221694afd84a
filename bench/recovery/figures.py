"""The figures of the arms: the time of the steps under faults, and the seconds lost by a fault, by phase. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median

import msgspec

from bench.rows import mean_and_half_width

CALM = "calm"  # the arm without faults
KINDS = ("frozen", "killed")  # in turns
EVERY_SECONDS = 300.0  # the pace at which the ratio is stated
# Phases of a recovery, by the name of the moment at which they end; the first begins at the onset. torchrun alone has
# neither "finding" nor "act".
MOMENTS: Mapping[str, str] = {
    "finding": "onset → finding",
    "act": "finding → act",
    "last death": "act → last death",
    "relaunch": "last death → new ranks",
    "torch": "import of torch",
    "ready": "other imports, init, resume",
    "first step": "first step",
    "regained": "lost steps again",
}
_FEWEST = 3  # faults: fewer have no interval


class Recovery(msgspec.Struct, frozen=True):
    """One fault, and how the job came back from it."""

    kind: str  # one of KINDS
    rank: int
    step: int  # the last step that was finished before
    lost_seconds: float | None  # against a run without the fault, lost steps included; None: not back within the cap
    cap_seconds: float
    num_launches: int  # of rank 0, from the fault to the recovery
    moments: dict[str, float]  # seconds from the onset to each of MOMENTS that is known

    @property
    def least_lost_seconds(self) -> float:
        """The seconds that were lost, or the cap."""
        return self.cap_seconds if self.lost_seconds is None else self.lost_seconds

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of each phase, by its description; a phase with an unknown end is part of the next one.

        Without an act, torchrun does not wait for the finding, so the finding ends no phase.
        """
        names = [name for name in MOMENTS if name in self.moments]
        if "finding" in names and "act" not in names and "last death" in names:
            names.remove("finding")
        phases = {}
        begin = 0.0
        for name in names:
            phases[MOMENTS[name]] = self.moments[name] - begin
            begin = self.moments[name]
        return phases


class ArmRun(msgspec.Struct, frozen=True):
    """One arm: its steps, its time, and its recoveries."""

    name: str
    num_steps: int | None  # None: it ended after its faults
    seconds: float | None  # from the start of the first step to the end of the last; None: a rank is still frozen
    step_seconds: float  # median
    recoveries: tuple[Recovery, ...]
    load: float  # the load average of the machine at the end


def lines(runs: Sequence[ArmRun], every: float) -> Iterator[str]:
    """Yield the tables in Markdown."""
    calm = next((run for run in runs if not run.recoveries), None)
    heads = ("arm", "faults", "every", "steps", "minutes", f"÷ {CALM}, measured", "lost by a fault (mean, 95 % by t)")
    yield f"| {' | '.join(heads)} | ÷ {CALM}, at one in {EVERY_SECONDS:g} s |"
    yield "|" + "-|" * (len(heads) + 1)
    for run in runs:
        yield _line(run, calm, every)
    yield ""
    yield "| arm | fault | faults | launches | " + " | ".join(MOMENTS.values()) + " | lost seconds |"
    yield "|" + "-|" * (len(MOMENTS) + 5)
    for run in runs:
        for kind in KINDS:
            if same_kind := [recovery for recovery in run.recoveries if recovery.kind == kind]:
                yield _phases(run.name, kind, same_kind)
    yield ""
    yield (
        f"Medians of seconds; an empty phase is part of the next one. At one in {EVERY_SECONDS:g} s, the ratio is 1 + "
        f"lost seconds ÷ {EVERY_SECONDS:g}, which is exact as long as recoveries do not overlap."
    )


def ratio_at(recoveries: Sequence[Recovery], every: float = EVERY_SECONDS) -> tuple[float, float | None]:
    """Return the time under one fault per `every` seconds ÷ the time without, and half of its 95 % interval."""
    lost = [recovery.least_lost_seconds for recovery in recoveries]
    if len(lost) < _FEWEST:
        return 1 + mean(lost) / every, None
    middle, half = mean_and_half_width(lost)
    return 1 + middle / every, half / every


def _line(run: ArmRun, calm: ArmRun | None, every: float) -> str:
    steps = "" if run.num_steps is None else f"{run.num_steps:,}"
    minutes = "" if run.seconds is None else f"{run.seconds / 60:.2f}"
    if not run.recoveries:
        return f"| {' | '.join((run.name, '0', '', steps, minutes, '', '', ''))} |"
    calm_seconds = calm.seconds if calm else None
    measured = ""
    least = _least(run.recoveries)
    if calm_seconds and run.seconds is None:
        minutes = f"{least}{calm_seconds * ratio_at(run.recoveries, every)[0] / 60:.2f} (computed)"
    elif calm and calm_seconds and run.seconds and calm.num_steps == run.num_steps:
        measured = f"{run.seconds / calm_seconds:.3f}"
    middle, half = ratio_at(run.recoveries)
    lost = f"{least}{(middle - 1) * EVERY_SECONDS:.1f} s" + (f" ± {half * EVERY_SECONDS:.1f}" if half else "")
    ratio = f"{least}{middle:.3f}" + (f" ± {half:.3f}" if half else "")
    if any(recovery.least_lost_seconds > EVERY_SECONDS for recovery in run.recoveries):
        ratio += " (overlapping)"
    cells = (run.name, str(len(run.recoveries)), f"{every:g} s", steps, minutes, measured, lost, ratio)
    return f"| {' | '.join(cells)} |"


def _least(recoveries: Sequence[Recovery]) -> str:
    """Return the sign of a lower bound if a recovery was given up."""
    return "≥ " if any(recovery.lost_seconds is None for recovery in recoveries) else ""


def _phases(name: str, kind: str, recoveries: Sequence[Recovery]) -> str:
    launches = "/".join(sorted({str(recovery.num_launches) for recovery in recoveries}))
    cells = [name, kind, str(len(recoveries)), launches]
    for words in MOMENTS.values():
        values = [seconds for recovery in recoveries if (seconds := recovery.phases.get(words)) is not None]
        cells.append(f"{median(values):.2f}" if values else "")
    cells.append(_least(recoveries) + f"{median(recovery.least_lost_seconds for recovery in recoveries):.1f}")
    return f"| {' | '.join(cells)} |"
