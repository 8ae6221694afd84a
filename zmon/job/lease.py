"""The lease of a rank: the time without a sign of progress after which it is a suspect.

Each activity has a lease. Training renews its lease at every step boundary, every other activity when it begins. The
lease of training follows the recent steps: a job with steps of 20 ms is suspected after 1.5 s, a job with steps of 2 s
after half a minute. In training, the stall detector applies the shortest lease to all ranks
(zmon/detectors/hangs/as_trainers.py). The lease of any other activity follows its earlier durations on the same rank,
once there were three. The lease of initialization follows the starts of earlier launches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from zmon.schema.thresholds import Multiple, Thresholds
from zmon.stats import quantile

_SETTLED_STEPS = 20  # the first steps choose kernels and allocate memory, so that they are often long
_P99_STEPS = 100  # one long step among so many does not change their p99
MAX_JOBS = 256  # names of jobs whose starts are known, to limit memory; the name that started longest ago is forgotten
MAX_LAUNCHES = 8  # launches of one name, to limit memory and to follow the newest ones


@dataclass(frozen=True)
class Leases(Thresholds):
    """The leases by activity, and the rules by which a lease is learned from the job."""

    # The longest lease of initialization. A large job loads data, compiles, and waits for all ranks. Until the first
    # step ends, it begins anew with each change of the rank's state.
    init_seconds: float = 1800.0
    # The longest lease of an evaluation. It must suffice for a whole validation set.
    eval_seconds: float = 1800.0
    # The longest lease of a checkpoint. It must suffice for a large model on slow storage.
    checkpoint_seconds: float = 900.0
    # The longest lease of a compilation. Inductor and Triton compile a large model for minutes, on few processors.
    compile_seconds: float = 900.0
    # The longest lease of the start of loader workers. Each worker imports the job's code and opens its data. A process
    # that trains alone also has it after it started others: they may become the ranks that it waits for.
    loader_start_seconds: float = 300.0
    # The shortest lease of training. With a shorter one, a garbage collection or a page fault would exceed it.
    train_floor_seconds: float = 1.5
    # The lease of training is this value × the p99 of the step time. A pause of 10 steps is ordinary.
    train_multiple: Multiple = 15.0
    # The number of steps after which training has a lease of its own. Until then it has the lease of initialization.
    learned_after_steps: int = 5
    # A stay is the time from the beginning to the end of an activity. This is the shortest lease that is learned from
    # stays in any activity but initialization and training. A job with many short evaluations may end with a long one.
    stay_floor_seconds: float = 60.0
    # The shortest learned lease of initialization. The next start may find empty caches of files and kernels.
    init_floor_seconds: float = 120.0
    # The learned lease of an activity is this value × its longest stay so far, but at most the configured lease.
    stay_multiple: Multiple = 5.0
    # The lease of GPUs that a holder leaves idle (zmon/job/held.py). A job may need ten minutes to start, and ten
    # minutes between two launches.
    held_idle_seconds: float = 900.0
    # The number of stays in an activity (for initialization: of earlier launches) after which its lease is learned.
    # Until then it is the configured one.
    learned_after_stays: int = 3

    def seconds(self, activity: str, recent_steps: Sequence[float], stays: Sequence[float] = ()) -> float | None:
        """Return the seconds of the lease of an activity; None if it has no limit.

        `recent_steps` has the durations of the rank's recent steps, `stays` the durations of its earlier times in the
        activity, both in seconds. In initialization and in the first steps, which have the lease of initialization,
        `stays` has the starts of earlier launches.
        """
        if activity == "done":
            return None
        p99 = quantile(_without_one_pause(recent_steps), 0.99)
        if activity == "train" and p99 is not None and not self.is_starting(activity, recent_steps):
            return max(self.train_floor_seconds, self.train_multiple * p99)
        longest = {
            "eval": self.eval_seconds,
            "checkpoint": self.checkpoint_seconds,
            "compile": self.compile_seconds,
            "loader_start": self.loader_start_seconds,
        }.get(activity, self.init_seconds)  # an unknown activity has the lease of init
        if len(stays) < self.learned_after_stays:
            return longest
        floor = self.init_floor_seconds if self.is_starting(activity, recent_steps) else self.stay_floor_seconds
        return min(longest, max(floor, self.stay_multiple * max(stays)))

    def is_starting(self, activity: str, recent_steps: Sequence[float]) -> bool:
        """Return True if the rank is in initialization, or in its first steps, which have the same lease."""
        return activity == "init" or (activity == "train" and len(recent_steps) < self.learned_after_steps)


def _without_one_pause(steps: Sequence[float]) -> Sequence[float]:
    """Return the durations without the longest one, as long as a single long step would be their p99.

    A rank that pauses once for 13 s in its first minute would otherwise have a lease of three minutes for a while.
    """
    return sorted(steps)[:-1] if _SETTLED_STEPS <= len(steps) < _P99_STEPS else steps


class StartTimes:
    """The seconds that the last launches of each job took to start, by name of the job; a new agent has none.

    A start is the longest time without a step boundary until training has its own lease. This is initialization, or a
    first step, which connects and compiles.
    """

    def __init__(self) -> None:
        self._launches: OrderedDict[Hashable, OrderedDict[object, float]] = OrderedDict()

    def add(self, name: Hashable, launch: object, seconds: float) -> None:
        """Add the start of one rank; the slowest rank counts for its launch."""
        launches = self._launches.setdefault(name, OrderedDict())
        self._launches.move_to_end(name)
        launches[launch] = max(seconds, launches.get(launch, 0.0))
        if len(launches) > MAX_LAUNCHES:
            launches.popitem(last=False)
        if len(self._launches) > MAX_JOBS:
            self._launches.popitem(last=False)

    def earlier(self, name: Hashable, launch: object) -> tuple[float, ...]:
        """Return the seconds that the other launches of this name took to start."""
        return tuple(seconds for other, seconds in self._launches.get(name, {}).items() if other != launch)
