"""Rows about what looks at a rank show: it works, it waits for its own host, or it waits for a server."""

from __future__ import annotations

from functools import partial

from tests.build import waiting
from tests.detectors.stalls import Row, job, outside, stopped
from zmon.schema.standing import Standing, WorkSigns

PAGE = "folio_wait_bit_common"
LOCK = ("futex_wait_queue", "futex_do_wait")
SAVES = Standing(waits=("",), work=WorkSigns(written_bytes_per_second=310e6, file="/ckpt/rank-2.pt"))
DOWNLOADS = Standing(waits=("",), work=WorkSigns(network_bytes_per_second=9e5))
TOKENIZES = Standing(waits=("",), work=WorkSigns(in_other_code=True))
SPINS = Standing(waits=("",))
SLEEPS = Standing(60.0, 60.0, ("hrtimer_nanosleep",), "hrtimer_nanosleep")
HUNG = "compute_hang, {}, rank 2"


def locked(seconds, waits=LOCK, **changes):
    """Return what looks show at a rank in which nothing has changed for these seconds."""
    return Standing(**{"unchanged_seconds": seconds, "waits": waits, **changes})


def served(asleep, channel="request_wait_answer", file_system=None):
    """Return what looks show at a rank that waits for the answer of a server."""
    return Standing(0.0, asleep, (channel,), channel, file_system)


def awaited(standing, seconds=5.0, lease=1.5, steps=300, **changes):
    """Return a job that waits for rank 2 in a collective, and what the hub saw of that rank."""
    times = {
        "step_seconds": seconds, "state_seconds": seconds, "lease_seconds": lease,
        "overdue_seconds": max(0.0, seconds - lease), "steps": steps,
    }  # fmt: skip
    rest = partial(waiting, seconds=seconds, lease_seconds=lease, overdue_seconds=times["overdue_seconds"], steps=steps)
    return job(outside(2, **{**times, **changes}), rest=rest, standing={2: standing} if standing else {})


def starting(standing, seconds):
    """Return a job that waits for rank 2 in its first steps."""
    return awaited(standing, seconds, 1800.0, steps=3)


def starting_loaders(seconds, *standings):
    """Return a job whose ranks have all been starting data loaders for these seconds, and what the hub saw of some."""
    lease = {"lease_seconds": 300.0, "overdue_seconds": max(0.0, seconds - 300.0)}
    rest = partial(
        outside, activity="loader_start", activity_seconds=seconds, state_seconds=seconds, step_seconds=seconds, **lease
    )
    return job(rest=rest, standing=dict(enumerate(standings)))


