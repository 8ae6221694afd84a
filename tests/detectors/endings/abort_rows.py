"""Rows of ranks that a library aborts: NCCL's watchdog aborts those that wait, gloo those that receive another size."""

from functools import partial

from tests.build import dead, disconnected, finished, job_steps, killed, rank_state, terminated, waiting, words
from tests.detectors.stalls import QUIET, due, row
from zmon.schema.rank import EnteredCollective, InFlight

# How long a rank has stood still; NCCL's timeout is 600 s by default, and shorter in some rows.
STOOD = {"step_seconds": 605.0, "state_seconds": 605.0}
STOOD_46 = {"lease_seconds": 90.0, "step_seconds": 46.0, "state_seconds": 46.0}
STOOD_50 = {"lease_seconds": 8.0, "step_seconds": 50.0, "state_seconds": 50.0}
IN_INIT = {"activity": "init", "lease_seconds": 120.0, "step": 1, "step_seconds": 46.0, "state_seconds": 46.0}
ENFORCE = "[enforce fail at gloo/alltoallv.cc:138] inLengthPerRank[myRank] == outLengthPerRank[myRank]. "
INSIDE = {"in_flight": waiting(0).in_flight, "sequences": {"0": 300}}
UNKNOWN, NO_STATUS = due("unknown"), {"exit_status": None}
HANG, EXIT, MISMATCH = partial(due, "compute_hang"), partial(due, "rank_exited"), partial(due, "collective_mismatch")


# -- on GPUs: NCCL ------------------------------------------------------------------------------------------


def aborted(rank, gone=4.0, **changes):
    """Return a rank that waited for its GPU until the watchdog aborted it without last words."""
    issued = {"exit_status": "signal SIGABRT", "sequences": {"0": 301}, "device": f"GPU-{rank}"}
    return dead(rank, gone, **{**STOOD, **issued, **changes})


def hanging(rank, **changes):
    """Return a rank that is alive and has not issued the collective in which the others waited."""
    return rank_state(rank, **{**STOOD, "overdue_seconds": 603.5, "device": f"GPU-{rank}", **changes})


def ended(rank, gone=1.0, how=terminated, **changes):
    """Return a rank that its launcher ended."""
    return how(rank, gone, **{"device": f"GPU-{rank}", **STOOD, **changes})


def issued(sequence, *ops, num_bytes=64):
    """Return what a rank has issued last, the latest first."""
    entered = tuple(EnteredCollective(op, "0", sequence - back, num_bytes) for back, op in enumerate(ops))
    return {"entered": entered, "sequences": {"0": sequence}}


def waits(rank, **changes):
    """Return a rank that lives, waits on its GPU, and has issued the collective of all ranks."""
    return hanging(rank, **{**ALIKE, "overdue_seconds": 3.0, **changes})


THREE = (0, 1, 2)
# All ranks have issued the same collective, and stood still for 46 s.
ALIKE = {"sequences": {"0": 301}, "lease_seconds": 42.7, "step_seconds": 47.0, "state_seconds": 46.0}
USUAL, SKIPPED = issued(301, "all_reduce", "all_to_all"), issued(302, "all_reduce", "all_to_all")
# The other two of four ranks, which the watchdog aborts.
OTHER_PAIR = [aborted(rank, sequences={"0": 25}) for rank in (2, 3)]

