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
    """Return the rank at its place in the large job, on a host with seven others."""
    return replace(state, world_size=SIZE, host=HOSTS[state.rank // 8], run_uid=f"uid-{state.rank:05}")


@lru_cache(1)  # most tests begin with the same ranks
def equal_ranks(make):
    """Return all ranks of the job, as `make` makes them."""
    return [placed(make(rank)) for rank in range(SIZE)]


def job(make, *odd_ranks):
    """Return the ranks of a job: some odd ones, and the rest as `make` makes them."""
    ranks = list(equal_ranks(make))
    for state in odd_ranks:
        ranks[state.rank] = placed(state)
    return ranks


def stuck(rank):
    """Return a rank that has waited in a collective for 30 s."""
    return waiting(rank, 30.0)


def alone(rank, **changes):
    """Return a rank that has been in no collective for 30 s, past its lease."""
    return rank_state(rank, **{"step_seconds": 30.0, "state_seconds": 30.0, "overdue_seconds": 28.0, **changes})


def raised(rank):
    """Return a rank that its own exception ended 8 s ago."""
    return dead(rank, 8.0, last_words=words("exception", "ValueError", "bad batch"))


def cut_off(rank):
    """Return a rank that a broken connection ended 8 s ago."""
    return dead(rank, 8.0, last_words=words("exception", "RuntimeError", DISCONNECT))


def in_group(rank):
    """Return a rank that waits in a collective of one of 2048 groups."""
    inside = InFlight("all_reduce", f"dp{rank % 2048}", 601, 4096, 30.0)
    return waiting(rank, 30.0, sequences={"0": 300, inside.group: 600}, in_flight=inside)


def faults_of(*snapshots):
    """Return the causes and ranks of the findings of all detectors."""
    return {
        (finding.cause, finding.ranks) for each in snapshots for detector in ALL for finding in detector.detect(each)
    }


FAULTS = {
    "all wait": (lambda: job(stuck), "unknown", ()),
    "one computes": (lambda: job(stuck, alone(5)), "compute_hang", (5,)),
    "one is stopped": (
        lambda: job(stuck, alone(9, process_state="T", stopped_seconds=20.0)), "rank_frozen", (9,)),
    "one was killed": (lambda: job(stuck, killed(3, 2.0)), "rank_exited", (3,)),
    "one was killed, and the others lost a connection": (lambda: job(cut_off, killed(0, 9.0)), "rank_exited", (0,)),
    "many groups": (lambda: job(in_group), "unknown", ()),
    "all raised": (lambda: job(raised), "rank_exited", tuple(range(SIZE))),
    "the job was cancelled": (lambda: job(lambda rank: terminated(rank, 8.0)), None, ()),
}  # fmt: skip


@pytest.mark.parametrize(("ranks", "cause", "culprits"), FAULTS.values(), ids=FAULTS)
def test_large_job_has_the_findings_of_a_small_one(ranks, cause, culprits):
    faults = faults_of(snapshot(*ranks()))
    assert {(each, frozenset(shown)) for each, shown in faults} == ({(cause, frozenset(culprits))} if cause else set())


def test_host_of_a_large_job_that_falls_silent_is_lost():
    ranks = job(stuck)
    agents = [agent_status(host, silent=20.0 * (host == "node-0")) for host in HOSTS]
    causes = faults_of(snapshot(*ranks[8:], unwatched=ranks[:8], agents=agents))
    assert {cause for cause, _ in causes} == {"host_lost", "agent_unreachable"}


def test_table_of_a_finding_has_the_ranks_that_stand_out():
    finding = detect(*job(stuck, alone(9000)))
    assert len(finding.evidence.ranks) == 1024
    assert 9000 in {row.rank for row in finding.evidence.ranks}
    assert finding.evidence.num_ranks_left_out == SIZE - 1024


def test_rank_of_a_large_job_that_gave_up_waiting_is_a_victim_although_its_row_was_left_out():
    stopped = alone(9, process_state="T", stopped_seconds=700.0)
    frozen = detect(*job(stuck, stopped))
    shown = {row.rank for row in frozen.evidence.ranks}
    left_out = next(rank for rank in range(SIZE) if rank not in shown)
    aborted = dead(left_out, 2.0, exit_status="signal SIGKILL")
    exited = detect(*job(stuck, aborted))
    assert exited.cause == "rank_exited"
    assert are_victims(frozen, exited)
