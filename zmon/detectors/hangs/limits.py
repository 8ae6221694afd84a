"""The thresholds of the stall detector about jobs in which nothing moves, in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from zmon.job.lease import Leases
from zmon.schema.rank import RankState
from zmon.schema.thresholds import Multiple, Thresholds

# In training the hub looks once no rank has moved for this share of its lease: five times the p99 of the step time.
LOOK_RATIO = 1 / 3


def has_learned(state: RankState) -> bool:
    """Return True if a rank trains, and has a lease of its own steps."""
    return state.activity == "train" and state.steps >= Leases.learned_after_steps


@dataclass(frozen=True)
class HangLimits(Thresholds):
    """The thresholds of frozen ranks, of a job that stands still, and of the patience with silence."""

    # A rank is frozen if its process has been stopped (state T or t) for this long. A tracer such as py-spy or gdb
    # stops a process only for some milliseconds.
    stopped_seconds: float = 0.3
    # A rank past its lease is frozen if its process has been in uninterruptible sleep (state D) for this long. A read
    # from a busy file system takes less.
    blocked_seconds: float = 1.0
    # The silence of an agent after which its host may count as lost. By then, a request has timed out (1 s). A host
    # that refuses a connection, or answers another host, is not lost: its agent is down, or restarts.
    silent_seconds: float = 2.0
    # A link that is down is reported if all ranks have been inside a collective for this long.
    cut_seconds: float = 1.0
    # Ranks in collectives that can never end are reported once all of them have been inside for this long. The agents
    # look at their ranks at different moments, up to a second apart.
    conflict_seconds: float = 2.0
    # Data between two hosts does not arrive if it timed out this many times in a row. TCP sends it again about 0.2, 0.6
    # and 1.4 s after it was sent first. A single timeout may be a lost packet.
    num_timeouts: int = 2
    # Ranks that go on after all others have finished, or after the training while others wait, are reported after this
    # time, as a warning. Their last upload or report takes a while, and no step is due. So are processes whose program
    # has ended, after this time without a change.
    finishing_seconds: float = 60.0
    # The time without progress after which silence is critical, at the earliest. The first compilation, the first save
    # that no hook sees, and loader workers that start take seconds; GPUs that idle for 20 s cost little.
    critical_seconds: float = 20.0
    # Silence is critical after this value × the longest pause that healed at the same place, if that is later. The next
    # save of a growing state, or on a busier file system, takes longer than those before.
    critical_pause_ratio: Multiple = 3.0
    # Silence is critical after this time at the latest, whatever was learned. One long pause that a person ended must
    # not hide the next hang for long.
    critical_at_most_seconds: float = 300.0
    # A pause up to this value × the longest one that healed at the same place alerts nobody. Pauses that recur at every
    # epoch or save differ by less.
    quiet_pause_ratio: Multiple = 1.5
    # Silence is critical this long after the end of the leases, even if the awaited ranks still move: they change their
    # phase, enter collectives, move data or get into other functions. Until then, it is a warning: such ranks may
    # evaluate without eval mode, collect batches for a long step, save or upload. The value is the longest lease of an
    # evaluation. A job whose ranks were all suspended at once is critical after the same time. So is a job that has
    # left its training loops, if no rank waits for another one.
    moving_at_most_seconds: float = 1800.0
    # Outside training and in the first steps, the hub looks at the awaited ranks after this much silence. It reports
    # such a rank before the end of its lease if the rank waits for its own host, and nothing in it has changed for as
    # long again. Imports, compilations and connections on the host of the rank take only seconds. After the same time
    # the hub looks at processes whose program has ended. Ranks that are all inside one collective are reported after
    # twice this time if it moves no data.
    start_look_seconds: float = 60.0
    # Silence is critical once the awaited ranks have waited for a lock or a pipe of their own host, or for one answer
    # of a server or driver, for this long, while nothing changed in them. Neither a timeout nor data from the network
    # ends a wait for a lock or pipe, and slow storage answers sooner.
    proof_seconds: float = 5.0
    # A rank that skipped the collectives of a step stays a step behind the others. The sequences of collectives are
    # compared over at least this many recent steps, which shows that the shift lasts.
    num_lag_steps: int = 20
