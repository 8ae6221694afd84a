"""Rows of jobs about which torch's flight records say more than Python sees.

On GPUs a rank goes on after it issues a collective, so the position of its code does not show where it hangs. The
records are like those of NCCL: `scheduled`, `started` only with timing on, never retired while pending; groups by
backend and name.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.build import agent_status, disconnected, finished, flight, job_steps, pending, rank_state, waiting
from tests.detectors.network.hosts import NODES, window
from tests.detectors.stalls import Row, inside, job, outside

WAITS = flight(pending(301))
STARTED = flight(pending(301, state="started"))
GATHERS = flight(pending(301, "nccl:_all_gather_base"))
GLOO_WAITS = replace(WAITS, pending=(pending(301, "gloo:all_reduce", "gloo:0"),), last={"gloo:0": 300})
GLOO_HANGS = replace(flight(), last={"gloo:0": 300})
NOTHING = replace(flight(), last={})
UNKNOWN = "unknown, warning, nobody"


def gpu(rank, **changes):
    """Return a rank that issued a collective, went on, and stopped somewhere in Python."""
    return outside(rank, **{"phase": "backward", "device": f"GPU-{rank}", **changes})


def records(*ranks, rest=gpu, records_of_rest=WAITS, steps=(), hardware=(), unwatched=(), agents=None, **of_rank):
    """Return a job with the flight records of ranks `r0` … `r3`; None if a record is missing."""
    flights = {rank: of_rank.get(f"r{rank}", records_of_rest) for rank in range(4)}
    known = {rank: record for rank, record in flights.items() if record is not None}
    return job(*ranks, rest=rest, flights=known, steps=steps, hardware=tuple(hardware), unwatched=unwatched,
               agents=agents)  # fmt: skip


def handled(state, **record):
    """Return a job whose ranks wait in collective 301, but this one, whose flight record has nothing pending."""
    return records(state, rest=inside, records_of_rest=GLOO_WAITS, r2=replace(GLOO_HANGS, **record))


def sizes(name, *num_bytes, **changes):
    """Return a job whose ranks have the same operation pending with these sizes."""
    return records(**{f"r{r}": flight(pending(301, name, num_bytes=n)) for r, n in enumerate(num_bytes)}, **changes)


LINK_DOWN = [window(host, {}, up=host != "node-b") for host in NODES[:2]]
STARTS = partial(gpu, activity="init", activity_seconds=1801.5)
DONE = rank_state(3, activity="done", lease_seconds=None, device="GPU-3")
SILENT = [agent_status("node-a"), agent_status("node-b", 5.0)]
DATA_PARALLEL = {"r0": flight(pending(41, group="nccl:1"), **{"0": 300, "1": 40}), "r1": flight(**{"0": 300, "1": 40})}
RECORDS = (
    *(Row(f"one rank has not issued the pending collective, and is in {phase}", f"{cause}, warning, rank 2",
          records(gpu(2, phase=phase), r2=flight()), "the flight records show that it has not issued")
      for phase, cause in (("data", "input_stall"), ("forward", "compute_hang"))),
    Row("two ranks have not issued the pending collective", "compute_hang, warning, ranks 0, 3",
        records(r0=flight(), r3=flight())),
    Row("one rank has not issued the pending collective, and one issued further ones", "compute_hang, warning, rank 3",
        records(r0=flight(pending(301), pending(302), pending(303)), r3=flight())),
    Row("a pair waits for one of its two ranks, and the others wait for the pair", "compute_hang, warning, rank 1",
        records(records_of_rest=flight(pending(301), **{"0": 300, "2": 40}), **DATA_PARALLEL)),
    Row("two ranks wait in two groups for each other", UNKNOWN,
        records(gpu(0, world_size=2), gpu(1, world_size=2), rest=None, r0=DATA_PARALLEL["r0"],
                r1=flight(pending(301), **{"0": 300, "1": 40})),
        "the others wait for rank 0 on node-a, rank 1 on node-a, which wait themselves"),
    Row("one rank of a pipeline has issued nothing, and another one a recv", "compute_hang, warning, rank 1",
        records(r0=flight(pending(7, "nccl:recv 0<-1")), r1=flight())),
    Row("one rank has issued nothing, and is in a recv that gloo does not record", UNKNOWN,
        records(waiting(2, op="recv"), r2=flight())),
    Row("the record of one rank does not have the group in which the others wait", UNKNOWN,
        records(records_of_rest=flight(pending(301, group="nccl:1"), **{"0": 300, "1": 300}),
                r3=flight(**{"0": 300})), note="it may not be in that group"),
    Row("one rank has issued nothing, and the others wait in the group of all ranks", "compute_hang, warning, rank 2",
        records(gpu(2, sequences={}), r2=NOTHING)),
    Row("one rank has issued nothing, and the others wait in another group", UNKNOWN,
        records(gpu(2, sequences={}), records_of_rest=flight(pending(301, group="nccl:1")), r2=NOTHING),
        note="it may not be in that group"),
    Row("all ranks have the same collective pending", UNKNOWN, records()),
    Row("one GPU has not started the pending collective, as records with timing show", "compute_hang, warning, rank 2",
        records(records_of_rest=STARTED, r2=WAITS), "its GPU has not reached"),
    Row("one rank has not issued the collective, and the record of another one is missing", UNKNOWN,
        records(r2=flight(), r3=None), note="the other rank may be the culprit"),
    Row("ranks on GPUs stand still, and no flight records have arrived", UNKNOWN, records(records_of_rest=None)),
    Row("one rank has not issued the collective, and one is on a host without an agent", UNKNOWN,
        records(gpu(0), gpu(1), gpu(2), rest=None, r2=flight())),
    Row("one rank has not issued the collective, and one is on a host whose agent is silent",
        "host_lost, critical, rank 3",
        records(r2=flight(), unwatched=[gpu(3, host="node-b")], agents=SILENT)),
    Row("one rank has not issued the collective, and one has finished and left no record", UNKNOWN,
        records(finished(3, 60.0), r2=flight(), r3=None)),
    Row("one rank has not issued the collective, and one died of a broken connection", "unknown, critical, nobody",
        records(disconnected(3), r2=flight(), r3=None)),
    Row("a rank left the loop early, and its process lives", "compute_hang, warning, rank 3",
        records(DONE, r3=flight()), "has finished"),
    Row("a rank on a CPU has issued nothing, as gloo's records of a compiled graph show",
        "compute_hang, warning, rank 2",
        records(rest=partial(gpu, device="cpu"), records_of_rest=GLOO_WAITS, r2=GLOO_HANGS)),
    Row("ranks on CPUs are in a compiled graph, and there are no flight records", UNKNOWN,
        records(rest=partial(gpu, device="cpu"), records_of_rest=None)),
    Row("a rank on a CPU hangs in a signal handler in a collective that is over", "compute_hang, warning, rank 2",
        handled(inside(2, sequence=300)), "the flight records show that it has not issued"),
    Row("a rank hangs in a signal handler, and its record does not show that its collective is over", UNKNOWN,
        handled(inside(2, sequence=300), last={"gloo:0": 299})),
    Row("a rank hangs in a signal handler in a collective of a group that its record lacks", UNKNOWN,
        handled(inside(2, sequence=300, group="7"))),
    Row("a rank on a CPU hangs in a signal handler in a barrier that is over", UNKNOWN,
        handled(inside(2, "barrier", sequence=300)),
        note="torch does not record a monitored barrier"),
    Row("a rank on a CPU is in no collective, and its record has one pending", UNKNOWN,
        records(outside(2, "backward"), rest=waiting)),
    Row("a rank on a CPU computes, its record has none pending, and another record is missing",
        "compute_hang, warning, rank 2", records(outside(2, "backward"), rest=waiting, r2=flight(), r3=None)),
    Row("the rank that has not issued the collective evaluates within its lease", "quiet",
        records(gpu(0, activity="eval", lease_seconds=1800.0, overdue_seconds=0.0), r0=flight())),
    *(Row(f"one rank has {what} pending", "collective_mismatch, critical, rank 1", records(r1=flight(other)),
          "collective 301 of group nccl:0")
      for what, other in (("a different operation", pending(301, "nccl:all_to_all")),
                          ("a different size", pending(301, num_bytes=8)))),
    Row("two ranks have one operation pending, and two a different one", "unknown, critical, nobody",
        records(r2=GATHERS, r3=GATHERS), "ranks 2, 3"),
    *(Row(f"the ranks have {name} pending with different sizes", UNKNOWN, sizes(f"nccl:{name}", *range(4)))
      for name in ("all_gather", "all_to_all", "broadcast", "reduce")),
    Row("one rank has a different size in an all_to_all whose sizes were equal so far",
        "collective_mismatch, critical, rank 2", sizes("nccl:all_to_all", 4, 4, 8, 4, steps=job_steps(16))),
    Row("a link is down, and all ranks have the same collective pending", "network_stall, critical, node-b",
        records(hardware=LINK_DOWN), "the link of eth1 is down"),
    Row("a link is down, and all ranks have waited in init for longer than its lease",
        "network_stall, critical, node-b", records(rest=STARTS, hardware=LINK_DOWN)),
    Row("a link is down, and one rank has not issued the collective", "compute_hang, warning, rank 2",
        records(r2=flight(), hardware=LINK_DOWN)),
)  # fmt: skip
