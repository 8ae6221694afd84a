"""The lease of one rank, learned from its box: recent steps, earlier times in each activity, and earlier launches.

New steps are read once a second. The rules are in zmon/job/lease.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from zmon.box import layout, ring
from zmon.box.identity import Identity
from zmon.box.reader import BoxReader
from zmon.job.lease import Leases, StartTimes
from zmon.schema.measures import NS
from zmon.schema.names import ACTIVITIES, NAME

INTERVAL_NS = 1_000_000_000  # time between two looks at new steps
_RECENT_STEPS = 512  # the lease of training is learned from this many last steps
_RECENT_STAYS = 8  # the lease of another activity is learned from this many last stays in it
_INIT = ACTIVITIES.index("init")


class LearnedLease:
    """The current lease of a rank, and what it is learned from."""

    def __init__(self, leases: Leases, starts: StartTimes, identity: Identity, owner: int) -> None:
        self._leases, self._starts = leases, starts
        program = (identity.program, identity.world_size) if identity.program else identity.job_id
        self._name = owner, identity.labels.get(NAME) or program  # of the job in `starts`, apart from other users' jobs
        self._launch = identity.job_id, identity.attempt, identity.launcher_pid, identity.launcher_start
        self._steps: deque[float] = deque(maxlen=_RECENT_STEPS)
        self._stays: dict[str, deque[float]] = {}  # durations of the last stays in seconds, by activity
        self._first_steps: list[float] | None = []  # seconds of the first steps; None: the start is learned, or unknown
        self._read_up_to = 0  # number of the last boundary that was read
        self._boundary: ring.Row | None = None  # the last undamaged boundary
        self._first_step_done = False
        self._learned_at: int | None = None
        self._activity = ""  # the activity whose lease is in `seconds`
        self.seconds: float | None = None  # None: no limit

    def add_stay(self, activity: str, seconds: float) -> None:
        """Learn that the rank was in an activity for that long."""
        self._stays.setdefault(activity, deque(maxlen=_RECENT_STAYS)).append(seconds)

    def update(self, reader: BoxReader, activity: str, now_ns: int) -> None:
        """Learn from new steps if that is due, and set the lease of the activity. Raises BoxCorrupt."""
        if self._learned_at is None or now_ns - self._learned_at >= INTERVAL_NS:
            self.learn(reader, activity, now_ns)
        elif self._activity != activity:
            self._set(activity)

    def learn(self, reader: BoxReader, activity: str, now_ns: int) -> None:
        """Learn from new steps, and set the lease of the activity. Raises BoxCorrupt."""
        while True:
            first, raw = reader.boundaries_after(self._read_up_to, _RECENT_STEPS)
            if not raw:
                break
            seconds = self._durations(ring.boundaries(raw, first, reader.seed, reader.layout))
            if self._read_up_to == 0 and first > 1:
                self._first_steps = None  # overwritten before the agent started
            self._read_up_to = first + len(raw) // reader.layout.boundary_size - 1
            if self._first_steps is not None:
                self._learn_start(reader, self._first_steps, seconds)
            # The first step connects and compiles, so it is not typical of the others.
            self._steps.extend(seconds if self._first_step_done else seconds[1:])
            self._first_step_done = self._first_step_done or bool(seconds)
        self._learned_at = now_ns
        self._set(activity)

    def _durations(self, boundaries: Iterable[ring.Row]) -> list[float]:
        """Return the durations of the steps that end at these boundaries, if the previous boundary is undamaged too."""
        seconds = []
        for end in boundaries:
            before, self._boundary = self._boundary, end
            if (
                before is not None
                and end[layout.KIND] == layout.STEP
                and before[layout.NUMBER] == end[layout.NUMBER] - 1
            ):
                seconds.append((end[layout.STEP_NS] - before[layout.STEP_NS]) * NS)
        return seconds

    def _learn_start(self, reader: BoxReader, first_steps: list[float], seconds: list[float]) -> None:
        """Record how long the rank took to start, once training has a lease of its own."""
        first_steps += seconds
        num_steps = 1 + self._leases.learned_after_steps  # the first step does not count in the lease
        if len(first_steps) >= num_steps:
            initialization = reader.last_boundary()[layout.BETWEEN][_INIT] * NS
            self._starts.add(self._name, self._launch, max(initialization, *first_steps[:num_steps]))
            self._first_steps = None

    def _set(self, activity: str) -> None:
        is_starting = self._leases.is_starting(activity, self._steps)
        stays = self._starts.earlier(self._name, self._launch) if is_starting else self._stays.get(activity, ())
        self._activity, self.seconds = activity, self._leases.seconds(activity, self._steps, stays)