NCCL = (
    *(row(f"the watchdog aborts three ranks that wait, and the fourth hangs; {name}", HANG(3),
          [*(aborted(rank, exit_status=status) for rank in THREE), hanging(3)], says="waited for it and are gone")
      for status, name in (("signal SIGABRT", "SIGABRT"), (None, "an older kernel"))),
    row("the watchdog aborts three ranks inside a collective, and the fourth hangs", HANG(3),
        [*(aborted(rank, **INSIDE) for rank in THREE), hanging(3)]),
    row("the watchdog aborts three ranks that wait, and the fourth reads data", due("input_stall", 3),
        [*map(aborted, THREE), hanging(3, phase="data")]),
    *(row(f"the watchdog aborts three ranks that wait, and the launcher ends the fourth by {signal}", EXIT(3),
          [*map(aborted, THREE), ended(3, how=how)], says="the others had waited for it, and ended first")
      for how, signal in ((terminated, "SIGTERM"), (killed, "SIGKILL"))),
    *(row(f"the watchdog aborts three ranks, and the last words of the fourth seem {late} s older", EXIT(3),
          [*(aborted(rank, 1.0) for rank in THREE), ended(3, last_words_seconds=1.0 + late)], "agents look late")
      for late in (0.04, 0.2)),
    row("the watchdog aborts a rank, and the last words of the rank that hung on another host seem older", EXIT(3),
        [aborted(0), *(ended(rank, 4.0, sequences={"0": 301}) for rank in (1, 2)),
         ended(3, 4.0, host="node-b", last_words_seconds=4.04)]),
    row("the watchdog aborts three ranks; the fourth had read data since its last step, within its lease", EXIT(3),
        [*(aborted(rank, 1.0, **STOOD_46) for rank in THREE), ended(3, phase="data", **STOOD_46)]),
    row("the watchdog aborts one rank, and the fourth had read data for a moment only", EXIT(0),
        [aborted(0, 1.0, **STOOD_46), *(ended(rank, **STOOD_46) for rank in (1, 2)),
         ended(3, phase="data", **{**STOOD_46, "state_seconds": 2.0})]),
    row("the watchdog aborts three ranks; ranks 0 and 1 waited in the same collective of their own group", UNKNOWN,
        [aborted(0, sequences={"pair": 24, "0": 24}), ended(1, sequences={"pair": 24, "0": 24}), *OTHER_PAIR]),
    row("the watchdog aborts three ranks; ranks 0 and 1 waited in their own group, rank 0 a collective ahead", EXIT(1),
        [aborted(0, sequences={"pair": 25, "0": 24}), ended(1, sequences={"pair": 24, "0": 24}), *OTHER_PAIR]),
    *(row(f"one of two ranks waits in the group of the two, the others wait for it, and the watchdog aborts it; {name}",
          expected,
          [waits(0), waits(1), aborted(2, 1.0, **{**ALIKE, "sequences": {"0": 300, "pair": 81}}),
           waits(3, sequences={"0": 301, "pair": 83})], waiters=waiters)
      for name, expected, waiters in (
          ("its flight record shows that it waited", UNKNOWN, {2}), ("it has no flight record", EXIT(2), ()))),
    *(row(f"one rank aborts a moment after its last step; {name}", EXIT(0),
          [aborted(0, step_seconds=4.01, sequences={"0": 300}), *rest]) for name, rest in (
        ("no rank is behind", [hanging(rank, sequences={"0": 301}) for rank in (1, 2, 3)]),
        ("the others stopped after it", [hanging(r, step_seconds=3.0, overdue_seconds=1.5) for r in (1, 2, 3)]),
        ("the others are on CPUs", [hanging(rank, device="cpu") for rank in (1, 2)]))),
    row("the watchdog aborts one rank, mpirun ends the others, and kills a stopped one 5 s later", UNKNOWN,
        [aborted(0, 9.0, **ALIKE), *(ended(rank, 8.9, **ALIKE) for rank in (1, 2)), ended(3, 4.0, killed, **ALIKE)],
        "it was in the same collective, and nothing shows any more that it was stopped"),
    row("the network is cut in the first step: the watchdog aborts two ranks, the launcher ends the others", UNKNOWN,
        [*(aborted(rank, 1.0, **IN_INIT) for rank in (0, 1)), *(ended(rank, **IN_INIT) for rank in (2, 3))]),
    *(row(f"the launcher ends all others after the first abort, in {activity}", UNKNOWN,
          [aborted(2, 1.0, activity=activity, **ALIKE),
           *(ended(rank, last_words_seconds=1.05, activity=activity, **ALIKE) for rank in (0, 1, 3))])
      for activity in ("init", "train")),
    *(row(f"all ranks stand still for {seconds} s, one ends while its agent restarts, and mpirun ends the others",
          expected,
          [aborted(2, last_sign, watched=False, sequences={"0": 301}, **NO_STATUS, **stood),
           *(ended(rank, 4.0, sequences={"0": 301}, **stood) for rank in (0, 1, 3))], note)
      for seconds, last_sign, expected, note, stood in (
          (46, 49.0, UNKNOWN, "nobody saw its end: the watchdog may have aborted it", STOOD_50),
          (1, 4.9, EXIT(2), "no timeout is that short", {"step_seconds": 5.0, "state_seconds": 5.0}))),
    *(row(f"a rank skipped a collective, and the watchdog aborted {how} of the others", MISMATCH(3),
          [aborted(0, **USUAL), *(end(rank, 4.0, **USUAL) for rank in (1, 2)), ended(3, 4.0, **SKIPPED)])
      for how, end in (("all", aborted), ("one", ended))),
    row("a rank entered an all_reduce with another size", MISMATCH(3),
        [*(aborted(rank, **issued(301, "all_reduce")) for rank in THREE),
         aborted(3, **issued(301, "all_reduce", num_bytes=128))]),
    *(row(f"a rank entered an all_to_all with another size{name}", expected,
          [*(aborted(rank, **issued(301, "all_to_all")) for rank in THREE),
           aborted(3, **issued(301, "all_to_all", num_bytes=128))], note, **steps)
      for name, expected, note, steps in (
          ("", UNKNOWN, "its sizes may differ", {}),
          (", and the sizes had been equal", MISMATCH(3), "", {"steps": job_steps(16)}))),
    row("one rank entered an all_to_all with another size, another one late; the watchdog aborts one of the others",
        MISMATCH(3),
        [aborted(0, 1.0, **issued(301, "all_to_all")), ended(1, **issued(301, "all_to_all")),
         ended(2, **issued(301, "all_to_all"), state_seconds=6.0),
         ended(3, **issued(301, "all_to_all", num_bytes=128))], steps=job_steps(16)),
    row("the rank that hangs has issued the same collectives up to its position", HANG(3),
        [*(aborted(rank, **issued(301, "all_reduce", "all_to_all")) for rank in THREE),
         hanging(3, **issued(300, "all_to_all", "all_reduce"))]),
    *(row(f"one rank aborts, and {name} 12 s before", EXIT(0),
          [aborted(0, 1.0, sequences={"0": 301}, **STOOD_46),
           *(ended(rank, sequences={"0": 301}, **STOOD_46) for rank in (1, 2)),
           ended(3, sequences={"0": 301}, **{**STOOD_46, **moved})])
      for moved, name in (({"state_seconds": 12.0}, "another one moved"),
                          ({"step_seconds": 12.0}, "another one finished a step"))),
    *(row(f"NCCL aborts a rank that is behind {name}", expected,
          [aborted(0, 1.0, sequences={"0": 301}, **STOOD_46),
           *(ended(rank, sequences={"0": 302 if rank in further else 301}, **STOOD_46) for rank in (1, 2, 3))])
      for further, expected, name in (((1, 2, 3), EXIT(0), "all others"), ((3,), UNKNOWN, "one other rank"))),
    *(row(f"a rank leaves ten minutes before the watchdog aborts the others{name}", expected,
          [*map(aborted, THREE), finished(3, 604.0, device="GPU-3", sequences=sequences, step_seconds=605.0)], note)
      for name, expected, sequences, note in (
          ("", due("uneven_end", 3), {"0": 300}, ""),
          (", and has entered no collective of all ranks", due("uneven_end", 3), {"pair": 9}, ""))),
    *(row(f"one rank ends by {status} while others are behind", EXIT(0),
          [aborted(0, exit_status=status), *map(hanging, (1, 2, 3))])
      for status in ("signal SIGKILL", "signal SIGSEGV", "exit code 1")),
    row("a rank aborts on CPUs while others are behind", EXIT(0),
        [aborted(0, device="cpu"), *(hanging(rank, device="cpu") for rank in (1, 2, 3))], "there is no watchdog"),
)  # fmt: skip


