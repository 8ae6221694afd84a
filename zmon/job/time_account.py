"""Where the wall-clock of a job went, over all its starts, so that the parts sum to it.

Pure. One rank leads: its box says to the nanosecond how long it was in steps and how long in what lies between them,
and these are its age. So nothing is lost to looks that came late, nor to a hub that was away. What a step went to is
told by all ranks side by side (zmon/job/efficiency.py); where only some steps are asked for, one speaks for those since
the one before. A stall is what a step that goes on takes beyond a usual one, while a finding says that nothing moves.
From the last sign of one start to the first of the next it is `restart`. What nobody can tell is `unknown`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from zmon.job.efficiency import step_causes
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.curve import IMBALANCE
from zmon.schema.names import BETWEEN_STEPS
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot

_SLACK, _SLACK_SECONDS = 3.0, 1.0  # steps that were not told yet may be so much longer
ANOTHER_LIFE_SECONDS = 86400.0  # a job that comes back later than that under its id is another one
_SETTLED_SECONDS = 5.0  # after its end, by which the records of its last steps are here
_STALLED_STEPS = 4.0  # typical ones: a finding outlives its stall by some steps
_SET_BACK_SECONDS = 5.0  # clocks that follow a time server differ by less


@dataclass
class Start:
    """What of one start is accounted for."""

    run_uid: str  # of the rank that leads
    between: dict[str, float] = field(default_factory=dict)  # by activity
    step_seconds: float = 0.0
    unsplit: float = 0.0  # of these, not yet divided among causes
    stalled: float = 0.0  # of the step that goes on
    over: float = 0.0  # the stall of a step that has ended: its records are not here yet
    stalled_step: int = 0  # that one
    told: int = 0  # the last step whose records came
    cut_off: float = 0.0  # of the step that its end cut off
    unsaved: float = 0.0  # in steps since the last checkpoint
    done: bool = False


@dataclass
class Account:
    """The time of one job. Seconds; those of its ranks together are `gpu_seconds`."""

    job_id: str
    causes: dict[str, float] = field(default_factory=dict)
    gpu_seconds: dict[str, float] = field(default_factory=dict)
    in_steps: float = 0.0  # without stalls
    lost: float = 0.0  # of these, done after the last checkpoint of a start that was cut off
    ever_saved: bool = False
    until: float | None = None  # unix time of the hub: all before it is accounted for
    doubt: str = ""  # why goodput is not known
    start: Start | None = None
    histogram: list[int] = field(default_factory=list)  # of its steps
    histogram_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Wall-clock of the job so far."""
        return sum(self.causes.values())

    @property
    def goodput_ratio(self) -> float | None:
        """Time in steps that were kept, of wall-clock; None: see `doubt`, or nothing is known yet."""
        seconds = self.seconds + (self.start.unsplit if self.start else 0.0)
        return None if self.doubt or not seconds else min((self.in_steps - self.lost) / seconds, 1.0)

    def another_life(self, snapshot: Snapshot) -> bool:
        """Whether this is a job that has only the id in common with the one that the account is of."""
        start, lead = self.start, snapshot.known[0]
        if start is None or self.until is None or not self._is_new(snapshot):
            return False
        return start.done or snapshot.time - _age(lead) - self.until > ANOTHER_LIFE_SECONDS

    def look(self, snapshot: Snapshot, steps: Sequence[AlignedStep], typical_seconds: float, stalled: bool) -> None:
        """Account for what passed since the last look; `steps` are those of which all ranks have told since then."""
        if self._is_new(snapshot):
            self._begin(snapshot)
        start = self.start
        lead = next((r for r in snapshot.ranks if start and r.run_uid == start.run_uid), None)
        if start is None or lead is None:  # out of sight: what passes meanwhile is in its box
            return
        size = snapshot.world_size
        self._between(start, lead, size)
        self._in_steps(start, lead)
        if lead.activity == "train":
            self._of_the_open_step(start, lead, typical_seconds, stalled, size)
        self._split(start, lead, steps, typical_seconds, size)
        start.done = lead.activity == "done"
        ended = lead.open_seconds if start.done else lead.gone_seconds or 0.0
        if ended > _SETTLED_SECONDS:
            self._add("unknown", start.unsplit, size)
            start.unsplit = 0.0
        self.until = max(snapshot.time - ended, self.until or 0.0) if ended else snapshot.time

    def _between(self, start: Start, lead: RankState, size: int) -> None:
        """What belongs to no step."""
        told = dict.fromkeys((*BETWEEN_STEPS, "train", *lead.between_seconds, lead.activity))  # a newer agent's too
        for activity in told:
            if activity == "done":
                continue
            so_far = lead.between_seconds.get(activity, 0.0)
            if activity == lead.activity != "train":
                so_far += _open(lead)
            more = so_far - start.between.get(activity, 0.0)
            if more <= 0:
                continue
            start.between[activity] = so_far
            if activity == "train":  # a step that had stalled may have become none
                spent = min(start.stalled, more)
                start.stalled -= spent
                more -= spent
            self._add("other" if activity == "train" else activity, more, size)

    def _in_steps(self, start: Start, lead: RankState) -> None:
        """Steps that have ended, and which of them no checkpoint holds."""
        grown = lead.step_seconds_total - start.step_seconds
        if grown > 0:  # the step that had stalled is over
            kept = grown - min(start.stalled, grown)
            start.step_seconds += grown
            start.unsplit += kept
            start.over, start.stalled = start.over + start.stalled, 0.0
            start.unsaved += kept
            self.in_steps += kept
        if lead.last_checkpoint_time is not None:
            self.ever_saved = True
            since = (lead.last_step_time or 0.0) - lead.last_checkpoint_time  # by one clock
            start.unsaved = min(start.unsaved, max(since, 0.0))

    def _of_the_open_step(self, start: Start, lead: RankState, typical: float, stalled: bool, size: int) -> None:
        """The step that goes on is counted when it is over, but for a stall, and where it never will be."""
        goes_on = _open(lead)
        if not lead.alive:
            self._add("restart", goes_on - start.stalled - start.cut_off, size)
            start.cut_off = max(goes_on - start.stalled, start.cut_off)
        elif stalled and goes_on > max(_STALLED_STEPS * typical, start.stalled + typical):
            self._add("stall", goes_on - typical - start.stalled, size)
            start.stalled, start.stalled_step = goes_on - typical, lead.step

    def observe(self, steps: Sequence[AlignedStep], bounds: Sequence[float]) -> None:
        """How long the steps took, in a histogram of these upper bounds and one above them."""
        self.histogram = self.histogram or [0] * (len(bounds) + 1)
        for step in steps:
            self.histogram[bisect_left(bounds, step.seconds)] += step.stands_for
            self.histogram_seconds += step.seconds * step.stands_for

    def _is_new(self, snapshot: Snapshot) -> bool:
        """Whether another start is seen, all of it: until then the one that leads may be among those not seen."""
        return not snapshot.missing and not any(self.start and r.run_uid == self.start.run_uid for r in snapshot.known)

    def _begin(self, snapshot: Snapshot) -> None:
        before, lead = self.start, snapshot.known[0]
        if before is not None and self.until is not None:
            apart = snapshot.time - _age(lead) - self.until
            if apart < -_SET_BACK_SECONDS:
                self.doubt = "the hub's clock was set back between two starts: how long a restart took is unknown"
            self._add("restart", apart, snapshot.world_size)
            self._add("unknown", before.unsplit, snapshot.world_size)
            if not before.done:
                self.lost += before.unsaved
                if not self.ever_saved and before.unsaved:
                    self.doubt = "no checkpoint was seen before a restart: what it lost is unknown"
        self.start = Start(lead.run_uid)

    def _split(self, start: Start, lead: RankState, steps: Sequence[AlignedStep], typical: float, size: int) -> None:
        """Among causes, as the steps say that are here now."""
        for step in steps:
            causes, seconds = step_causes(step), (step.mean or step).seconds_of(lead.rank) * step.stands_for
            own = step.seconds_of(lead.rank)
            if start.over and step.step >= start.stalled_step:  # it is accounted for, and was spent in the longest part
                if step.step == start.stalled_step:
                    longest = max(causes, key=lambda cause: causes[cause])
                    causes[longest] = max(causes[longest] - start.over, 0.0)
                    own -= start.over
                if step.step - step.stands_for < start.stalled_step:
                    seconds -= start.over
                start.over = 0.0
            told = sum(causes.values())
            if not told:
                continue
            if own > told:  # the last arriver did something else first, and the one that leads waited for it
                causes[IMBALANCE] += own - told
                told = own
            seconds = min(max(seconds, 0.0), start.unsplit)
            for cause, part in causes.items():
                self._add(cause, part / told * seconds, size)
            start.unsplit -= seconds
        start.told = steps[-1].step if steps else start.told
        not_told_yet = (lead.step - start.told + 1) * typical
        unseen = start.unsplit - _SLACK * not_told_yet - _SLACK_SECONDS
        if start.told and unseen > 0:  # nobody will tell of them any more
            self._add("unknown", unseen, size)
            start.unsplit -= unseen

    def _add(self, cause: str, seconds: float, world_size: int) -> None:
        """A counter never falls."""
        if seconds > 0:
            self.causes[cause] = self.causes.get(cause, 0.0) + seconds
            self.gpu_seconds[cause] = self.gpu_seconds.get(cause, 0.0) + seconds * world_size


def _open(lead: RankState) -> float:
    """Since its last boundary, as long as it lived."""
    return 0.0 if lead.activity == "done" else max(lead.open_seconds - (lead.gone_seconds or 0.0), 0.0)


def _age(lead: RankState) -> float:
    """Since it began, also of one that is gone."""
    return lead.step_seconds_total + sum(lead.between_seconds.values()) + lead.open_seconds
