"""The time account of a job: its wall-clock over all launches, divided into time categories, which sum to it. Pure.

- One rank leads: its box has, to the nanosecond, the time that it spent in steps and in activities between them. The
  two sum to its age, so no time is lost if an update is late or the hub was down.
- The records of all ranks show how a step divides into categories (zmon/job/efficiency.py). If steps are sampled, one
  step stands for those since the sample before.
- `stall`: while a finding reports that nothing moves, the time of the unfinished step beyond a typical one.
- `restart`: from the last sign of one launch to the first sign of the next.
- `unknown`: the rest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from zmon.job.efficiency import step_categories
from zmon.job.restarts import seconds_since_start
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.curve import IMBALANCE
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import BETWEEN_STEPS
from zmon.schema.rank import RankState

_LONGER_FACTOR = 3.0  # × a typical step: steps without records may be longer than typical by this factor …
_LONGER_SECONDS = 1.0  # … plus this time
_OTHER_JOB_SECONDS = 86400.0  # a job that reappears under its id after a longer gap is another job
_SETTLED_SECONDS = 5.0  # after the end of a launch, the time by which the records of its last steps have arrived
_STALLED_STEPS = 4.0  # × a typical step; a finding outlives its stall by some steps
_SET_BACK_SECONDS = 5.0  # clocks that follow a time server differ by less


class LaunchTime(msgspec.Struct):
    """The accounted time of one launch. Stored on disk; `name` is the stored name of a field that has another one."""

    run_uid: str  # run uid of the leading rank
    between: dict[str, float] = msgspec.field(default_factory=dict)  # activity → seconds
    step_seconds: float = 0.0
    unsplit: float = 0.0  # part of `step_seconds` that is not divided into categories yet
    stalled: float = 0.0  # stall of the unfinished step
    ended_stall: float = msgspec.field(default=0.0, name="over")  # stall of a finished step that awaits its records
    stalled_step: int = 0  # the step of that stall
    last_split_step: int = msgspec.field(default=0, name="told")  # the last step whose records have arrived
    cut_off: float = 0.0  # time of the unfinished step when the launch ended
    unsaved: float = 0.0  # time in steps since the last checkpoint
    done: bool = False


@dataclass
class Account:
    """The time account of one job, in seconds. Stored on disk under the names of these fields.

    `causes` has wall-clock by time category; `gpu_seconds` has the same for all ranks together.
    """

    job_id: str
    causes: dict[str, float] = field(default_factory=dict)
    gpu_seconds: dict[str, float] = field(default_factory=dict)
    in_steps: float = 0.0  # without stalls
    lost: float = 0.0  # part of `in_steps` after the last checkpoint of launches that were cut off
    ever_saved: bool = False
    until: float | None = None  # unix time of the hub; the time before it is accounted for
    doubt: str = ""  # why goodput is unknown
    start: LaunchTime | None = None  # the current launch
    # The time accounted for before operations were followed, by an earlier zmon; None: they are not followed yet.
    peak_start: float | None = None
    peak_seconds: float = 0.0  # time that the operations since then take at the peak of the job's devices
    launch_steps: int = 0  # finished steps of the current launch
    unrated_steps: int = 0  # finished steps that `peak_seconds` does not include yet
    tensor_seconds: float = 0.0  # time in which the tensor cores of the job's GPUs worked, a mean over all of them
    tensor_known_seconds: float = 0.0  # time of which that is known
    tensor_restart: float | None = None  # the time in restarts before it was known first; None: never known
    histogram: list[int] = field(default_factory=list)  # number of steps by duration
    histogram_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """The wall-clock of the job so far."""
        return sum(self.causes.values())

    @property
    def goodput_ratio(self) -> float | None:
        """The share of wall-clock in steps whose work was kept; None if unknown (see `doubt`) or no time passed yet."""
        seconds = self.seconds + (self.start.unsplit if self.start else 0.0)
        return None if self.doubt or not seconds else min((self.in_steps - self.lost) / seconds, 1.0)

    @property
    def flops_ratio(self) -> float | None:
        """The operations of the job, relative to the peak of its devices over wall-clock; None: no time passed yet."""
        seconds = self.seconds + (self.start.unsplit if self.start else 0.0) - (self.peak_start or 0.0)
        return self.peak_seconds / seconds if seconds > 0 else None

    def add_operations(self, seconds_at_peak: float) -> None:
        """Add the operations of the finished steps, given the time that those of one step take at the peak.

        Steps of which nothing was known when they were finished count like the later ones.
        """
        self.peak_seconds += self.unrated_steps * seconds_at_peak
        self.unrated_steps = 0

    @property
    def tensor_ratio(self) -> float | None:
        """The share of wall-clock in which the tensor cores worked, restarts included; None: not known for any time."""
        if self.tensor_restart is None:
            return None
        return self.tensor_seconds / (self.tensor_known_seconds + self._restart - self.tensor_restart)

    def add_tensor_time(self, ratio: float, seconds: float) -> None:
        """Add time in which the tensor cores of all GPUs worked for this share."""
        if seconds > 0:
            self.tensor_restart = self._restart if self.tensor_restart is None else self.tensor_restart
            self.tensor_seconds += ratio * seconds
            self.tensor_known_seconds += seconds

    @property
    def _restart(self) -> float:
        return self.causes.get("restart", 0.0)

    def is_other_job(self, snapshot: Snapshot) -> bool:
        """Return True if the snapshot is of another job, which only has the same id as the job of this account."""
        launch = self.start
        if launch is None or self.until is None or not self._is_new(snapshot):
            return False
        began = snapshot.time - seconds_since_start(snapshot.reported_ranks[0])
        return launch.done or began - self.until > _OTHER_JOB_SECONDS

    def update(self, snapshot: Snapshot, steps: Sequence[AlignedStep], typical_seconds: float, stalled: bool) -> None:
        """Account for the time since the last update; `steps` are those that became complete since then."""
        if self._is_new(snapshot):
            self._begin(snapshot)
        launch = self.start
        lead = next((r for r in snapshot.ranks if launch and r.run_uid == launch.run_uid), None)
        if launch is None or lead is None:  # the rank is unwatched; its box will have the time that passes meanwhile
            return
        if self.peak_start is None:
            self.peak_start = self.seconds + launch.unsplit
            self.launch_steps = lead.steps if launch.step_seconds else 0
        size = snapshot.world_size
        self._add_activities(launch, lead, size)
        self._add_steps(launch, lead)
        if lead.activity == "train":
            self._add_open_step(launch, lead, typical_seconds, stalled, size)
        self._split(launch, lead, steps, typical_seconds, snapshot)
        launch.done = lead.activity == "done"
        ended = lead.open_seconds if launch.done else lead.gone_seconds or 0.0
        if ended > _SETTLED_SECONDS:
            self._add("unknown", launch.unsplit, size)
            launch.unsplit = 0.0
        self.until = max(snapshot.time - ended, self.until or 0.0) if ended else snapshot.time

    def _add_activities(self, launch: LaunchTime, lead: RankState, size: int) -> None:
        """Add the time outside steps, by activity."""
        # A newer agent may have more activities than BETWEEN_STEPS.
        activities = dict.fromkeys((*BETWEEN_STEPS, "train", *lead.between_seconds, lead.activity))
        for activity in activities:
            if activity == "done":
                continue
            total_seconds = lead.between_seconds.get(activity, 0.0)
            if activity == lead.activity and activity != "train":
                total_seconds += _open_seconds(lead)
            new_seconds = total_seconds - launch.between.get(activity, 0.0)
            if new_seconds <= 0:
                continue
            launch.between[activity] = total_seconds
            if activity == "train":  # the stalled time belongs to no step
                stall_seconds = min(launch.stalled, new_seconds)
                launch.stalled -= stall_seconds
                new_seconds -= stall_seconds
            self._add("other" if activity == "train" else activity, new_seconds, size)

    def _add_steps(self, launch: LaunchTime, lead: RankState) -> None:
        """Add the time of finished steps, and update the part of it that no checkpoint has saved."""
        self.unrated_steps += max(lead.steps - self.launch_steps, 0)
        self.launch_steps = max(lead.steps, self.launch_steps)
        new_seconds = lead.step_seconds_total - launch.step_seconds
        if new_seconds > 0:  # if a step had stalled, it is finished now
            moving = new_seconds - min(launch.stalled, new_seconds)
            launch.step_seconds += new_seconds
            launch.unsplit += moving
            launch.ended_stall += launch.stalled
            launch.stalled = 0.0
            launch.unsaved += moving
            self.in_steps += moving
        if lead.last_checkpoint_time is not None:
            self.ever_saved = True
            since = (lead.last_step_time or 0.0) - lead.last_checkpoint_time  # both by the rank's clock
            launch.unsaved = min(launch.unsaved, max(since, 0.0))

    def _add_open_step(self, launch: LaunchTime, lead: RankState, typical: float, stalled: bool, size: int) -> None:
        """Add the certain part of the unfinished step: a stall, or all of it if the rank died."""
        unfinished = _open_seconds(lead)
        if not lead.alive:
            self._add("restart", unfinished - launch.stalled - launch.cut_off, size)
            launch.cut_off = max(unfinished - launch.stalled, launch.cut_off)
        elif stalled and unfinished > max(_STALLED_STEPS * typical, launch.stalled + typical):
            self._add("stall", unfinished - typical - launch.stalled, size)
            launch.stalled = unfinished - typical
            launch.stalled_step = lead.step

    def move_times(self, seconds: float) -> None:
        """Move the times along with the hub's clock, which was set by these seconds."""
        self.until = None if self.until is None else self.until + seconds

    def observe(self, steps: Sequence[AlignedStep], bounds: Sequence[float]) -> None:
        """Count the durations of steps in a histogram with these upper bounds and one bucket above them."""
        self.histogram = self.histogram or [0] * (len(bounds) + 1)
        for step in steps:
            self.histogram[bisect_left(bounds, step.seconds)] += step.stands_for
            self.histogram_seconds += step.seconds * step.stands_for

    def _is_new(self, snapshot: Snapshot) -> bool:
        """Return True if all ranks of another launch are known; before that, the leading rank may be missing."""
        return not snapshot.missing and not any(
            self.start and r.run_uid == self.start.run_uid for r in snapshot.reported_ranks
        )

    def _begin(self, snapshot: Snapshot) -> None:
        """Begin a new launch. The time since the last one is its restart."""
        previous = self.start
        lead = snapshot.reported_ranks[0]
        if previous is not None and self.until is not None:
            gap = snapshot.time - seconds_since_start(lead) - self.until
            if gap < -_SET_BACK_SECONDS:
                self.doubt = "the hub's clock was set back between two launches: the length of a restart is unknown"
            self._add("restart", gap, snapshot.world_size)
            self._add("unknown", previous.unsplit, snapshot.world_size)
            if not previous.done:
                self.lost += previous.unsaved
                if not self.ever_saved and previous.unsaved:
                    self.doubt = "zmon saw no checkpoint before a restart: the time that the restart lost is unknown"
        self.start = LaunchTime(lead.run_uid)
        self.launch_steps = 0

    def _split(
        self, launch: LaunchTime, lead: RankState, steps: Sequence[AlignedStep], typical: float, snapshot: Snapshot
    ) -> None:
        """Divide the time in steps into categories, in the proportions of the steps that have arrived."""
        alone = lead.rank if snapshot.uncompared else None
        for step in steps:
            self._split_step(launch, lead, step, snapshot.world_size, alone)
        launch.last_split_step = steps[-1].step if steps else launch.last_split_step
        awaited_seconds = (lead.step - launch.last_split_step + 1) * typical
        missing_seconds = launch.unsplit - _LONGER_FACTOR * awaited_seconds - _LONGER_SECONDS
        if launch.last_split_step and missing_seconds > 0:  # the records of these steps will not arrive any more
            self._add("unknown", missing_seconds, snapshot.world_size)
            launch.unsplit -= missing_seconds

    def _split_step(
        self, launch: LaunchTime, lead: RankState, step: AlignedStep, world_size: int, alone: int | None
    ) -> None:
        """Divide the time for which one step stands; `alone` is the leading rank if ranks are not compared."""
        categories = step_categories(step, alone)
        seconds = (step.mean or step).seconds_of(lead.rank) * step.stands_for
        lead_seconds = step.seconds_of(lead.rank)
        if launch.ended_stall and step.step >= launch.stalled_step:  # the stall has been added already
            if step.step == launch.stalled_step:  # the stall was in the longest category
                longest = max(categories, key=lambda category: categories[category])
                categories[longest] = max(categories[longest] - launch.ended_stall, 0.0)
                lead_seconds -= launch.ended_stall
            if step.step - step.stands_for < launch.stalled_step:
                seconds -= launch.ended_stall
            launch.ended_stall = 0.0
        total = sum(categories.values())
        if not total:
            return
        if lead_seconds > total:  # the critical rank did something else first, and the leading rank waited for it
            categories[IMBALANCE] += lead_seconds - total
            total = lead_seconds
        seconds = min(max(seconds, 0.0), launch.unsplit)
        for category, part in categories.items():
            self._add(category, part / total * seconds, world_size)
        launch.unsplit -= seconds

    def _add(self, category: str, seconds: float, world_size: int) -> None:
        """Add to a time category; the counter never falls."""
        if seconds > 0:
            self.causes[category] = self.causes.get(category, 0.0) + seconds
            self.gpu_seconds[category] = self.gpu_seconds.get(category, 0.0) + seconds * world_size


def _open_seconds(lead: RankState) -> float:
    """Return the time from the last boundary of a rank to now, or to its death."""
    return 0.0 if lead.activity == "done" else max(lead.open_seconds - (lead.gone_seconds or 0.0), 0.0)