# -- on CPUs: gloo ------------------------------------------------------------------------------------------


def last_two(num_bytes, op="all_reduce", sequence=301, then=()):
    """Return the last two collectives of a rank, the latest first; `then` has what it entered after them."""
    before = EnteredCollective("all_reduce", "0", sequence - 1, 64)
    return {"entered": (*then, EnteredCollective(op, "0", sequence, num_bytes), before)[:2]}


def gloo_aborted(rank, num_bytes, op="all_reduce", **changes):
    """Return a rank that gloo aborted because it received too much; only stderr says so."""
    inside = InFlight(op, "0", 301, num_bytes, 1.0)
    return dead(rank, **{"exit_status": "signal SIGABRT", "in_flight": inside, **last_two(num_bytes, op), **changes})


def lost(rank, num_bytes, op="all_reduce", **changes):
    """Return a rank that died of its connection to an aborted one."""
    return disconnected(rank, **{**last_two(num_bytes, op), **changes})


def raising(message, **changes):
    """Return rank 1 after it has raised an error with this message."""
    return dead(1, last_words=words("exception", "builtins.RuntimeError", message), **changes)


def after_uneven(rank, num_bytes):
    """Return the last two collectives of a rank after an all_to_all whose sizes differ."""
    last = EnteredCollective("all_reduce", "0", 301, num_bytes), EnteredCollective("all_to_all", "0", 300, rank)
    return {"entered": last}


