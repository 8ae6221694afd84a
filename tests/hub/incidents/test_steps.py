"""Tests of the steps in a capsule: the choice of ranks, and the limit of the file."""

import json

from tests.build import NOW, finding, rank_state, snapshot, step_record
from tests.steps import steps_of
from zmon.hub.incidents import steps


def job_of(size):
    """Return a job of this many ranks, eight on each host."""
    return snapshot(*(rank_state(rank, host=f"node-{rank // 8}", world_size=size) for rank in range(size)))


def chosen_ranks(job, finding_):
    """Return the ranks whose steps a capsule would have, the most important first."""
    return [r.rank for r in steps.choose_ranks(job, finding_)]


def test_chosen_ranks_of_a_small_job_are_all_with_the_culprit_first():
    assert chosen_ranks(job_of(4), finding()) == [2, 1, 3, 0]


def test_chosen_ranks_of_a_large_job_are_culprits_neighbors_and_a_sample():
    chosen = chosen_ranks(job_of(1024), finding(ranks=(504,), hosts=("node-63",)))
    assert len(chosen) == steps.MAX_RANKS
    assert chosen[0] == 504
    assert set(chosen[1:9]) == {503, *range(505, 512)}
    assert chosen[9] == 0
    assert all(rank % 16 == 0 for rank in chosen[9:])


def test_number_of_chosen_ranks_is_limited_for_hundreds_of_culprits():
    culprits = tuple(range(500))
    assert len(chosen_ranks(job_of(1024), finding(ranks=culprits, hosts=("node-0",)))) == steps.MAX_RANKS


def rank_steps(rank, number):
    """Return this number of steps of a rank."""
    records = [step_record(n, start=float(n)) for n in range(1, number + 1)]
    return steps.last_steps(rank_state(rank), steps_of({"": records}), NOW)


def test_only_the_last_steps_are_stored():
    rows, stored = steps.encode([rank_steps(0, 250)])
    parsed = [json.loads(line) for line in rows.splitlines()]
    assert [row["step"] for row in parsed] == [*range(51, 251)]
    assert parsed[0]["start"] == NOW + 51
    assert stored == (0,)


def test_least_important_ranks_are_left_out_beyond_the_size_limit(monkeypatch):
    rows_of_one_rank, _ = steps.encode([rank_steps(0, 3)])
    monkeypatch.setattr(steps, "MAX_BYTES", 2 * len(rows_of_one_rank) + 10)
    rows, stored = steps.encode([rank_steps(rank, 3) for rank in (2, 1, 3, 0)])
    assert stored == (2, 1)
    assert {json.loads(line)["rank"] for line in rows.splitlines()} == {2, 1}


def test_rows_are_read_back_without_damaged_lines():
    rows, _ = steps.encode([rank_steps(2, 2)])
    parsed = steps.read(rows + b'{"rank": 1}\nnonsense\n[]\n')
    assert [(s.rank, s.step, s.duration, s.self_seconds) for s in parsed] == [(2, 1, 0.02, 0.01), (2, 2, 0.02, 0.01)]
