"""Rows of jobs that signals ended: an owner's end is quiet, and no rank is named only because its handler ran first."""

from dataclasses import replace

from tests.build import NOW, dead, disconnected, killed, rank_state, terminated, words
from tests.detectors.stalls import QUIET, due, row
from zmon.schema.host import HostLoad, HostSample, HostWindow

A, B, C, D = HOSTS = ("node-a", "node-b", "node-c", "node-d")
UNCLEAR = due("unknown", severity="warning")
LAUNCHER_PID, OTHER_PID = 900, 4711
WATCHDOG = {"sender": OTHER_PID}  # a memory watchdog of the host


def signalled(rank, ago, host=A, sender=None, **changes):
    """Return a rank that SIGTERM ended `ago` seconds ago; the sender is a process, or unknown."""
    state = terminated(rank, ago, host=host, **changes)
    return replace(state, last_words=replace(state.last_words, sender_pid=sender))


def exited(rank, ago, sender=None):
    """Return a rank whose handler of SIGTERM in the job ended it `ago` seconds ago."""
    last_words = replace(words("exception", "builtins.SystemExit", "143", NOW - ago), sender_pid=sender)
    return dead(rank, ago, last_words=last_words, exit_status="exit code 143")


def broken(rank, ago, gone, host=A, sender=None, late=None, **changes):
    """Return a rank that lost a connection `ago` seconds ago and ended `gone` seconds ago.

    `sender` sent the signal that came before its exception, `late` the one that came after it.
    """
    lost = disconnected(rank, gone)
    last_words = replace(lost.last_words, time=NOW - ago, sender_pid=sender, late_sender_pid=late)
    return replace(lost, last_words=last_words, last_words_seconds=ago, host=host, **changes)


def waiting_for_cores(ratio):
    """Return the last minute of host A, whose processes waited for a core for this share of it."""
    before, now = (HostLoad({}, 1 << 30, 1 << 30, 0, pressure_seconds={"cpu": s}) for s in (5.0, 5.0 + 60.0 * ratio))
    return HostWindow(A, 60.0, HostSample(load=before), HostSample(load=now))


def others(*ranks, ago=1.0, **changes):
    """Return ranks that SIGTERM ended at the same time."""
    return [signalled(rank, ago, **changes) for rank in ranks]


IDLE, BUSY = {"hardware": [waiting_for_cores(0.1)]}, {"hardware": [waiting_for_cores(0.9)]}  # host A
NO_STATUS = {"exit_status": None, "world_size": 2}
NCCL_ABORTED = {"device": "GPU-0", "step_seconds": 47.0, "state_seconds": 46.0, "exit_status": "signal SIGABRT"}
SECOND_HOST = [  # the ranks of the second of two launchers: one received SIGTERM, and its neighbour lost a connection
    signalled(2, 0.8, B, max_restarts=0),
    broken(3, 0.785, 0.7, B, exit_status="signal SIGTERM", max_restarts=0),
]
BY_LAUNCHER = {"sender": LAUNCHER_PID}
BY_MPIRUN = {"exit_status": "signal SIGTERM", "max_restarts": None}
ORPHANED = {"launcher_status": "signal SIGKILL", "launcher_gone_seconds": 2.1}


def first_host(*gone):
    """Return the two ranks of the first of two launchers, which lost a connection and received a signal."""
    status = {"exit_status": "signal SIGTERM", "max_restarts": 0}
    return [broken(rank, 0.785, seconds, **status) for rank, seconds in enumerate(gone)]


