"""Report one rank, or the link of one host, that holds all other ranks back while the job moves.

In a synchronous step all ranks wait for the rank with the longest self time. If that is the same rank again and again,
its host is the likely cause. If that rank changes from step to step, the data is the likely cause, and this detector
reports nothing. If all ranks are equally fast and the exposed time is long, the network is the cause, and the
connections show which host.

A rank that has more work than others is not slow: that is `imbalance`. A rank is compared with the ranks of its role,
so a longer stage of a pipeline is not slow either. A rank that is slower by design within its role (logging on rank 0)
costs as much as a slow GPU, and is reported in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from zmon.detectors.network import slow_network
from zmon.detectors.new_finding import drain, new_finding
from zmon.detectors.slow.chance import Chance
from zmon.detectors.slow.exposed_time import exposed_too_long, may_stand_still, slow_network_finding
from zmon.detectors.slow.hardware_reasons import hot_gpu, starved_host, throttled_ranks
from zmon.detectors.slow.processor_waits import ProcessorWaits, processor_waits
from zmon.detectors.slow.self_times import Lag, SelfTimes
from zmon.detectors.slow.step_cost import (
    MAX_RANKS,
    NEXT_STEPS,
    late_by_phase,
    mean_saved_seconds,
    ms,
    slowest_self_times,
)
from zmon.detectors.wording import ranks_on, verb
from zmon.job.roles import roles
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.evidence import StragglerEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STEPS
from zmon.schema.rank import RankState
from zmon.schema.thresholds import Majority, Multiple, Share, Thresholds


@dataclass(frozen=True)
class Straggler(Thresholds):
    """The detector `straggler`."""

    # A rank is slow if its lag is at least this share of the median self time. Its lag is the time per step by which
    # its self time exceeds the median of the others: the mean of three values, the median of each third of the
    # compared steps. Two healthy hosts may differ by 5 %.
    slower_ratio: float = 0.2
    # The lag must also be at least this share of the step time. Less is seldom worth a restart.
    cost_ratio: Share = 0.15
    # A finding resolves when the lag, or the growth of the exposed time, is below this share of its threshold.
    over_ratio: Share = 0.5
    # The steps must become shorter by at least this share if the late ranks were as fast as the others, step by step.
    # Where batches differ from rank to rank, another rank is almost as late, and nothing is gained.
    saved_ratio: Share = 0.04
    # At least this many recent steps are compared. With four in each third, one odd step does not change its median.
    num_steps: int = 12
    # The compared steps must cover this time. Two seconds of contention at a stretch then fill less than half of at
    # least one third, whose median they do not change.
    lasting_seconds: float = 3.25
    # The lag must exceed chance by this many standard deviations in a job of two ranks, and by more in a larger job.
    # `python -m bench.straggler` measures the error rates.
    chance_ratio: float = 4.25
    # If all ranks were equally fast, one of them would be late in as many of the compared steps with a probability that
    # must be below this value. Where in each step a different rank is slow, one rank is late for twelve steps by chance
    # every few minutes. A smaller value delays findings: see `python -m bench.straggler` and `python -m bench.jitter`.
    rare_ratio: Share = 0.0003
    # If at least this share of the lag is waiting for data, the cause is input. If it is waiting for parameters on a
    # disk, the cause is offload. If the share of data is at most 1 minus this value, the cause is compute.
    input_ratio: Majority = 0.67
    # The exposed time is too long if it has grown by this share of the baseline's step time. Then the connections of
    # the hosts are compared.
    grown_ratio: float = 0.2
    # The exposed time is also too long if it is at least this share of the step time, whatever the baseline is.
    exposed_ratio: Share = 0.5
    # This value replaces `exposed_ratio` while the job has no baseline. A link that is slower by `quicker_ratio` wastes
    # 60 % of the exposed time, and 60 % of this value is `cost_ratio`.
    young_exposed_ratio: Share = 0.25
    # The network of a host is slow if the links between the other hosts are this many times as fast as its own. Trials
    # showed at most 1.4 on healthy networks and at least 4.6 with a link at a tenth of its rate.
    quicker_ratio: Multiple = 2.5
    # A finding about a slow network resolves if the other links are less than this many times as fast.
    alike_ratio: Multiple = 1.6
    # The links of a host are judged only if they were busy for this long in the last few seconds. Shorter traffic
    # delays no rank.
    busy_seconds: float = 0.1
    # The host is the cause if it, or the rank itself, waited for a resource for at least this share of the lost time.
    # Some waits are hidden behind other work of the process.
    explained_ratio: Share = 0.5
    # The host must also have waited more than this many times as long as any other host, or the rank as most ranks.
    # Otherwise all of them are busy.
    starved_ratio: Multiple = 2.0
    name = "straggler"
    separate = False
    causes = (
        "compute_straggler", "input_straggler", "offload_straggler", "network_slow", "thermal_throttle",
        "host_pressure", "unknown",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alike_ratio > self.quicker_ratio:
            raise ValueError(f"alike_ratio is {self.alike_ratio:g}, more than quicker_ratio, {self.quicker_ratio:g}")

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True while steps arrive and the lag is well below the thresholds, so that findings do not flicker.

        Also True once there are no ranks to compare, or once a culprit is gone.
        """
        running = snapshot.unfinished_ranks
        present = {r.rank for r in (*running, *snapshot.unwatched)}
        if not running or snapshot.world_size < 2 or not present.issuperset(finding.ranks):
            return True
        if self.inert_reason(snapshot) or any(r.overdue_seconds > 0 for r in running):
            return False
        times = _self_times(snapshot).without_work()
        num_steps = times.num_covering(self.num_steps, self.lasting_seconds)
        if num_steps is None:
            return False
        steps = snapshot.steps[-num_steps:]
        if finding.cause == "network_slow":
            return self._has_fast_network(snapshot, steps)
        if finding.cause == "thermal_throttle" and not any(w.now.gpus for w in snapshot.hardware):
            return False
        least_saved = self.over_ratio * self.saved_ratio * median(step.seconds for step in steps)
        if mean_saved_seconds(steps, set(finding.ranks)) < least_saved:
            return True
        least_seconds = self.over_ratio * self._least_seconds(times, num_steps)
        return all(times.has_caught_up(rank, num_steps, least_seconds) for rank in finding.ranks)

    def _has_fast_network(self, snapshot: Snapshot, steps: Sequence[AlignedStep]) -> bool:
        """Return True if no link is slow any more, or if the exposed time of these steps is well below its limits."""
        measured = [w.host for w in snapshot.hardware if w.recent and w.now.tcp]
        if len(measured) > 2 and slow_network(snapshot, self.alike_ratio, self.busy_seconds) is None:
            return True
        grown_ratio = self.over_ratio * self.grown_ratio
        return not exposed_too_long(steps, snapshot.baseline, grown_ratio, self._exposed_ratio(snapshot))

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return a reason if the ranks cannot be compared."""
        if snapshot.world_size < 2:
            return "it has one rank"
        if snapshot.missing or snapshot.unwatched:
            return "no agent reports some of its ranks"
        if snapshot.uncompared:
            return snapshot.uncompared
        return None if snapshot.steps else "no step of all its ranks is known yet"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return a finding about late ranks, else about a host with a slow link, else about a GPU that is too hot."""
        if self.inert_reason(snapshot) or not any(r.alive and r.activity != "done" for r in snapshot.ranks):
            return ()
        times = _self_times(snapshot)
        num_steps = times.num_covering(self.num_steps, self.lasting_seconds)
        finding = None
        if num_steps is not None:
            finding = self._late_ranks(snapshot, times, num_steps)
            finding = finding or self._slow_link(snapshot, snapshot.steps[-num_steps:])
        finding = finding or hot_gpu(snapshot, self.name, self.cost_ratio)
        return (replace(finding, op=None, sequence=None),) if finding else ()  # the op in flight is unrelated

    @property
    def _chance(self) -> Chance:
        return Chance(self.chance_ratio, self.rare_ratio)

    def _least_seconds(self, times: SelfTimes, num_steps: int) -> float:
        """Return the lag that a rank must have at least."""
        step = median(step.seconds for step in times.steps[-num_steps:])
        return max(self.slower_ratio * times.typical_seconds(num_steps), self.cost_ratio * step)

    def _late_ranks(self, snapshot: Snapshot, times: SelfTimes, fewest_steps: int) -> Finding | None:
        """Return a finding about late ranks, over as few steps as show that they are late beyond chance."""
        without_work: SelfTimes | None = None  # takes long, so it is computed only once a rank is late
        hot = {rank.state.rank for rank in throttled_ranks(snapshot) if rank.is_hot}
        waits = processor_waits(snapshot, self.starved_ratio)
        for num_steps in (fewest_steps, 3 * fewest_steps // 2, 2 * fewest_steps, 3 * fewest_steps):
            if len(snapshot.steps) < num_steps:
                return None
            late = times.lags(num_steps, self._least_seconds(times, num_steps))
            if not late:
                continue
            seconds = median(step.seconds for step in snapshot.steps[-num_steps:])
            lost_ratios = {lag.rank: lag.seconds / seconds for lag in late}
            starved = waits.explained_ranks(lost_ratios, self.explained_ratio)
            # A known reason replaces the proof that it is no bad luck. A wait for a processor must last twice as long
            # for that: the scheduler moves programs that are not bound to the core away from it, but not at once.
            explained = hot | starved if num_steps >= 2 * fewest_steps else hot
            if not explained and len(snapshot.steps) < 2 * num_steps:  # too few to estimate chance
                continue
            without_work = without_work or times.without_work()
            lags = [lag for lag in self._sure_lags(without_work, num_steps, explained) if lag.rank in lost_ratios]
            lags = [lag for lag in lags if lag.seconds >= lags[0].seconds / 2]
            if not lags or _may_be_by_design(lags, starved, snapshot.world_size):
                continue
            if finding := self._late_finding(snapshot, without_work, lags, num_steps, waits):
                return finding
        return None

    def _sure_lags(self, times: SelfTimes, num_steps: int, explained: Set[int]) -> list[Lag]:
        """Return the lags of the `explained` ranks, whose reason is known; else the lags beyond chance.

        If no lag of the whole self time is beyond chance, the lags of a part of it count: waiting for data, or the
        rest. A part varies less by chance than the whole.
        """
        least_seconds = self._least_seconds(times, num_steps)
        late = times.lags(num_steps, least_seconds)
        with_reason = [lag for lag in late if lag.rank in explained]
        if with_reason or not late or len(times.steps) < 2 * num_steps:
            return with_reason
        sure = times.lags(num_steps, least_seconds, self._chance)
        if sure:
            return sure
        parts = [part.lags(num_steps, least_seconds, self._chance) for part in times.split("data")]
        in_part = [lag.rank for lags in parts for lag in lags]
        return [lag for lag in late if lag.rank in in_part]

    def _late_finding(
        self, snapshot: Snapshot, times: SelfTimes, lags: list[Lag], num_steps: int, waits: ProcessorWaits
    ) -> Finding | None:
        """Return the finding about late ranks, the latest first; None if little is gained without their lags."""
        worst = lags[0]
        ranks = {lag.rank for lag in lags}
        steps = snapshot.steps
        step_seconds = median(step.seconds for step in steps[-num_steps:])
        saved_seconds = mean_saved_seconds(steps[-num_steps:], ranks)
        if saved_seconds < self.saved_ratio * step_seconds:
            return None
        num_lasting = times.num_lasting(worst, num_steps)
        seconds_ago = sum(step.stands_for * step.seconds for step in steps[-num_lasting:])
        num_slow_steps = sum(step.stands_for for step in steps[-num_lasting:])
        culprits = [r for r in snapshot.ranks if r.rank in ranks]
        first = next((r for r in culprits if r.rank == worst.rank), culprits[0])
        peers = next(role.ranks for role in roles(snapshot) if worst.rank in role.ranks)
        late_seconds = late_by_phase(times.steps[-num_steps:], worst.rank, peers)
        data_ratio, offload_ratio = (
            times.phase_ratio(phase, worst, num_steps, self.input_ratio, self._chance, late_seconds)
            for phase in ("data", "offload")
        )
        lost_ratio = worst.seconds / step_seconds
        starved = starved_host(snapshot, culprits, lost_ratio * seconds_ago, self.explained_ratio, self.starved_ratio)
        if starved is None and waits.explained_ranks({first.rank: lost_ratio}, self.explained_ratio):
            starved = waits.summary(snapshot, first)
        reason = self._reason(snapshot, first, data_ratio, offload_ratio, starved)
        phase = max(late_seconds, key=lambda name: late_seconds[name])
        slower_ratio = worst.seconds / max(worst.others_seconds, 1e-6)
        return new_finding(
            snapshot,
            detector=self.name,
            cause=reason.cause,
            severity="warning",
            proof=STEPS,
            culprits=culprits,
            seconds_ago=seconds_ago,
            confidence=round(0.7 + 0.25 * num_lasting / len(steps), 2),
            lost_ratio=saved_seconds / step_seconds,
            summary=f"{ranks_on(culprits)} {verb(culprits, 'holds', 'hold')} the others back: "
            f"{ms(worst.others_seconds + worst.seconds)} of self time per step against {ms(worst.others_seconds)}, "
            f"{slower_ratio:.0%} more than the median of the others (threshold {self.slower_ratio:.0%}) and "
            f"{lost_ratio:.0%} of the step (threshold {self.cost_ratio:.0%}), mostly in {phase} "
            f"(+{ms(late_seconds[phase])}), for {num_slow_steps} steps{reason.text}; if {verb(culprits, 'it', 'they')} "
            f"were as fast as the others, each step of {ms(step_seconds)} would be {ms(saved_seconds)} shorter",
            detail=reason.advice,
            evidence=StragglerEvidence(
                own_seconds=slowest_self_times(times.steps[-num_steps:]),
                lag_seconds={str(lag.rank): round(lag.seconds, 6) for lag in lags[:MAX_RANKS]},
                lag_by_phase_seconds={name: round(seconds, 6) for name, seconds in late_seconds.items()},
                step_seconds=step_seconds,
                saved_seconds=saved_seconds,
                num_steps=num_slow_steps,
            ),
        )

    def _reason(
        self, snapshot: Snapshot, first: RankState, data_ratio: float, offload_ratio: float, starved: str | None
    ) -> _Reason:
        """Return why the latest rank is late; `starved` says for how long it waited for a resource of its host."""

        def reason(cause: str, text: str) -> _Reason:
            advice = NEXT_STEPS[cause].format(host=first.host, pid=first.pid, drain=drain(first.host))
            return _Reason(cause, text and f"; {text}", advice)

        throttled = next((rank for rank in throttled_ranks(snapshot) if rank.state.rank == first.rank), None)
        if throttled is not None and throttled.is_hot:
            return _Reason("thermal_throttle", f"; {throttled.summary}", throttled.advice)
        if offload_ratio >= self.input_ratio:  # the host's pressure of I/O would only repeat it
            return reason("offload_straggler", starved or "")
        if starved is not None:
            return reason("host_pressure", starved)
        if data_ratio >= self.input_ratio:
            return reason("input_straggler", "")
        if data_ratio <= 1 - self.input_ratio:
            return reason("compute_straggler", throttled.summary if throttled else "")
        return reason("unknown", "")

    def _exposed_ratio(self, snapshot: Snapshot) -> float:
        return self.young_exposed_ratio if snapshot.baseline is None else self.exposed_ratio

    def _slow_link(self, snapshot: Snapshot, steps: Sequence[AlignedStep]) -> Finding | None:
        """Return a finding about the host, or the pair of hosts, with a slow link; None if the link may be cut."""
        if may_stand_still(snapshot.unfinished_ranks, steps):
            return None  # another detector reports a job that stands still
        if not exposed_too_long(steps, snapshot.baseline, self.grown_ratio, self._exposed_ratio(snapshot)):
            return None
        culprit = slow_network(snapshot, self.quicker_ratio, self.busy_seconds, self.alike_ratio)
        return culprit and slow_network_finding(snapshot, culprit, steps, self.quicker_ratio)


class _Reason(NamedTuple):
    """The reason for which a rank is late: the cause of the finding, a text for its summary, and the next step."""

    cause: str
    text: str  # begins with "; ", or is empty
    advice: str


def _may_be_by_design(lags: Sequence[Lag], starved: Set[int], world_size: int) -> bool:
    """Return True if half of the ranks are late, as stages of a pipeline are; nobody lets ranks starve by design."""
    are_half = len(lags) > 1 and 2 * len(lags) >= world_size
    return are_half and not starved >= {lag.rank for lag in lags}


def _self_times(snapshot: Snapshot) -> SelfTimes:
    """Return the self times of the recent steps, as if all roles took equally long."""
    return SelfTimes.from_steps(snapshot.steps).within([role.ranks for role in roles(snapshot)])
