"""Tests of the diagnosis from flight records on disk: who is missing, who brought something else, what is unknown."""

from pathlib import Path

import pytest

from tests.offline.analyze.formats.dumps import done, entry, write
from zmon.offline.analyze.collectives import analyze_dumps
from zmon.offline.analyze.formats import flight_recorder

RECORDED = Path(__file__).parent / "recorded" / "flight-recorder"
WAITS = [*done(3), entry(4)]


def analyzed(paths):
    dumps = flight_recorder.read(sorted(paths))
    return analyze_dumps(dumps.ranks, "job", dumps.notes)


def diagnosis(analysis):
    (finding,) = analysis.findings
    return finding.cause, finding.ranks


def test_recorded_job_in_which_a_rank_skips_a_collective():
    analysis = analyzed((RECORDED / "skipped").iterdir())
    assert diagnosis(analysis) == ("compute_hang", (2,))
    (finding,) = analysis.findings
    assert "all_reduce 4 of group gloo:0" in finding.summary
    assert "ranks 0, 1 wait in it, from job.py:14, work" in finding.summary
    assert "rank 2 that is done is all_reduce 3 of group gloo:0, from job.py:10, work" in finding.summary
    assert [(each.rank, each.collective.sequence, each.where) for each in analysis.pending] == [
        (0, 4, "job.py:14, work"), (1, 4, "job.py:14, work"),
    ]  # fmt: skip


def test_recorded_job_in_which_a_rank_calls_another_collective():
    analysis = analyzed((RECORDED / "other_op").iterdir())
    assert diagnosis(analysis) == ("collective_mismatch", (1,))
    assert "rank 1: broadcast [128]" in analysis.findings[0].summary


def test_nccl_rank_that_has_not_issued_the_collective_is_named(tmp_path):
    analysis = analyzed(write(tmp_path, WAITS, WAITS, done(3), WAITS))
    assert diagnosis(analysis) == ("compute_hang", (2,))
    assert "train.py:84, step" in analysis.findings[0].summary
    assert analysis.conclusive


def test_rank_whose_gpu_has_not_reached_the_collective_is_named(tmp_path):
    started = [*done(3), entry(4, state="started")]
    analysis = analyzed(write(tmp_path, started, WAITS, started, started))
    assert diagnosis(analysis) == ("compute_hang", (1,))
    assert "has been reached by no GPU of rank 1" in analysis.findings[0].summary


def test_rank_with_another_shape_is_named_although_the_operation_has_ended(tmp_path):
    other = [*done(3), entry(4, sizes=((96,),), state="completed")]
    same = [*done(3), entry(4, state="completed")]
    analysis = analyzed(write(tmp_path, same, other, same, same))
    assert diagnosis(analysis) == ("collective_mismatch", (1,))
    assert "rank 1: all_reduce [96]" in analysis.findings[0].summary


def test_other_sizes_of_an_all_to_all_are_no_mismatch(tmp_path):
    by_rank = [[*done(3), entry(4, "nccl:all_to_all", sizes=((size,),), state="completed")] for size in (1, 2, 3)]
    analysis = analyzed(write(tmp_path, *by_rank))
    assert analysis.findings == ()
    assert analysis.conclusive


def test_coalesced_operations_that_share_a_position_are_no_mismatch(tmp_path):
    both = [*done(3), entry(4, "nccl:all_gather", op_id=4), entry(4, "nccl:reduce_scatter", op_id=5)]
    analysis = analyzed(write(tmp_path, both, both, list(both)))
    assert analysis.findings == ()


def test_nobody_is_named_while_all_wait_in_the_same_collective(tmp_path):
    analysis = analyzed(write(tmp_path, WAITS, WAITS, WAITS))
    assert analysis.findings == ()
    assert not analysis.conclusive


def test_nobody_is_named_while_a_record_is_missing(tmp_path):
    analysis = analyzed(write(tmp_path, WAITS, WAITS, done(3), None))
    assert analysis.findings == ()
    assert analysis.missing == (3,)
    assert "no record of rank 3" in analysis.notes[0]


def test_disagreement_is_shown_without_a_name_while_a_record_is_missing(tmp_path):
    other = [*done(3), entry(4, "nccl:broadcast")]
    analysis = analyzed(write(tmp_path, WAITS, WAITS, other, None))
    assert diagnosis(analysis) == ("unknown", ())


def test_empty_record_counts_as_missing(tmp_path):
    """The recorder of that rank may be off, so that nothing shows where it is."""
    analysis = analyzed(write(tmp_path, WAITS, WAITS, [], WAITS))
    assert analysis.findings == ()
    assert "the record of rank 2 is empty" in analysis.notes[0]


def test_member_that_never_used_a_group_is_named(tmp_path):
    """Ranks 0 and 1 wait in a group of four, in which rank 3 has issued nothing; all have used the other group."""
    first = done(2, group="pair")
    joined = [*first, entry(1, time_created_ns=1_800_000_000_100_000_000)]
    analysis = analyzed(write(tmp_path, joined, joined, joined, first))
    assert diagnosis(analysis) == ("compute_hang", (3,))


def test_member_is_not_named_if_its_recorder_has_dropped_entries(tmp_path):
    later = [{**each, "record_id": each["record_id"] + 5000} for each in done(2, group="pair")]
    joined = [*done(2, group="pair"), entry(1, time_created_ns=1_800_000_000_100_000_000)]
    assert analyzed(write(tmp_path, joined, joined, joined, later)).findings == ()


def test_rank_behind_a_rank_that_waits_itself_is_the_end_of_the_chain(tmp_path):
    """Rank 0 waits for rank 1, which waits in another group for rank 2."""
    other = entry(1, group="pair", time_created_ns=1_800_000_000_200_000_000)
    paths = write(tmp_path, WAITS, [*done(3), other], [*done(3), entry(4)], ranks=3)
    analysis = analyzed(paths)
    assert analysis.findings == ()  # rank 2 waits in the first group: nobody is the end


@pytest.mark.parametrize("number", [1, 2, 5])
def test_job_with_nothing_in_flight_has_no_findings(tmp_path, number):
    analysis = analyzed(write(tmp_path, *[done(3)] * number))
    assert analysis.findings == analysis.pending == ()
    assert analysis.conclusive
