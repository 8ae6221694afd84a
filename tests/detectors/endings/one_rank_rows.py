"""Rows of jobs in which one rank ends first: who is at fault, and who only seems to be.

Unless a row says otherwise, a job has the ranks 0 to 3 on one host.
"""

from dataclasses import replace
from itertools import permutations

from tests.build import (
    DISCONNECT,
    NOW,
    dead,
    disconnected,
    finished,
    interrupted,
    killed,
    raised,
    rank_state,
    terminated,
    waiting,
    words,
)
from tests.detectors.stalls import QUIET, due, others, row

UNWATCHED = {"watched": False}  # an agent that was restarted did not see how it ended


def without_launcher(rank, gone=6.0):
    """Return a rank of an older kernel that ended with its launcher."""
    return dead(rank, gone, launcher_gone_seconds=gone)


def leaving(rank, seconds=1.0, message="bad batch 17", type_="builtins.ValueError", **changes):
    """Return a rank that has raised and whose process has not ended yet."""
    last_words = words("exception", type_, message, NOW - seconds)
    times = {"step_seconds": 5.0, "overdue_seconds": 3.5, "leaving_seconds": seconds, "last_words_seconds": seconds}
    return rank_state(rank, **{"last_words": last_words, **times, **changes})


def lost(rank, seconds, **changes):
    """Return a rank that lost a connection, and whose process has not ended yet."""
    return leaving(rank, seconds, DISCONNECT, "builtins.RuntimeError", **changes)


def left(rank, seconds):
    """Return a rank that left the loop `seconds` ago, and whose process has not ended yet."""
    return rank_state(rank, activity="done", activity_seconds=seconds, step_seconds=seconds, lease_seconds=None)


def failed(rank, gone):
    """Return a rank that lost a connection, 4 s after its last step."""
    return disconnected(rank, gone, step_seconds=gone + 4.0)


def cancelled(rank, seconds=4.0, **changes):
    """Return a rank that Ctrl-C interrupted, and whose process has not ended yet."""
    return leaving(rank, seconds, "", "builtins.KeyboardInterrupt", **changes)


def restarting(rank, gone, **changes):
    """Return the ranks of a launcher with restarts left: one was killed, and the launcher ended the others."""
    ended = [terminated(other, gone - 0.2) for other in ALL if other != rank]
    return [replace(r, max_restarts=3) for r in (killed(rank, gone, **changes), *ended)]


ALL = range(4)
AHEAD = words("exception", "builtins.ValueError", "bad batch 17", NOW - 1.2 + 30)
SLOW_STEPS = {"lease_seconds": 60.0, "overdue_seconds": 0.0}  # steps of two seconds
UNCLEAR = due("unknown", severity="warning")

