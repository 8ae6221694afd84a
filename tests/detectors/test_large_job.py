"""Tests of the stalls and ends of a job of 16,384 ranks: the detectors name the same as in a small one.

A detector that compared each rank with all others would take minutes here, and the hub would stand still meanwhile.
"""

from dataclasses import replace
from functools import lru_cache

import pytest

from tests.build import DISCONNECT, agent_status, dead, killed, rank_state, snapshot, terminated, waiting, words
from tests.detectors.stalls import detect
from zmon.detectors import ALL
from zmon.job.merging import are_victims
from zmon.schema.rank import InFlight

pytestmark = pytest.mark.timeout(120)

SIZE = 16_384
HOSTS = [f"node-{number}" for number in range(SIZE // 8)]


def placed(state):
    return replace(state, world_size=SIZE, host=HOSTS[state.rank // 8], run_uid=f"uid-{state.rank:05}")


@lru_cache(1)  # most tests begin with the same ranks
def equal_ranks(make):
    return [placed(make(rank)) for rank in range(SIZE)]


def job(make, **odd_ranks):
    """Return the ranks of a job: `odd_ranks` has some of them, such as `rank_7=state`, and `make` makes the rest."""
    ranks = list(equal_ranks(make))
    for name, state in odd_ranks.items():
        ranks[int(name.removeprefix("rank_"))] = placed(state)
    return ranks


def stuck(rank):
    return waiting(rank, 30.0)


def alone(rank, **changes):
    return rank_state(rank, **{"step_seconds": 30.0, "state_seconds": 30.0, "overdue_seconds": 28.0, **changes})


def raised(rank):
    return dead(rank, 8.0, last_words=words("exception", "ValueError", "bad batch"))


def cut_off(rank):
    return dead(rank, 8.0, last_words=words("exception", "RuntimeError", DISCONNECT))


def in_group(rank):
    inside = InFlight("all_reduce", f"dp{rank % 2048}", 601, 4096, 30.0)
    return waiting(rank, 30.0, sequences={"0": 300, inside.group: 600}, in_flight=inside)


def faults_of(*snapshots):
    return {(finding.cause, finding.ranks) for each in snapshots for d in ALL for finding in d.detect(each)}


FAULTS = {
    "all wait": (lambda: job(stuck), "unknown", ()),
    "one computes": (lambda: job(stuck, rank_5=alone(5)), "compute_hang", (5,)),
    "one is stopped": (
        lambda: job(stuck, rank_9=alone(9, process_state="T", stopped_seconds=20.0)), "rank_frozen", (9,)),
    "one was killed": (lambda: job(stuck, rank_3=killed(3, 2.0)), "rank_exited", (3,)),
    "one was killed, others broke": (lambda: job(cut_off, rank_0=killed(0, 9.0)), "rank_exited", (0,)),
    "many groups": (lambda: job(in_group), "unknown", ()),
    "all raised": (lambda: job(raised), "rank_exited", tuple(range(SIZE))),
    "the job was cancelled": (lambda: job(lambda rank: terminated(rank, 8.0)), None, ()),
}  # fmt: skip


@pytest.mark.parametrize(("ranks", "cause", "culprits"), FAULTS.values(), ids=FAULTS)
def test_stall_of_a_large_job_is_named_as_in_a_small_one(ranks, cause, culprits):
    faults = faults_of(snapshot(*ranks()))
    assert {(each, frozenset(shown)) for each, shown in faults} == ({(cause, frozenset(culprits))} if cause else set())


def test_host_of_a_large_job_that_falls_silent_is_lost():
    ranks = job(stuck)
    agents = [agent_status(host, silent=20.0 * (host == "node-0")) for host in HOSTS]
    causes = faults_of(snapshot(*ranks[8:], unwatched=ranks[:8], agents=agents))
    assert {cause for cause, _ in causes} == {"host_lost", "agent_unreachable"}


def test_table_of_a_finding_has_the_ranks_that_stand_out():
    finding = detect(*job(stuck, rank_9000=alone(9000)))
    assert len(finding.evidence.ranks) == 1024
    assert 9000 in {row.rank for row in finding.evidence.ranks}
    assert finding.evidence.num_ranks_left_out == SIZE - 1024


def test_rank_of_a_large_job_that_gave_up_waiting_is_a_victim_although_its_row_was_left_out():
    stopped = alone(9, process_state="T", stopped_seconds=700.0)
    frozen = detect(*job(stuck, rank_9=stopped))
    shown = {row.rank for row in frozen.evidence.ranks}
    left_out = next(rank for rank in range(SIZE) if rank not in shown)
    aborted = dead(left_out, 2.0, exit_status="signal SIGKILL")
    exited = detect(*job(stuck, **{f"rank_{left_out}": aborted}))
    assert exited.cause == "rank_exited"
    assert are_victims(frozen, exited)