def sizes(op, first, *rest, **changes):
    """Return a job of which gloo aborted rank 0, with the sizes that its ranks entered with."""
    return [gloo_aborted(0, first, op, **changes), *(lost(rank, size, op) for rank, size in enumerate(rest, 1))]


WITH_LAUNCHER = {"launcher_gone_seconds": 4.0, "gone_seconds": 4.0, "exit_status": None}
TWO_ABORTED = [gloo_aborted(rank, 4000, "all_to_all", **NO_STATUS) for rank in (0, 2)]
NEXT = (EnteredCollective("all_to_all", "0", 302, 64),)
OLDER_REPORT = rank_state(1, host="node-b", **last_two(64, sequence=300))

SIZES = (
    *(row(f"a rank enters an {op} with {size} bytes, the others with 4000; gloo aborts one", MISMATCH(1),
          [gloo_aborted(0, 4000, op), lost(1, size, op), terminated(2, **last_two(4000, op)),
           waiting(3, **last_two(4000, op))])
      for size in (5000, 3000) for op in ("all_reduce", "all_to_all")),
    row("gloo aborts the rank with the smaller size, and its peers are in the next collective", MISMATCH(1),
        [gloo_aborted(1, 3000), *(lost(rank, 4000, **last_two(4000, then=NEXT)) for rank in (0, 2, 3))]),
    row("the rank with the larger size has gone on", MISMATCH(1),
        [gloo_aborted(0, 4000), lost(1, 5000, **last_two(5000, then=NEXT)), lost(2, 4000), lost(3, 4000)]),
    row("the split sizes of a rank do not fit", MISMATCH(1),
        [raising(ENFORCE, **last_two(36, "all_to_all")), *(lost(rank, 32, "all_to_all") for rank in (0, 2, 3))]),
    row("gloo aborts a rank, and the agent of another one does not answer", UNKNOWN,
        [gloo_aborted(0, 4000), lost(2, 4000), lost(3, 4000)], "its size may be another",
        unwatched=[rank_state(1, sequences={"0": 300})], says="rank 1 on"),
    row("gloo aborts a rank, and the last report of a silent agent shows that its rank had an equal size", EXIT(0),
        [gloo_aborted(0, 4000), lost(2, 4000), lost(3, 4000)],
        unwatched=[rank_state(1, sequences={"0": 301}, **last_two(4000))]),
    row("gloo aborts a rank, and the last report of a silent agent shows that its rank had another size", MISMATCH(1),
        [gloo_aborted(0, 4000), lost(2, 4000), lost(3, 4000)],
        unwatched=[rank_state(1, sequences={"0": 301}, **last_two(5000))]),
    *(row(f"{text} in a collective, and no agent has reported rank 1", expected, [*ranks, lost(3, 4000)], note)
      for text, expected, ranks, note in (
          ("two ranks end without last words", UNKNOWN, [gloo_aborted(r, 4000, **NO_STATUS) for r in (0, 2)],
           "its size may be another"),
          ("one rank ends without last words", EXIT(0), [gloo_aborted(0, 4000, **NO_STATUS), lost(2, 4000)], ""))),
    row("two ranks with different sizes", UNKNOWN, [gloo_aborted(0, 4000, world_size=2), lost(1, 5000, world_size=2)]),
    row("all sizes of an all_to_all differ", UNKNOWN, sizes("all_to_all", 10, 11, 12, 13)),
    row("sizes differ after an uneven all_to_all", MISMATCH(1),
        [gloo_aborted(3, 4000, **after_uneven(3, 4000)), lost(1, 0, **after_uneven(1, 5000)),
         *(lost(rank, 0, **after_uneven(rank, 4000)) for rank in (0, 2))]),
    row("a launcher may restart the job", due("collective_mismatch", 1, severity="warning"),
        [gloo_aborted(0, 4000, max_restarts=3), lost(1, 5000, max_restarts=3),
         *(lost(rank, 4000, max_restarts=3) for rank in (2, 3))]),
    *(row(f"a rank {what} in an uneven all_to_all", EXIT(2),
          [how(2, in_flight=InFlight("all_to_all", "0", 301, 10, 1.0), **last_two(10, "all_to_all")),
           *(lost(rank, 20, "all_to_all") for rank in (0, 1, 3))])
      for how, what in ((killed, "is killed"), (dead, "ends without last words and exit status"))),
    row("a rank with another size, and no exit status is known", MISMATCH(1),
        sizes("all_reduce", 4000, 5000, 4000, 4000, **NO_STATUS)),
    row("several ranks without exit status ended in an uneven all_to_all", UNKNOWN,
        [*TWO_ABORTED, lost(1, 4000, "all_to_all"), lost(3, 5000, "all_to_all")]),
    row("several ranks without exit status ended in an all_to_all that had been even before", MISMATCH(3),
        [*TWO_ABORTED, lost(1, 4000, "all_to_all"), lost(3, 5000, "all_to_all")], steps=job_steps(16)),
    row("several ranks without exit status ended in an all_to_all of equal sizes", EXIT(0, 2),
        [*TWO_ABORTED, *(lost(rank, 4000, "all_to_all") for rank in (1, 3))]),
    *(row(f"all ranks end with their launcher in an uneven all_to_all; {text}", expected,
          [gloo_aborted(rank, 6912 - 512 * (rank > 1), "all_to_all", launcher_status=status, **WITH_LAUNCHER)
           for rank in range(4)])
      for status, text, expected in (
        (None, "the status of the launcher is unknown", QUIET),
        ("signal SIGTERM", "the launcher received SIGTERM", QUIET),
        ("signal SIGKILL", "the launcher received SIGKILL", EXIT(0, 1, 2, 3)))),
    row("a rank aborts, and all sizes are equal", EXIT(0), sizes("all_reduce", *[4000] * 4)),
    row("the collective is asynchronous", MISMATCH(1),
        sizes("all_reduce", 4000, 5000, 4000, 4000, in_flight=None), "gloo's thread aborts the rank while it computes"),
    row("a rank aborts outside collectives, and all sizes are equal", EXIT(0),
        sizes("all_reduce", *[4000] * 4, in_flight=None)),
    row("a rank with another size raises an ordinary exception", EXIT(1),
        [raising("bad batch 17", **last_two(5000)), *(lost(rank, 4000) for rank in (0, 2, 3))]),
    row("a watchdog aborts a rank on a GPU whose sizes differ", EXIT(2),
        [gloo_aborted(2, 10, "all_to_all", device="GPU-2"),
         *(lost(rank, 20 + rank, "all_to_all", device=f"GPU-{rank}") for rank in (0, 1, 3))], "NCCL compares no sizes"),
    row("sizes differ, and every rank lost a connection", due("connection_lost"),
        [lost(rank, 1000 + rank) for rank in range(4)]),
    *(row(f"gloo aborts a rank ({text}), {name}", expected, [gloo_aborted(0, 4000, exit_status=status, **gone), peer])
      for status, text in (("signal SIGABRT", "SIGABRT"), (None, "an older kernel")) for name, expected, gone, peer in (
        ("and the report of its peer is older", QUIET, {}, OLDER_REPORT),
        ("and its peer shows another size", UNKNOWN, {}, waiting(1, host="node-b", **last_two(5000))),
        ("and its peer shows nothing for 1.6 s", EXIT(0), {"gone_seconds": 1.6}, OLDER_REPORT))),
    row("a rank is killed, and the report of its peer is older", EXIT(0),
        [gloo_aborted(0, 4000, exit_status="signal SIGKILL"), OLDER_REPORT]),
)  # fmt: skip
