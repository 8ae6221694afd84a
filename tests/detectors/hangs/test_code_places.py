"""Tests of the line of the job's own code in the summary of a hang."""

from dataclasses import replace

import pytest

from tests.build import killed, snapshot
from tests.detectors.stalls import STALL, inside, outside, stopped

READ, WAIT = "data_loader.py:88, read", "train.py:40, step"


def summary(*ranks, frames=None):
    (finding,) = STALL.detect(replace(snapshot(*ranks), frames=frames or {}))
    return finding.summary


def others(but=3):
    return [inside(rank) for rank in range(4) if rank != but]


@pytest.mark.parametrize("phase", ["data", "forward"])
def test_summary_of_a_hang_has_the_frame_of_its_culprit(phase):
    frames = {3: READ, 0: WAIT}
    text = summary(*others(), outside(3, phase), frames=frames)
    assert f"; rank 3 stands in {READ};" in text
    assert text.count(READ) == 1
    assert WAIT not in text


def test_summary_before_the_stacks_arrive_has_no_frame():
    assert "stands" not in summary(*others(), outside(3))
    assert "stands" not in summary(*others(), outside(3), frames={0: WAIT})


def test_stopped_rank_has_its_frame():
    assert summary(*others(), stopped(3), frames={3: READ}).endswith(f"; rank 3 stands in {READ}")


def test_frame_that_all_ranks_share_is_named_once_if_there_is_no_culprit():
    ranks = [inside(rank) for rank in range(4)]
    assert f"; all 4 ranks stand in {WAIT}" in summary(*ranks, frames=dict.fromkeys(range(4), WAIT))
    mixed = {0: WAIT, 1: WAIT, 2: READ}
    assert f"; ranks 0, 1 stand in {WAIT}; rank 2 stands in {READ}" in summary(*ranks, frames=mixed)


def test_frames_that_differ_from_rank_to_rank_are_left_to_the_stacks():
    assert "stand" not in summary(*map(inside, range(4)), frames={rank: f"train.py:{rank}, f" for rank in range(4)})


def test_ranks_that_are_gone_are_not_said_to_stand_still():
    ranks = [killed(0, 900.0), *(inside(rank) for rank in (1, 2, 3))]
    (finding,) = STALL.detect(replace(snapshot(*ranks), frames={0: READ, 1: WAIT}))
    assert READ not in finding.summary