SIGNALS = (
    row("the owner ends a job on several hosts", QUIET,
        [signalled(rank, 2.0 - 0.3 * (rank == 3), host) for rank, host in enumerate(HOSTS)],
        "ages differ by the delays of the reports"),
    *(row(f"a rank loses a connection before its signal and exits; a third host receives the signal {lead} s later",
          expected,
          [signalled(0, 2.0), broken(1, 1.9985, 1.8, B, exit_status="exit code 1"), signalled(2, 2.0 - lead, C),
           broken(3, 1.9985, 1.7, C, exit_status="signal SIGTERM")], note)
      for lead, expected, note in ((0.0024, QUIET, "the owner reached two hosts: no launcher reacts so soon"),
                                   (0.15, due("rank_exited", 0), "its launcher may have sent it"))),
    row("mpirun: a rank loses a connection before its signal; on a third host only exit statuses show the signal",
        UNCLEAR,
        [signalled(0, 2.0, max_restarts=None), broken(1, 1.9985, 1.8, B, exit_status="exit code 1", max_restarts=None),
         *(broken(rank, 1.9985, 1.7, C, **BY_MPIRUN) for rank in (2, 3))], "mpirun or the owner sent it"),
    row("the owner ends a job, and the handler of one rank runs 0.2 s early", QUIET,
        [exited(3, 1.2), *(exited(rank, 1.0) for rank in range(3))]),
    row("the owner ends a job whose ranks react one after the other", QUIET,
        [signalled(rank, 1.0 + 0.02 * rank) for rank in range(4)]),
    row("one rank received the signal 0.1 s before the others", due("rank_exited", 3, severity="warning"),
        [signalled(3, 1.1), *others(0, 1, 2)], **IDLE),
    row("one rank received the signal 0.1 s before the others of its host; another host received it in between",
        due("rank_exited", 3, severity="warning"), [signalled(3, 1.1), *others(2), *others(0, 1, ago=1.02, host=B)],
        **IDLE),
    row("one rank received the signal first, on a host whose processes wait for cores", UNCLEAR,
        [signalled(3, 1.3), *others(0, 1, 2)], "the kernel may let the others run later", **BUSY),
    row("one rank received the signal first, and the pressure of its host is unknown", UNCLEAR,
        [signalled(3, 1.3), *others(0, 1, 2)]),
    row("one rank received the signal 0.03 s before the others", UNCLEAR, [signalled(3, 1.03), *others(0, 1, 2)],
        "torchrun looks every 0.1 s, so it may have ended the others"),
    *(row(f"another process signalled one rank {when} its launcher signalled the others, {where}",
          due("rank_exited", 1),
          [signalled(1, 2.0 + lead, host, OTHER_PID), *others(0, 2, 3, ago=2.0, **BY_LAUNCHER)])
      for lead, when in ((0.0, "at the moment in which"), (0.005, "0.005 s before"), (1.0, "1 s before"))
      for host, where in ((A, "one host"), (B, "two hosts"))),
    row("another process signalled one rank, its launcher some of the others, and one sender is unknown", UNCLEAR,
        [signalled(3, 1.1, sender=OTHER_PID), *others(0, 1, **BY_LAUNCHER), signalled(2, 1.0)]),
    *(row(f"another process signalled one rank; the others lost a connection, and then {who} signalled them", expected,
          [signalled(1, 2.0, B, OTHER_PID), *(broken(rank, 1.97, 1.9, late=late, **BY_MPIRUN) for rank in (0, 2, 3))])
      for who, late, expected in (("their launcher", LAUNCHER_PID, due("rank_exited", 1)), ("it", OTHER_PID, QUIET))),
    *(row(f"a rank receives a signal, its neighbour loses a connection {lead} s later, and mpirun ends all", expected,
          [broken(0, 2.0 - lead, 1.9, **BY_MPIRUN), signalled(1, 2.0, max_restarts=None),
           broken(2, 1.96, 1.9, B, **BY_MPIRUN), signalled(3, 1.9, B, max_restarts=None)], note)
      for lead, expected, note in (
          (0.015, QUIET, "the signal may not have reached the neighbour yet"),
          (0.03, UNCLEAR, "mpirun ends the ranks of all hosts, as the owner does"))),
    row("a rank receives a signal, and mpirun ends the only other one, on another host, 0.1 s later", QUIET,
        [signalled(0, 1.1, max_restarts=None), signalled(1, 1.0, B, max_restarts=None)],
        "no sender is known, and the owner ends a job in the same way"),
    row("a rank receives a signal, its launcher ends the other one, and the handlers of both run up to 0.2 s late",
        QUIET, [exited(0, 1.0), exited(1, 1.06)], "no sender is known, and the owner ends a job in the same way"),
    row("a launcher and its ranks are ended while no agent watches them", QUIET,
        [signalled(rank, 2.0, watched=False) for rank in range(2)], "nobody saw whether the launcher was killed"),
    row("the owner ends a job through its launcher, and one rank runs 0.5 s early", QUIET,
        [signalled(3, 1.5, **BY_LAUNCHER), *others(0, 1, 2, **BY_LAUNCHER)]),
    row("the owner signals all ranks, and one rank runs 0.5 s early", QUIET,
        [signalled(3, 1.5, sender=OTHER_PID), *others(0, 1, 2, sender=OTHER_PID)]),
    row("the handler of one rank ends it, and the others lose a connection first; the launcher signalled all", QUIET,
        [exited(3, 2.0, LAUNCHER_PID), *(broken(rank, 1.9, 1.0, **BY_LAUNCHER) for rank in range(3))]),
    row("the handler of one rank ends it, and the others lose a connection; no sender is known", due("rank_exited", 3),
        [exited(3, 2.0), *(broken(rank, 1.9, 1.0) for rank in range(3))]),
    row("the handler of one rank ends it, and the others lose a connection; the launcher signalled that rank", QUIET,
        [exited(3, 2.0, LAUNCHER_PID), *(broken(rank, 1.9, 1.0) for rank in range(3))],
        "the others had left their last words before the signal reached them"),
    row("the handler of one rank ends it, and the others lose a connection; another process signalled that rank",
        due("rank_exited", 3),
        [exited(3, 2.0, OTHER_PID), *(broken(rank, 1.9, 1.0) for rank in range(3))]),
    row("one rank received the signal first, its launcher ended its neighbour, and the other host received none",
        due("rank_exited", 3),
        [broken(0, 1.8, 1.3, B), broken(1, 1.8, 1.2, B), signalled(2, 1.88), signalled(3, 2.0)]),
    row("one rank received the signal first, its launcher ended its neighbour, and the other host may have received it",
        due("rank_exited", 3, severity="warning"),
        [*(broken(rank, 1.8, 1.7, B, exit_status=None) for rank in (0, 1)), signalled(2, 1.88), signalled(3, 2.0)],
        **IDLE),
    *(row(f"a connection is reset, and the launchers of other hosts signal their ranks after {reaction} s",
          due("connection_lost"),
          [signalled(0, 2.0 - reaction), signalled(1, 1.99 - reaction, B), broken(2, 2.0, 1.9, C),
           broken(3, 1.995, 1.9, D)]) for reaction in (0.03, 0.1)),
    *(row(f"a rank of a job with restarts left obeys a signal, the others lose it, and their launchers {did}", expected,
          [replace(r, max_restarts=2, launcher_gone_seconds=gone) for r in
           (exited(0, 2.0), *(broken(rank, 1.97, 1.9, exit_status="exit code 1") for rank in (1, 2, 3)))], note)
      for did, gone, expected, note in (
          ("live", None, due("rank_exited", 0, severity="warning"), ""),
          ("have ended", 0.9, QUIET, "torchrun restarts the job unless it received a signal itself"))),
    row("the owner ends a job, and connections break afterwards", QUIET,
        [broken(0, 1.97, 1.9), broken(1, 1.96, 1.9, B), signalled(2, 2.0, C), signalled(3, 1.98, D)]),
    row("the ranks of one host receive the signal, and those of the other raise", due("rank_exited", 3),
        [broken(0, 1.9, 1.0, B), broken(1, 1.9, 1.0, B), signalled(2, 1.99, C), signalled(3, 2.0, C)]),
    row("the ranks of one host receive the signal, and those of the other receive SIGKILL half a minute later", UNCLEAR,
        [*(killed(rank, 1.0, host=B) for rank in (0, 1)), *others(2, 3, ago=31.0, host=C)],
        "the owner may force an end, as of a host that was paused"),
    row("the ranks of one host receive the signal, and the others wait for a minute", due("rank_exited", 2),
        [*(rank_state(rank, host=B, step_seconds=62.0, overdue_seconds=60.0) for rank in (0, 1)),
         *others(2, 3, ago=61.0, host=C)]),
    row("the ranks of one host receive the signal, and the others wait for less than a minute", QUIET,
        [*(rank_state(rank, host=B, step_seconds=62.0, overdue_seconds=60.0) for rank in (0, 1)),
         *others(2, 3, ago=59.0, host=C)], "the others may have received the signal too, and save before they end"),
    row("a rank receives the signal, and the other one, of another launcher, may have received it a moment later",
        UNCLEAR, [broken(0, 1.98, 1.9, launcher="901@1", **NO_STATUS), signalled(1, 2.0, B, **NO_STATUS)],
        "kernels before 6.15 report no exit status"),
    row("the owner ends two ranks without a launcher, and a connection breaks first", QUIET,
        [broken(0, 1.98, 1.9, launcher="901@1", exit_status="signal SIGTERM", world_size=2),
         signalled(1, 2.0, B, world_size=2)]),
    row("a rank ends by its exception 0.6 s after the other one received the signal", due("rank_exited", 1),
        [broken(0, 1.98, 1.4, launcher="901@1", **NO_STATUS), signalled(1, 2.0, B, **NO_STATUS)],
        "SIGTERM would have ended it at once"),
    row("a rank ends by its exception 0.4 s after the other one received the signal", UNCLEAR,
        [broken(0, 1.98, 1.6, launcher="901@1", **NO_STATUS), signalled(1, 2.0, B, **NO_STATUS)]),
    row("NCCL aborts the ranks of the other host 45 s after a signal to one host", due("rank_exited", 3),
        [*(dead(rank, 0.6, host=B, **NCCL_ABORTED) for rank in (0, 1)),
         *(signalled(rank, 46.0 + rank / 100, C) for rank in (2, 3))]),
    row("NCCL aborts ranks of the other host 45 s after a signal to one host, and their launcher ends another one",
        due("rank_exited", 3),
        [*(dead(rank, 0.6, host=B, **NCCL_ABORTED) for rank in (0, 1)),
         dead(4, 0.6, host=B, **{**NCCL_ABORTED, "exit_status": "signal SIGTERM"}),
         *(signalled(rank, 46.0 + rank / 100, C) for rank in (2, 3))]),
    row("NCCL aborts two ranks 45 s after signals to ranks of two other hosts", due("rank_exited", 3),
        [dead(0, 0.6, host=B, **NCCL_ABORTED), dead(1, 0.7, **NCCL_ABORTED), signalled(2, 46.0, D),
         signalled(3, 46.4, C)]),
    row("NCCL aborts one rank 45 s after signals to ranks of two other hosts, and one rank still waits", QUIET,
        [rank_state(0, host=B, device="GPU-0", overdue_seconds=9.0), dead(1, 0.7, **NCCL_ABORTED),
         signalled(2, 46.0, D), signalled(3, 46.4, C)], "it may have received the signal too, and save before it ends"),
    row("SIGKILL to a launcher that takes its ranks along, and ranks of another host wait",
        due("launcher_gone", C),
        [*(rank_state(rank, host=B) for rank in (0, 1)), *others(2, 3, ago=2.0, host=C, **ORPHANED)]),
    row("SIGKILL to a launcher, one of its ranks is stopped, and ranks of another host wait", due("launcher_gone", 3),
        [*(rank_state(rank, host=B) for rank in (0, 1)), signalled(2, 2.0, C, **ORPHANED),
         rank_state(3, host=C, process_state="T", stopped_seconds=2.0, **ORPHANED)]),
    row("another process signals one rank of each of two hosts, and mpirun the others", UNCLEAR,
        [replace(exited(0, 2.0, OTHER_PID), max_restarts=None),
         *(replace(exited(rank, 1.9, LAUNCHER_PID), host=host, max_restarts=None) for rank, host in ((1, A), (3, B))),
         replace(exited(2, 1.95, OTHER_PID), host=B, max_restarts=None)],
        "an owner's `pkill` may reach mpirun before its ranks"),
    row("the owner ends the ranks of two launchers, and a connection breaks before most signals", QUIET,
        [*first_host(0.75, 0.75), *SECOND_HOST], "no launcher signals a rank before one has failed by itself"),
    row("one rank receives a signal, and the first rank of the other launcher ended by itself", due("rank_exited", 2),
        [broken(0, 0.785, 0.75, max_restarts=0), *first_host(0, 0.6)[1:], *SECOND_HOST]),
    row("a rank of the other host ends by itself in the look in which its launcher ended its neighbour",
        due("rank_exited", 3),
        [broken(0, 1.2, 0.9, B), signalled(1, 0.9, B), *others(2, ago=2.5, host=C), signalled(3, 2.51, C)]),
    *(row(f"mpirun: a rank receives a signal, the others lose a connection, and {what}", expected,
          [broken(0, 1.978, 1.95, exit_status="exit code 1", max_restarts=None),
           broken(1, 1.98, 1.95, late=OTHER_PID, **BY_MPIRUN), broken(2, 1.985, gone, B, late=late, **BY_MPIRUN),
           signalled(3, 2.0, B, sender, max_restarts=None)], note)
      for what, sender, late, gone, expected, note in (
          ("its sender signals its neighbour", OTHER_PID, OTHER_PID, 1.96, UNCLEAR, "the owner may have ended the job"),
          ("another process signals its neighbour", OTHER_PID, OTHER_PID + 1, 1.96, due("rank_exited", 3), ""),
          ("its sender signals its neighbour 0.8 s later", OTHER_PID, OTHER_PID, 1.2, due("rank_exited", 3),
           "a memory watchdog looks again"),
          ("all senders are outside the container", 0, 0, 1.96, due("rank_exited", 3), "they may be several"),
          ("its host is shut down", 1, 1, 1.96, due("rank_exited", 3), "init signals all processes"))),
    row("a memory watchdog signals a rank, and another one 4 s later, which had lost the connection",
        due("rank_exited", 0), [signalled(0, 5.0, sender=OTHER_PID, world_size=2),
                                broken(1, 4.9, 1.0, late=OTHER_PID, world_size=2)]),
    row("memory watchdogs of two hosts signal one rank each, and the others raise 1 s later", due("rank_exited", 1),
        [broken(0, 1.0, 0.9, exit_status="exit code 1"), signalled(1, 2.0, **WATCHDOG), broken(2, 1.0, 0.9, B),
         signalled(3, 1.9, B, **WATCHDOG)], "the probe would have recorded a signal to the others"),
    *(row(f"memory watchdogs of two hosts signal one rank each, the others raise, and {scene}", QUIET,
          [broken(0, 1.0, 0.9, **neighbour), signalled(1, 2.0, **{**WATCHDOG, **changes}), broken(2, 1.0, 0.9, B),
           signalled(3, 1.9, B, **WATCHDOG)], note)
      for scene, neighbour, changes, note in (
          ("one of the signalled ranks may have started the others", {}, {"local_rank": 0, "max_restarts": None},
           "its owner ends them by a signal to it"),
          ("one of the others received a signal after its exception", {"late": OTHER_PID}, {},
           "the owner reached it late"),
          ("one of the others ended by a signal", {"exit_status": "signal SIGTERM"}, {}, "it may have no record"))),
    *(row(f"the agent of the other host is down, a rank receives a signal, and its neighbour {what}", expected,
          [broken(0, 1.99, gone, max_restarts=None, launcher="901@1", **neighbour),
           signalled(1, 2.0, sender=sent_by, max_restarts=None)],
          unwatched=[rank_state(rank, host=B, launcher=f"{900 + rank}@1") for rank in (2, 3)])
      for what, gone, neighbour, sent_by, expected in (
          ("raises and exits with code 1", 0.5, {"exit_status": "exit code 1"}, OTHER_PID, UNCLEAR),
          ("raises, and its exit status is not known", 0.5, {"exit_status": None}, OTHER_PID, UNCLEAR),
          ("loses a connection before the signal", 1.95, {"exit_status": "signal SIGTERM"}, OTHER_PID, QUIET),
          ("loses a connection before the signal, and has no status", 1.95, {"exit_status": None}, None, QUIET),
          ("exits with code 1 after the signal", 0.5, {"exit_status": "exit code 1", "late": OTHER_PID}, OTHER_PID,
           QUIET),
          ("exits with code 1, and the launcher sent the signal", 0.5, {"exit_status": "exit code 1"}, LAUNCHER_PID,
           QUIET))),
    *(row(f"the ranks of a host receive a signal, a rank of another host raises {raised} s later, and {what}", expected,
          [dead(0, 1.9 - raised, host=A, exit_status="exit code 1", last_words_seconds=2.5 - raised,
                last_words=words("exception", "builtins.ValueError", "bad sample", NOW - 2.5 + raised)),
           signalled(1, 2.5 - raised - after, A, sender), *others(2, 3, ago=2.5, host=B, sender=first)], note)
      for raised, what, after, sender, first, expected, note in (
          (1.3, "its launcher ends the other one", 0.5, LAUNCHER_PID, OTHER_PID, due("rank_exited", 2), ""),
          (1.3, "the other one receives a signal too", 0.5, None, None, due("rank_exited", 2), "torchrun sent it"),
          (1.3, "the other one receives a signal 0.05 s later", 0.05, None, None, QUIET, "no launcher reacts so soon"),
          (1.3, "the other one receives a signal before that rank ends", 0.2, LAUNCHER_PID, OTHER_PID, QUIET,
           "a launcher reacts to an end"),
          (1.3, "the owner signals the other one", 0.5, OTHER_PID, OTHER_PID, QUIET, "the owner reached the host late"),
          (1.3, "launchers sent all signals", 0.5, LAUNCHER_PID, LAUNCHER_PID, QUIET, "the owner may be slow"),
          (0.1, "its launcher ends the other one", 0.5, LAUNCHER_PID, OTHER_PID, QUIET,
           "the owner may have signalled the launcher"))),
    row("the program handles SIGTERM on two hosts, and SIGKILL ends the ranks that wait", QUIET,
        [*(replace(exited(rank, 31.0, OTHER_PID), host=host) for rank, host in ((1, A), (3, B))),
         *(dead(rank, 1.0, host=host, device="GPU-1", exit_status="signal SIGABRT")
           for rank, host in ((0, A), (2, B)))],
        "its handler never ran in a rank that waits, so nothing recorded the signal"),
    row("torchrun kills a rank 30 s after its SIGTERM", due("rank_exited", 1),
        [dead(1, 31.0, exit_status="exit code 1", last_words=words("exception", "builtins.ValueError", "x", NOW - 31)),
         *others(0, 2, ago=30.9), killed(3, 1.0)]),
)  # fmt: skip
