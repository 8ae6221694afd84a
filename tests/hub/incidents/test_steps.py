"""Which steps are kept, and that the file holds no more than it may."""

import json

from tests.build import NOW, finding, rank_state, snapshot, step_record
from zmon.hub.incidents import steps


def big(size, per_host=8):
    return snapshot(*(rank_state(rank, host=f"node-{rank // per_host}", world_size=size) for rank in range(size)))


def ranks(of, about):
    return [r.rank for r in steps.chosen(of, about)]


def test_all_ranks_of_a_small_job_the_culprit_first():
    assert ranks(big(4), finding()) == [2, 1, 3, 0]


def test_of_a_large_job_the_culprits_those_near_them_and_some_of_the_rest():
    chosen = ranks(big(1024), finding(ranks=(504,), hosts=("node-63",)))
    assert len(chosen) == steps.MAX_RANKS
    assert chosen[0] == 504
    assert set(chosen[1:9]) == {503, *range(505, 512)}
    assert chosen[9] == 0
    assert all(rank % 16 == 0 for rank in chosen[9:])


def test_hundreds_of_culprits_are_no_more_than_others():
    many = tuple(range(500))
    assert len(ranks(big(1024), finding(ranks=many, hosts=("node-0",)))) == steps.MAX_RANKS


def kept(rank, number):
    return steps.kept(rank_state(rank), [step_record(n, start=float(n)) for n in range(1, number + 1)], NOW)


def test_only_the_last_steps_are_kept():
    rows, there = steps.lines([kept(0, 250)])
    told = [json.loads(line) for line in rows.splitlines()]
    assert [row["step"] for row in told] == [*range(51, 251)]
    assert told[0]["start"] == NOW + 51
    assert there == (0,)


def test_ranks_that_find_no_room_are_left_out_the_least_dear_ones(monkeypatch):
    one = len(steps.lines([kept(0, 3)])[0])
    monkeypatch.setattr(steps, "MAX_BYTES", 2 * one + 10)
    rows, there = steps.lines([kept(rank, 3) for rank in (2, 1, 3, 0)])
    assert there == (2, 1)
    assert {json.loads(line)["rank"] for line in rows.splitlines()} == {2, 1}


def test_rows_are_read_back_for_the_plots_and_damaged_lines_left_out():
    rows, _ = steps.lines([kept(2, 2)])
    told = steps.read(rows + b'{"rank": 1}\nnonsense\n[]\n')
    assert [(s.rank, s.step, s.duration, s.self_seconds) for s in told] == [(2, 1, 0.02, 0.01), (2, 2, 0.02, 0.01)]