WORKING = (
    Row("the awaited rank saves for 25 s", HUNG.format("warning"), awaited(SAVES, 25.0),
        "it is not critical yet, because rank 2 writes 310 MB/s, last to /ckpt/rank-2.pt"),
    Row("the awaited rank moves data over TCP for 10 min", HUNG.format("warning"), awaited(DOWNLOADS, 600.0),
        "rank 2 moves 900 kB/s over TCP"),
    Row("the awaited rank gets into other functions for 10 min", HUNG.format("warning"), awaited(TOKENIZES, 600.0),
        "rank 2 runs other functions from look to look"),
    Row("the awaited rank still saves half an hour after its lease", HUNG.format("critical"), awaited(SAVES, 1802.0)),
    Row("the awaited rank uses the processor in the same functions for 25 s", HUNG.format("critical"),
        awaited(SPINS, 25.0), "critical after 20 s", "a spin and an endless loop do that too"),
    Row("the awaited rank is in init for longer than its lease, and writes", "lease_overrun, warning, rank 2",
        awaited(SAVES, 1860.0, 1800.0, activity="init", activity_seconds=1860.0), "rank 2 writes 310 MB/s"),
    Row("the awaited rank is in init for longer than its lease, and nothing shows that it works",
        "lease_overrun, critical, rank 2", awaited(None, 1860.0, 1800.0, activity="init", activity_seconds=1860.0)),
)  # fmt: skip
WAITING_FOR_ITS_HOST = (
    Row("the awaited rank waits for a lock for 4.9 s", HUNG.format("warning"), awaited(locked(4.9), 7.0)),
    Row("the awaited rank waits for a lock for 5 s", HUNG.format("critical"), awaited(locked(5.0), 7.0),
        "critical, because it waits for a lock, a pipe or a child, and nothing in it has changed for 5.0 s"),
    Row("a forgotten breakpoint in the awaited rank waits for a command", HUNG.format("critical"),
        awaited(locked(6.0, ("pipe_read",), in_debugger=True)),
        "critical, because it stands at the prompt of a debugger (pdb), and nothing in it has changed for 6.0 s"),
    Row("the awaited rank waits for the lock of a file", HUNG.format("warning"),
        awaited(locked(6.0, ("locks_lock_inode_wait",))), note="a process of another job may hold it, and release it"),
    Row("the awaited rank waits for the other end of a pipe", HUNG.format("critical"),
        awaited(locked(6.0, ("wait_for_partner",)))),
    Row("a thread of the awaited rank waits for a lock, and another thread sleeps", HUNG.format("warning"),
        awaited(locked(6.0, ("futex_do_wait", "hrtimer_nanosleep"))),
        note="a clock wakes it, and it may then release the lock"),
    Row("a thread of the awaited rank waits for a lock, and another one for the network", HUNG.format("warning"),
        awaited(locked(6.0, ("futex_do_wait", "poll_schedule_timeout.constprop.0"))), note="an upload may be answered"),
    Row("what the threads of the awaited rank wait for is unknown", HUNG.format("warning"), awaited(locked(6.0, ()))),
    Row("the awaited rank sleeps in a timer for 19 s", HUNG.format("warning"), awaited(SLEEPS, 19.0)),
    Row("steps take 2 s, and the awaited rank waits for a lock within its lease", HUNG.format("warning"),
        awaited(locked(1.0), 12.0, 33.0)),
    Row("the awaited rank waits for a lock for less than a third of its lease", "quiet",
        awaited(locked(1.0), 10.0, 33.0)),
    Row("the awaited rank began to wait for a lock 0.5 s ago, within its lease", "quiet",
        awaited(locked(0.5), 12.0, 33.0)),
    Row("the awaited rank sleeps within its lease", "quiet", awaited(SLEEPS, 20.0, 33.0),
        note="a pause of ten steps is ordinary"),
    Row("all ranks wait for locks within their lease", "quiet",
        job(rest=partial(outside, step_seconds=12.0, state_seconds=12.0, lease_seconds=33.0, overdue_seconds=0.0),
            standing=dict.fromkeys(range(4), locked(1.0))), note="no rank waits for another one"),
    Row("all ranks wait for locks", "unknown, warning, nobody",
        job(rest=outside, standing=dict.fromkeys(range(4), locked(60.0))), note="no rank waits for another one"),
    Row("the awaited rank waits for a lock in the first steps, unchanged for 60 s", HUNG.format("critical"),
        starting(locked(60.0), 130.0)),
    Row("the awaited rank waits for a lock in the first steps, unchanged for 59 s", "quiet",
        starting(locked(59.0), 130.0)),
    Row("the awaited rank compiles in the first steps", "quiet", starting(SPINS, 1700.0)),
)  # fmt: skip
STARTING_LOADERS = (
    Row("all ranks start loaders, and nothing has changed in them and their workers for 60 s",
        "lease_overrun, warning, ranks 0, 1, 2, 3",
        starting_loaders(122.0, SLEEPS, SLEEPS), "it becomes critical when the leases end"),
    Row("all ranks start loaders, and nothing has changed in one of them for 59 s", "quiet",
        starting_loaders(122.0, SLEEPS, locked(59.0))),
    Row("all ranks start loaders for 290 s, and nobody could look at them", "quiet", starting_loaders(290.0)),
    Row("all ranks start loaders, nothing has changed, and their leases have ended",
        "lease_overrun, critical, ranks 0, 1, 2, 3", starting_loaders(320.0, SLEEPS, SLEEPS)),
)  # fmt: skip
WAITING_FOR_A_SERVER = (
    Row("the awaited rank sleeps in the kernel for 5 s, for an answer of FUSE", "rank_frozen, critical, rank 2",
        awaited(served(5.0), 7.0, process_state="D", blocked_seconds=6.0),
        "critical, because a server or driver has not answered for 5.0 s"),
    Row("the awaited rank sleeps in the kernel for 4.9 s, for an answer of FUSE", "rank_frozen, warning, rank 2",
        awaited(served(4.9), 7.0, process_state="D", blocked_seconds=6.0)),
    Row("the awaited rank reads a page of a file of sshfs for 5 s", "rank_frozen, critical, rank 2",
        awaited(served(5.0, PAGE, "fuse.sshfs"), 7.0, process_state="D", blocked_seconds=6.0)),
    Row("the awaited rank reads from a pipe of a file of sshfs for 9 s", "rank_frozen, warning, rank 2",
        awaited(served(9.0, "pipe_read", "fuse.sshfs"), 12.0, process_state="D", blocked_seconds=11.0)),
    Row("the awaited rank sleeps in the kernel for 9 s, for its disk", "rank_frozen, warning, rank 2",
        awaited(served(9.0, PAGE, "ext4"), 12.0, process_state="D", blocked_seconds=11.0),
        note="a disk answers, however late"),
)  # fmt: skip
SUSPENDED = (
    Row("all processes of a host were stopped at once", "rank_frozen, warning, ranks 0, 1, 2, 3", job(rest=stopped),
        "stopped at once, as a scheduler or Ctrl-Z suspends them"),
    Row("the container of all ranks was paused", "rank_frozen, warning, ranks 0, 1, 2, 3",
        job(rest=partial(stopped, process_state="F")), "the control group of process 1000 has been frozen for 2.0 s"),
    Row("the container of one rank was paused", "rank_frozen, critical, rank 2",
        job(stopped(2, process_state="F")), "3 of 3 others wait in all_to_all"),
    Row("all processes of a host were stopped at once, half an hour ago", "rank_frozen, critical, ranks 0, 1, 2, 3",
        job(rest=partial(stopped, seconds=1800.0))),
    Row("all processes of a host were stopped one after the other", "rank_frozen, critical, ranks 0, 1, 2, 3",
        job(stopped(0, 5.0), rest=stopped)),
    Row("a debugger holds a process", "rank_frozen, warning, rank 2",
        job(outside(2, process_state="t", stopped_seconds=2.0)), "a debugger or tracer holds it"),
    Row("a debugger holds a process for 300 s", "rank_frozen, critical, rank 2",
        job(outside(2, process_state="t", stopped_seconds=300.0))),
)  # fmt: skip
