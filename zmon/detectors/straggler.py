"""The job moves: is it one rank, or one host's link, that holds all the others back?

In a synchronous step everybody waits for the rank whose own part takes longest. One that is late again and again points
at its host, one that changes from step to step at the data; of the latter nothing is said here. Where all are as quick
as each other and wait longer in collectives it is the network, and connections name the host. Where a rank has more of
the work than others its time is no lag: that is `imbalance`. Ranks that are slower by design (a longer pipeline stage,
logging on rank 0) cost as much as a slow GPU does, and are told alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from zmon.detectors.parts.burdens import starved, throttled
from zmon.detectors.parts.network import slow_host
from zmon.detectors.parts.selves import Lag, Selves
from zmon.detectors.parts.slow import NEXT, SHOWN, held_up, late_by_phase, ms, saved_seconds, slowest, took
from zmon.detectors.parts.verdict import drain, verdict
from zmon.detectors.parts.wording import ranks_on
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot
from zmon.schema.thresholds import Most, Part, Thresholds, Times


@dataclass(frozen=True)
class Straggler(Thresholds):
    """Thresholds."""

    slower_ratio: float = 0.2  # of what the others take: 5 % is what two healthy hosts may differ by
    cost_ratio: Part = 0.15  # of the step: less is seldom worth a restart
    over_ratio: Part = 0.5  # of both: below it, it is over
    num_steps: int = 12  # four for each third, whose median one odd step leaves alone
    lasting_seconds: float = 3.25  # in each third of it: two seconds of contention reach into all three only if longer
    chance_ratio: float = 4.25  # deviations beyond chance, of two ranks; how often it errs: python -m bench.straggler
    input_ratio: Most = 0.67  # of the lag is waiting for data: then the cause is input; a third or less: compute
    grown_ratio: float = 0.2  # of a good step, by which the collectives take longer
    exposed_ratio: Part = 0.5  # of the step in collectives, where good ones are no better
    young_exposed_ratio: Part = 0.25  # where no good one is known yet: at `quicker_ratio` 60 % of it is `cost_ratio`
    quicker_ratio: Times = 2.5  # links among others to those of one host: quiet 1.4 at most, at a tenth 4.6 at least
    alike_ratio: Times = 1.6  # below it links are as quick as each other again
    busy_seconds: float = 0.1  # of some seconds, and all of a host's connections: below that they hold up nobody
    explained_ratio: Part = 0.5  # of what was lost: some waiting is hidden behind what the process did meanwhile
    starved_ratio: Times = 2.0  # a host's waiting to the most that another one shows: below it all are busy
    name = "straggler"
    separate = False
    causes = (
        "compute_straggler",
        "input_straggler",
        "network_slow",
        "thermal_throttle",
        "host_pressure",
        "unknown",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alike_ratio > self.quicker_ratio:
            raise ValueError(f"alike_ratio is {self.alike_ratio:g}, more than quicker_ratio, {self.quicker_ratio:g}")

    def sees(self, snapshot: Snapshot, finding: Finding) -> bool:
        """While steps arrive; and it is over well below the thresholds only, so that it does not come and go.

        And once there is nobody to compare, or the rank that was named is gone.
        """
        running = _running(snapshot)
        there = {r.rank for r in (*running, *snapshot.unwatched)}
        if not running or snapshot.world_size < 2 or not there.issuperset(finding.ranks):
            return True
        if self.inert(snapshot) or any(r.overdue_seconds > 0 for r in running):
            return False
        selves = Selves.of(snapshot.steps).without_work()
        taken = selves.covering(self.num_steps, self.lasting_seconds)
        if taken is None:
            return False
        if finding.cause == "network_slow":
            told = [w.host for w in snapshot.hardware if w.recent and w.now.tcp]
            if len(told) > 2 and slow_host(snapshot, self.alike_ratio, self.busy_seconds) is None:
                return True
            steps, part = snapshot.steps[-taken:], self.over_ratio
            return not held_up(steps, snapshot.baseline, part * self.grown_ratio, self._exposed_ratio(snapshot))
        if finding.cause == "thermal_throttle" and not any(w.now.gpus for w in snapshot.hardware):
            return False
        least = self.over_ratio * self._least(selves, taken)
        return all(selves.caught_up(rank, taken, least) for rank in finding.ranks)

    def inert(self, snapshot: Snapshot) -> str | None:
        """Where ranks cannot be compared."""
        if snapshot.world_size < 2:
            return "it has one rank"
        if snapshot.missing or snapshot.unwatched:
            return "some of its ranks are in nobody's sight"
        return None if snapshot.steps else "no step is known of all its ranks yet"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """The ranks that are late; else the host whose link is slow; else the GPU that holds its clock down."""
        if self.inert(snapshot) or not _running(snapshot):
            return ()
        selves = Selves.of(snapshot.steps)
        taken = selves.covering(self.num_steps, self.lasting_seconds)
        found = None
        if taken is not None:
            found = self._late(snapshot, selves, taken) or self._network(snapshot, snapshot.steps[-taken:])
        found = found or self._hot(snapshot)
        return (replace(found, op=None, sequence=None),) if found else ()  # whatever they are in just now

    # -- a rank ----------------------------------------------------------------------------------------

    def _least(self, selves: Selves, taken: int) -> float:
        """What a rank must be behind."""
        step = median(step.seconds for step in selves.steps[-taken:])
        return max(self.slower_ratio * selves.typical(taken), self.cost_ratio * step)

    def _late(self, snapshot: Snapshot, selves: Selves, taken: int) -> Finding | None:
        alone: Selves | None = None  # without what more work explains
        hot = {one.state.rank for one in throttled(snapshot) if one.hot}
        for looked_at in (taken, 3 * taken // 2, 2 * taken):  # a longer one sees through more noise
            if len(snapshot.steps) < (looked_at if hot else 2 * looked_at):  # too few to know what chance does
                return None
            held = {lag.rank for lag in selves.lags(looked_at, self._least(selves, looked_at))}
            if not held:
                continue  # whatever the work, nobody waits for anybody
            alone = alone or selves.without_work()
            lags = [lag for lag in self._sure(alone, looked_at, hot) if lag.rank in held]
            alike = [lag for lag in lags if lag.seconds >= lags[0].seconds / 2]
            by_design = len(alike) > 1 and 2 * len(alike) >= snapshot.world_size  # stages of a pipeline
            if alike and not by_design:
                return self._finding(snapshot, alone, alike, looked_at)
        return None

    def _sure(self, selves: Selves, taken: int, hot: set[int]) -> list[Lag]:
        """Lags beyond chance, or whose GPU says so itself. A part of a step, waiting for data or the rest, has less of
        chance than all of it."""
        least = self._least(selves, taken)
        late = selves.lags(taken, least)
        told = [lag for lag in late if lag.rank in hot]
        if told or not late or len(selves.steps) < 2 * taken:
            return told
        sure = selves.lags(taken, least, self.chance_ratio)
        if sure:
            return sure
        in_part = [lag.rank for own in selves.split("data") for lag in own.lags(taken, least, self.chance_ratio)]
        return [lag for lag in late if lag.rank in in_part]

    def _finding(self, snapshot: Snapshot, selves: Selves, lags: list[Lag], taken: int) -> Finding:
        worst, steps = lags[0], snapshot.steps
        lasting = selves.lasting(worst, taken)
        seconds = median(step.seconds for step in steps[-taken:])
        since = sum(step.stands_for * step.seconds for step in steps[-lasting:])
        ranks = {lag.rank for lag in lags}
        culprits = [r for r in snapshot.ranks if r.rank in ranks]
        first = next((r for r in culprits if r.rank == worst.rank), culprits[0])
        phases = late_by_phase(selves.steps[-taken:], worst.rank)
        of_data = self._of_data(selves, worst, taken, phases)
        cause, says, detail = self._cause(snapshot, culprits, first, of_data, worst.seconds / seconds * since)
        saved = median(saved_seconds(step, ranks) for step in steps[-taken:])
        num_steps = sum(step.stands_for for step in steps[-lasting:])
        phase = max(phases, key=lambda p: phases[p])
        slower = worst.seconds / max(worst.others_seconds, 1e-6)
        return verdict(
            snapshot,
            detector=self.name,
            cause=cause,
            severity="warning",
            culprits=culprits,
            seconds_ago=since,
            confidence=round(0.7 + 0.25 * lasting / len(steps), 2),
            stalled=False,
            lost_ratio=saved / seconds,
            summary=f"{ranks_on(culprits)} holds the others back: {ms(worst.others_seconds + worst.seconds)} of its "
            f"own a step against {ms(worst.others_seconds)}, {slower:.0%} more than the "
            f"median of the others (threshold {self.slower_ratio:.0%}) and {worst.seconds / seconds:.0%} of the step "
            f"(threshold {self.cost_ratio:.0%}), mostly in {phase} (+{ms(phases[phase])}), for {num_steps} steps"
            f"{says}; as quick as the others it would save {ms(saved)} of {ms(seconds)} a step",
            detail=detail,
            evidence=Evidence(
                own_seconds=slowest(selves.steps[-taken:]),
                lag_seconds={str(lag.rank): round(lag.seconds, 6) for lag in lags[:SHOWN]},
                lag_by_phase_seconds={name: round(late, 6) for name, late in phases.items()},
                step_seconds=seconds,
                saved_seconds=saved,
                num_steps=num_steps,
            ),
        )

    def _of_data(self, selves: Selves, lag: Lag, taken: int, phases: dict[str, float]) -> float:
        """How much of a lag is waiting for data: what of it is beyond chance; by length where all of it is, or none."""
        least = (1 - self.input_ratio) * lag.seconds
        in_data, beside = (
            any(part.rank == lag.rank for part in own.lags(taken, least, self.chance_ratio))
            for own in selves.split("data")
        )
        late = sum(seconds for seconds in phases.values() if seconds > 0)
        of_data = phases.get("data", 0.0) / late if late else 0.0
        return of_data if in_data == beside else float(in_data)

    def _cause(
        self, snapshot: Snapshot, culprits: list[RankState], first: RankState, of_data: float, lost: float
    ) -> tuple[str, str, str]:
        """In one word, in many, and what to do."""
        held = next((one for one in throttled(snapshot) if one.state.rank == first.rank), None)
        if held is not None and held.hot:
            return "thermal_throttle", f"; {held.says}", held.advice
        pressed = starved(snapshot, culprits, lost, self.explained_ratio, self.starved_ratio)
        if pressed is not None:
            return "host_pressure", f"; {pressed.says}", NEXT["host_pressure"].format(first.host, first.pid)
        if of_data >= self.input_ratio:
            return "input_straggler", "", NEXT["input_straggler"].format(first.host, first.pid)
        if of_data <= 1 - self.input_ratio:
            detail = NEXT["compute_straggler"].format(first.host, first.pid)
            also = f"; {held.says}" if held else ""
            return "compute_straggler", also, f"{detail} If it is the host: {drain(first.host)}."
        return "unknown", "", NEXT["unknown"].format(first.host, first.pid)

    def _hot(self, snapshot: Snapshot) -> Finding | None:
        """A GPU that is too hot, before it costs as much as is worth a warning."""
        hot = [one for one in throttled(snapshot) if one.hot]
        if not hot:
            return None
        return verdict(
            snapshot,
            detector=self.name,
            cause="thermal_throttle",
            severity="info",
            culprits=[one.state for one in hot],
            seconds_ago=0.0,
            confidence=0.6,
            stalled=False,
            summary=f"{ranks_on([one.state for one in hot])}: {hot[0].says}; it does not hold the others back by as "
            f"much as {self.cost_ratio:.0%} of a step yet",
            detail=hot[0].advice,
            evidence=Evidence(throttled={one.gpu.uuid: tuple(one.reasons) for one in hot[:SHOWN]}),
        )

    def _exposed_ratio(self, snapshot: Snapshot) -> float:
        return self.young_exposed_ratio if snapshot.baseline is None else self.exposed_ratio

    def _network(self, snapshot: Snapshot, steps: Sequence[AlignedStep]) -> Finding | None:
        """The host whose link is slow."""
        if not held_up(steps, snapshot.baseline, self.grown_ratio, self._exposed_ratio(snapshot)):
            return None
        accused = slow_host(snapshot, self.quicker_ratio, self.busy_seconds)
        if accused is None:
            return None
        exposed, seconds, good = took(steps, snapshot.baseline)
        was = "" if good is None else f" ({ms(good)} while the job was well)"
        return verdict(
            snapshot,
            detector=self.name,
            cause="network_slow",
            severity="warning",
            culprits=(),
            hosts=(accused.host,),
            seconds_ago=sum(step.stands_for * step.seconds for step in steps),
            confidence=accused.confidence,
            stalled=False,
            lost_ratio=None if good is None else max(exposed - good, 0.0) / seconds,
            summary=f"the network of {accused.host} holds the others back: {accused.says} (threshold "
            f"{self.quicker_ratio:g} times); {ms(exposed)} of a step's {ms(seconds)} go by in collectives{was}, and no "
            "rank is late for them",
            detail=NEXT["network_slow"].format(accused.host, accused.device or "IFACE")
            + f" If it does not get better: {drain(accused.host)}.",
            evidence=Evidence(
                device=accused.device,
                step_seconds=seconds,
                exposed_seconds=exposed,
                good_exposed_seconds=good,
            ),
        )


def _running(snapshot: Snapshot) -> list[RankState]:
    return [r for r in snapshot.ranks if r.alive and r.activity != "done"]