ORDERS = (  # not on the page, because they differ only in the order of the ends
    *(row(f"SIGKILL to a rank; the ends are seen after {order}", due("rank_exited", 2),
          [killed(2, order[0]), *(disconnected(r, gone) for r, gone in zip((0, 1, 3), order[1:], strict=True))])
      for order in permutations((1.00, 1.03, 1.06, 1.10))),
    *(row(f"Ctrl-C: {', '.join(how.__name__ for how in mixed)}, one after the other", QUIET,
          [how(rank, 1.0 + rank * 0.03) for rank, how in enumerate(mixed)])
      for mixed in sorted({*permutations((interrupted, disconnected, interrupted, terminated))}, key=repr)),
)  # fmt: skip
ONE_RANK = (
    row("two ranks are killed at once", due("rank_exited", 0, 3),
        [killed(0, 1.0), killed(3, 1.05), disconnected(1), disconnected(2)]),
    row("a rank is killed, and a peer raised shortly before", due("rank_exited", 2),
        [killed(2, 1.0), raised(0, 1.2, "all_to_all failed"), *map(disconnected, (1, 3))],
        "deaths within 0.3 s have no order"),
    row("a rank is killed, and its peers still wait", due("rank_exited", 2), [killed(2), *others(2)]),
    row("a rank raises, and the launcher has not killed it yet", due("rank_exited", 1), [leaving(1, 2.0), *others(1)]),
    row("a rank raises, and its process ends last", due("rank_exited", 1),
        [raised(1, 1.0, last_words=words("exception", "builtins.ValueError", "x", NOW - 4)),
         *(disconnected(r, 3.5) for r in (0, 2, 3))], "Python takes seconds to end after the excepthook"),
    row("two ranks raise, the one whose process ends last first", due("rank_exited", 1),
        [raised(0, 1.2, last_words=words("exception", "builtins.KeyError", "x", NOW - 1.1)),
         raised(1, 1.1, last_words=words("exception", "builtins.ValueError", "y", NOW - 1.2)),
         disconnected(2), disconnected(3)]),
    *(row(f"a rank raises, and is seen dead {gone} s ago, around the launcher's signals to the others",
          due("rank_exited", 1),
          [raised(1, gone, last_words=words("exception", "builtins.ValueError", "x", NOW - 1.25)),
           *(terminated(rank, 1.1) for rank in (0, 2, 3))]) for gone in (1.0, 1.1, 1.2)),
    row("a rank raises on a host whose clock is 30 s ahead", due("rank_exited", 1),
        [raised(1, 1.2, host="node-b", last_words=AHEAD, last_words_seconds=1.2), *others(1, terminated)]),
    row("a rank raises while the job is cancelled", QUIET,
        [*(terminated(rank, 1.2) for rank in (0, 1, 3)), raised(2, 1.0)]),
    row("a rank has finished, another raises, and the launcher ends the others", due("rank_exited", 1),
        [raised(1, 1.1), terminated(3, last_words=words("exit", time=NOW - 60)), terminated(0), terminated(2)]),
    row("a rank raises and is still there, its peers have ended", due("rank_exited", 1),
        [leaving(1, 2.0), *others(1, disconnected)], says="bad batch 17 (process 1001 has not ended yet)"),
    row("a victim is still there, and the culprit was killed", due("rank_exited", 0),
        [lost(1, 2.0), killed(0), terminated(2), terminated(3)]),
    row("a rank raises while the other ranks move", QUIET,
        [leaving(1, overdue_seconds=0.0), *map(rank_state, (0, 2, 3))], "its exception may not end it"),
    *(row(f"a rank that lost a connection {since} s ago still ends, and the others stepped {stepped} s ago", expected,
          [lost(1, since, **{**SLOW_STEPS, "step_seconds": since + 1}),
           *(waiting(rank, stepped, **SLOW_STEPS) for rank in (0, 2, 3))])
      for since, stepped, expected in ((13.0, 14.0, due("connection_lost")), (8.0, 9.0, QUIET), (13.0, 2.0, QUIET))),
    row("a rank was killed, and its launcher has ended with restarts left", due("rank_exited", 2),
        [replace(r, max_restarts=3, launcher_gone_seconds=0.5) for r in (killed(2), *others(2, terminated))],
        says="its launcher has ended and will not restart the job"),
    row("a rank exits with a code", due("rank_exited", 3), [finished(3, exit_status="exit code 3"), *others(3)],
        says="exit code 3"),
    row("a rank was seen dead less than half a second ago", QUIET,
        [killed(0, 0.4), *(waiting(r, 0.5) for r in (1, 2, 3))], "a victim may be seen first"),
    row("a rank was seen dead half a second ago", due("rank_exited", 0),
        [killed(0, 0.5), *(waiting(r, 0.5) for r in (1, 2, 3))]),
    row("only victims have ended, and the culprit is about to", QUIET,
        [disconnected(0), disconnected(1), waiting(2, 1.0), waiting(3, 1.0)]),
    row("some ranks are victims, and nothing moves", due("unknown"),
        [disconnected(0), disconnected(1), waiting(2), waiting(3)]),
    row("victims, and ranks of a silent agent", QUIET, [disconnected(0), disconnected(1)],
        "the culprit may be there", unwatched=[waiting(2), waiting(3)]),
    row("every rank lost a connection", due("connection_lost"), [*map(disconnected, ALL)],
        says="no rank had failed before, and all 4 ranks died of it"),
    row("Ctrl-C, and half of the ranks lose a connection", QUIET,
        [interrupted(0), interrupted(1), disconnected(2), disconnected(3)]),
    row("the owner ends the job, and its ranks lose their peers", QUIET,
        [terminated(0), terminated(1, 1.01), disconnected(2, 1.005), disconnected(3)]),
    row("the owner ends the job, and two ranks train on for a moment", QUIET,
        [terminated(0), terminated(1), rank_state(2), rank_state(3)]),
    row("Ctrl-C, and two ranks hang in their teardown", QUIET,
        [cancelled(0), cancelled(1), interrupted(2), waiting(3)], "the launcher kills them soon"),
    row("Ctrl-C, and all ranks hang in their teardown", QUIET, [cancelled(rank) for rank in ALL]),
    row("Ctrl-C, and all ranks hang in their teardown for 90 s", UNCLEAR,
        [cancelled(rank, 90.0, step_seconds=95.0) for rank in ALL], "the job hangs"),
    row("a rank trains on after an exception, and hangs later", due("compute_hang", 1, severity="warning"),
        [leaving(1, 60.0, step_seconds=5.0), *others(1)]),
    row("one of two ranks ended, and no agent reports the other one", due("rank_exited", 0), [dead(0, world_size=2)]),
    row("the run finishes", QUIET, [*map(finished, ALL)]),
    row("the last ranks finish", QUIET, [finished(0), finished(1), rank_state(2), rank_state(3)]),
    row("a rank leaves the loop, the others fail, and its process still ends", due("uneven_end", 3),
        [*(failed(rank, 6.0) for rank in range(3)), left(3, 10.0)]),
    row("a rank leaves the loop after the others have failed", due("connection_lost"),
        [*(failed(rank, 6.0) for rank in range(3)), left(3, 2.0)]),
    *(row(f"a rank left 10 s ago, and the others made their last step {seconds} s ago", expected,
          [*(disconnected(rank, 4.0, step_seconds=seconds) for rank in range(3)), finished(3, 10.0)])
      for seconds, expected in ((5.0, due("uneven_end", 3)), (4.5, due("connection_lost")))),
    *(row(f"a rank is killed {gone} s ago, and its launcher has restarts left",
          due("rank_exited", 2, severity=severity), restarting(2, gone))
      for gone, severity in ((0.6, "warning"), (29.9, "warning"), (30.0, "critical"))),
    row("a rank is killed 80 s ago, and the launcher's new processes start", due("rank_exited", 2, severity="warning"),
        restarting(2, 80.0, relaunched_seconds=70.0), says="started its processes again 1 min 10 s ago"),
    row("a rank is killed 150 s ago, and the launcher's new processes never become ranks", due("rank_exited", 2),
        restarting(2, 150.0, relaunched_seconds=121.0)),
    row("a rank is killed, and its launcher has no restart left", due("rank_exited", 2),
        [replace(r, max_restarts=3, restart_count=3) for r in (killed(2), *others(2, terminated))]),
    row("the boxes of the other ranks were removed a quarter of an hour after the owner's end", QUIET,
        [disconnected(1, 899.0)]),
    row("ranks of an older kernel end with their launcher, whose parent may still report their status", QUIET,
        [without_launcher(rank, 3.0) for rank in ALL]),
    row("ranks of an older kernel end with their launcher, and one of them ended first", due("rank_exited", 2),
        [without_launcher(2, 9.0), *(without_launcher(rank, 1.0) for rank in (0, 1, 3))]),
    row("ranks ended while no agent watched them", UNCLEAR, [dead(rank, 6.0, **UNWATCHED) for rank in ALL],
        says="without last words, while no agent watched them"),
    row("ranks ended while no agent watched them, and one seems to have ended first", UNCLEAR,
        [dead(2, 9.0, **UNWATCHED), *(dead(rank, 6.0, **UNWATCHED) for rank in (0, 1, 3))], "its age is an estimate"),
    row("a rank ended while no agent watched it, and its peers lost a connection", due("rank_exited", 1),
        [dead(1, 2.0, **UNWATCHED), *others(1, disconnected)]),
    row("a rank ended while no agent watched it, and its peers wait", due("rank_exited", 1),
        [dead(1, 2.0, **UNWATCHED), *others(1)]),
    row("all ranks are killed, and their status is known", due("rank_exited", *ALL), [*map(killed, ALL)]),
    row("watched ranks end at once without last words, and their launcher lives", due("rank_exited", *ALL),
        [dead(rank, 6.0) for rank in ALL], "an owner's signal leaves last words"),
    row("ranks are killed with their launcher, whose status is not known yet", QUIET,
        [killed(rank, 1.0, launcher_gone_seconds=1.0) for rank in ALL]),
    row("ranks are killed with their launcher, and nobody reads the status of the launcher", due("rank_exited", *ALL),
        [killed(rank, 6.0, launcher_gone_seconds=6.0) for rank in ALL]),
    row("ranks are killed with their launcher, which ended with exit code 1", due("rank_exited", *ALL),
        [killed(rank, 1.0, launcher_gone_seconds=1.0, launcher_status="exit code 1") for rank in ALL]),
)  # fmt: skip
