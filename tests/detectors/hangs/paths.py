"""Rows of jobs whose ranks took different paths through the code, so that their collectives can never end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.detectors.stalls import Row, inside, job, outside
from zmon.schema.rank import EnteredCollective

EVALUATES = {"lease_seconds": 1800.0, "overdue_seconds": 0.0}
NO_MAJORITY = "no majority, so no rank is named"


def sized(op="all_reduce", **changes):
    """Return a job whose ranks are in one collective, each with another size."""
    return job(*(inside(rank, op, num_bytes=100 + rank, **changes) for rank in range(4)))


MISMATCHES = (
    Row("one rank is in a different collective at the same position", "collective_mismatch, critical, rank 2",
        job(inside(2, "all_to_all"), rest=inside),
        "collective 301 of group 0 … all_to_all: rank 2 … all_reduce of 4096 bytes: ranks 0, 1, 3"),
    Row("one rank has tensors of a different size", "collective_mismatch, critical, rank 1",
        job(inside(1, num_bytes=8), rest=inside)),
    Row("two ranks are in one collective, and two in a different one", "unknown, critical, nobody",
        job(inside(2, "barrier"), inside(3, "barrier"), rest=inside), "ranks 0, 1 … ranks 2, 3"),
    Row("two ranks have tensors of one size, and two of another", "unknown, critical, nobody",
        job(inside(2, num_bytes=8), inside(3, num_bytes=8), rest=inside), NO_MAJORITY),
    Row("one rank has tensors of a different size, 0.1 s after the lease", "collective_mismatch, critical, rank 0",
        job(inside(0, num_bytes=8), rest=partial(inside, seconds=1.6))),
    Row("two ranks have tensors of one size, and two of another, 0.1 s after the lease", "unknown, critical, nobody",
        job(*(inside(rank, num_bytes=8, seconds=1.6) for rank in (2, 3)), rest=partial(inside, seconds=1.6))),
    *(Row(f"the ranks are in {op} with different sizes", "unknown, warning, nobody", sized(op))
      for op in ("all_to_all", "broadcast", "gather", "scatter", "send")),
    Row("the root of a reduce has a different size", "unknown, warning, nobody",
        job(inside(0, "reduce", num_bytes=8192), rest=partial(inside, op="reduce")),
        note="only the root receives a result"),
    Row("the ranks are in an all_gather of different sizes on GPUs", "unknown, warning, nobody",
        sized("all_gather", device="GPU-0")),
    Row("one rank is an operation ahead", "unknown, warning, nobody", job(inside(0, "barrier", 302), rest=inside),
        note="at the end of a collective, this is ordinary"),
    Row("three ranks are in an operation of a different kind, one position ahead", "unknown, warning, nobody",
        job(inside(0, sequence=300), rest=partial(inside, op="all_to_all"))),
    Row("three ranks are one position ahead, in operations of two kinds", "collective_mismatch, critical, rank 1",
        job(inside(0, sequence=300), inside(1, "all_to_all"), rest=inside)),
)  # fmt: skip


def in_world(rank, control=40, **changes):
    """Return a rank in the all-reduce of the job's group, which has not entered collective 41 of the control group."""
    return replace(inside(rank, sequences={"0": 301, "control": control}), **changes)


def in_control(rank, op="all_reduce", world=300, **changes):
    """Return a rank in a collective of the control group, which has not entered collective 301 of the job's group."""
    return replace(inside(rank, op, 41, group="control", sequences={"0": world, "control": 41}), **changes)


def stages(*counts, last=2):
    """Return a job of two stages; the last rank of the first has skipped collective 301 of the job's group.

    `counts` has for each of its peers how many collectives of the stage it has entered.
    """
    first = [inside(rank, sequences={"0": 301, "first": count}) for rank, count in enumerate(counts)]
    ahead = inside(len(first), "all_gather", 302, group="first", sequences={"0": 300, "first": 302})
    others = range(len(first) + 1, len(first) + 1 + last)
    return job(*first, ahead, *(inside(rank, sequences={"0": 301, "last": 900}) for rank in others), rest=None)


MISMATCH_OF_1 = "collective_mismatch, critical, rank 1"
JUST_NOW = {"state_seconds": 1.0, "step_seconds": 1.0, "overdue_seconds": 0.0}
CROSSED = (
    *(Row(f"one rank entered two groups in a different order, and is in {op}", MISMATCH_OF_1,
          job(in_control(1, op), rest=in_world), f"rank 1 on node-a in {op} 41 of group control")
      for op in ("all_reduce", "barrier")),
    Row("two ranks entered two groups in one order, and two in the other", "unknown, critical, nobody",
        job(in_control(1), in_control(3), rest=in_world), NO_MAJORITY),
    Row("one rank is in the collective of a second group, and has also entered that of the others",
        "unknown, warning, nobody", job(in_control(1, world=301), rest=in_world)),
    Row("one rank has entered the collectives of both groups, and is in none", "unknown, warning, nobody",
        job(outside(1, sequences={"0": 301, "control": 41}), rest=in_world)),
    Row("one rank is in an operation of a second group that has no position, such as recv", "unknown, warning, nobody",
        job(inside(1, "recv", 0, group="control"), rest=in_world)),
    Row("one rank is in a collective of a group that the others are not in", "unknown, warning, nobody",
        job(inside(1, sequence=41, group="pair", sequences={"0": 300, "pair": 41}),
            rest=partial(inside, sequences={"0": 301}))),
    Row("one rank of a stage skipped a collective of the job's group", "collective_mismatch, critical, rank 2",
        stages(301, 301), "neither side has entered the collective of the other",
        "the ranks of the other stage do not know the order"),
    Row("one of two ranks of a stage skipped a collective of the job's group", "unknown, critical, nobody",
        stages(301, last=3), NO_MAJORITY, "the ranks of the other stage are no majority"),
    Row("one rank of a stage skipped a collective, and a peer has entered that of the stage too",
        "unknown, warning, nobody", stages(302, 301)),
    *(Row(f"one rank entered two groups in a different order in {activity}, within its lease", MISMATCH_OF_1,
          job(in_control(1, activity=activity, **EVALUATES), rest=in_world), note="the lease does not delay a proof")
      for activity in ("eval", "checkpoint", "init")),
    Row("all ranks are in one slow collective of an evaluation", "quiet",
        job(rest=partial(in_world, activity="eval", **EVALUATES))),
    Row("the ranks have just entered different collectives", "quiet",
        job(in_control(1, **JUST_NOW), rest=partial(in_world, **JUST_NOW)),
        note="agents look at their ranks at different moments"),
)  # fmt: skip


def within(rank, op, group, sequence, before, **counts):
    """Return a rank that waits in a collective, and entered the operation `before` just before it."""
    entered = (EnteredCollective(op, group, sequence, 4096), EnteredCollective(before, f"of {before}", 65, 4096))
    return inside(rank, op, sequence, group=group, sequences={group: sequence, **counts}, entered=entered)


def pairs(*changed, before="all_gather"):
    """Return a job whose pairs 0, 2 and 1, 3 scatter, then all reduce; rank 0 has not scattered."""
    ranks = [
        within(0, "all_reduce", "0", 67, before, dp0=64),
        within(1, "all_reduce", "0", 67, "reduce_scatter", dp1=65),
        within(2, "reduce_scatter", "dp0", 65, "all_gather", **{"0": 66}),
        within(3, "all_reduce", "0", 67, "reduce_scatter", dp1=65),
    ]
    return job(*{r.rank: r for r in (*ranks, *changed)}.values())


def waits(rank, op, group, world, **counts):
    """Return a rank that waits in the last collective of the group, with the number of its collectives by group."""
    counts["0"] = world
    entered = (EnteredCollective(op, group, counts[group], 4096), EnteredCollective("barrier", "1", 1, 0))
    return inside(rank, op, counts[group], group=group, sequences=counts, entered=entered)


def grid(*changed, tp_of_rank_3=64):
    """Return a job whose pairs tp0, tp1 gather, dp0, dp1 scatter, then all reduce; rank 3 has not gathered."""
    ranks = [
        waits(0, "reduce_scatter", "dp0", 64, tp0=65, dp0=65),
        waits(1, "all_reduce", "0", 65, tp0=65, dp1=65),
        waits(2, "all_gather", "tp1", 64, tp1=65, dp0=64),
        waits(3, "all_reduce", "0", 65, tp1=tp_of_rank_3, dp1=65),
    ]
    return job(*{r.rank: r for r in (*ranks, *changed)}.values())


UNKNOWN, STUCK = "unknown, warning, nobody", "unknown, critical, nobody"
SKIPPED = (
    Row("one rank has not scattered, as the order of its peers shows", "collective_mismatch, critical, rank 0",
        pairs(), "rank 0 on node-a has not entered reduce_scatter 65 of group dp0"),
    Row("one rank has the order of its peers, whose numbers of collectives differ", STUCK,
        pairs(within(3, "all_reduce", "0", 67, "reduce_scatter", dp1=66), before="reduce_scatter")),
    *(Row(f"one rank has not scattered, and rank {rank} shows a different order than its peers", STUCK,
          pairs(within(rank, "all_reduce", "0", 67, "broadcast", dp1=65))) for rank in (1, 3)),
    Row("one rank has not scattered, and no peer is in its collective to show the order", UNKNOWN,
        pairs(*(within(rank, "reduce_scatter", "dp1", 65, "all_gather", **{"0": 66}) for rank in (1, 3)))),
    Row("one rank has not gathered, as the numbers of its peers show", "collective_mismatch, critical, rank 3",
        grid(), "rank 3 on node-a has not entered all_gather 65 of group tp1 … each of the ranks that are there with "
        "it has entered 1 collective more"),
    Row("all ranks have entered the same number of collectives", UNKNOWN, grid(tp_of_rank_3=65),
        note="the network between two ranks may be slow"),
    Row("all ranks are in one collective, before which one rank entered fewer than the others", UNKNOWN,
        grid(waits(2, "all_reduce", "0", 65, tp1=65, dp0=65), waits(0, "all_reduce", "0", 65, tp0=65, dp0=65)),
        note="it may have a different role"),
    Row("the rank with fewer collectives has a different role", STUCK,
        job(waits(0, "all_reduce", "0", 67, first=63), waits(1, "all_reduce", "first", 66, first=64),
            waits(2, "all_reduce", "0", 67, last=189), waits(3, "all_reduce", "0", 67, last=189)),
        note="a step of the last stage has three collectives of its group"),
    Row("one rank has not gathered, and its peers have different numbers of collectives", UNKNOWN,
        grid(waits(4, "all_reduce", "0", 65, tp2=60))),
)  # fmt: skip
