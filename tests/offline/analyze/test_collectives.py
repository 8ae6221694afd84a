"""Tests of the diagnosis from flight records on disk: who is missing, who brought something else, what is unknown."""

from pathlib import Path

import pytest

from tests.offline.analyze.formats.dumps import done, entry, write
from zmon.offline.analyze.collectives import analyze_dumps
from zmon.offline.analyze.formats import flight_recorder

RECORDED = Path(__file__).parent / "recorded" / "flight-recorder"
WAITS = [*done(3), entry(4)]


def analyzed(paths):
    """Return the analysis of these flight records."""
    dumps = flight_recorder.read(sorted(paths))
    return analyze_dumps(dumps.ranks, "job", dumps.notes)


def diagnosis(analysis):
    """Return cause and ranks of the only finding."""
    (finding,) = analysis.findings
    return finding.cause, finding.ranks


def test_rank_of_a_recorded_job_that_skips_a_collective_is_named():
    analysis = analyzed((RECORDED / "skipped").iterdir())
    assert diagnosis(analysis) == ("compute_hang", (2,))
    (finding,) = analysis.findings
    assert "all_reduce 4 of group gloo:0" in finding.summary
    assert "ranks 0, 1 wait in it, from work() at job.py:14" in finding.summary
    assert "rank 2 that is done is all_reduce 3 of group gloo:0, from work() at job.py:10" in finding.summary
    assert [(pending.rank, pending.collective.sequence, pending.where) for pending in analysis.pending] == [
        (0, 4, "work() at job.py:14"), (1, 4, "work() at job.py:14"),
    ]  # fmt: skip


def test_rank_of_a_recorded_job_that_calls_another_collective_is_named():
    analysis = analyzed((RECORDED / "other_op").iterdir())
    assert diagnosis(analysis) == ("collective_mismatch", (1,))
    assert "rank 1: broadcast [128]" in analysis.findings[0].summary


STARTED = [*done(3), entry(4, state="started")]
ENDED, OTHER_SHAPE = ([*done(3), entry(4, sizes=((size,),), state="completed")] for size in (128, 96))
SHARED = [*done(3), entry(4, "nccl:all_gather", op_id=4), entry(4, "nccl:reduce_scatter", op_id=5)]
COALESCED = [entry(4), entry(4, op_id=5), entry(4, op_id=6)]
PAIR = done(2, group="pair")
JOINED = [*PAIR, entry(1, time_created_ns=1_800_000_000_100_000_000)]  # in the group of all four, after the other one
DROPPED = [{**record, "record_id": record["record_id"] + 5000} for record in PAIR]
IN_PAIR = [*done(3), entry(1, group="pair", time_created_ns=1_800_000_000_200_000_000)]
TO_ALL = [[*done(3), entry(4, "nccl:all_to_all", sizes=((size,),), state="completed")] for size in (1, 2, 3)]
HANG, MISMATCH = "compute_hang", "collective_mismatch"
CASES = {  # the entries of each rank, None: it has no file; cause and ranks; a part of the summary or of the notes
    "a rank has not issued it": ((WAITS, WAITS, done(3), WAITS), (HANG, (2,)), "step() at train.py:84"),
    "a GPU has not reached it": ((STARTED, WAITS, STARTED, STARTED), (HANG, (1,)), "reached by no GPU of rank 1"),
    "other shape, though it ended": ((ENDED, OTHER_SHAPE, ENDED, ENDED), (MISMATCH, (1,)), "rank 1: all_reduce [96]"),
    "other sizes of an all-to-all": (TO_ALL, None, ""),
    "coalesced operations at one position": ((SHARED, SHARED, list(SHARED)), None, ""),
    "all wait in the same": ((WAITS, WAITS, WAITS), None, ""),
    "a record is missing": ((WAITS, WAITS, done(3), None), None, "no record of rank 3"),
    "another operation, a record is missing": (
        (WAITS, WAITS, [*done(3), entry(4, "nccl:broadcast")], None), ("unknown", ()), "broadcast"
    ),
    "an empty record: the recorder may be off": ((WAITS, WAITS, [], WAITS), None, "the record of rank 2 is empty"),
    "member never used the group": ((JOINED, JOINED, JOINED, PAIR), (HANG, (3,)), ""),
    "member whose recorder dropped entries": ((JOINED, JOINED, JOINED, DROPPED), None, ""),
    "rank 3 waits for rank 2 in another group, with a lower sequence number": (
        (done(3), WAITS, WAITS, IN_PAIR), (HANG, (0,)),
        "all_reduce 4 of group nccl:0 [128] is stuck: it was not issued by rank 0, and ranks 1, 2 wait in it",
    ),
    "a rank has only sent, and the others wait for it in the group of all": (
        (WAITS, [entry(1, "nccl:send", state="completed", is_p2p=True)], WAITS), (HANG, (1,)), "ranks 0, 2 wait in it"
    ),
    "coalesced operations are one wait of a rank": (
        ([*done(3), *COALESCED], done(3), [*done(3), *COALESCED]), (HANG, (1,)), "and ranks 0, 2 wait in it"
    ),
    "many ranks differ": (
        [ENDED] * 15 + [OTHER_SHAPE] * 9, (MISMATCH, tuple(range(15, 24))), "; rank 0: all_reduce [128]"
    ),
    "the rank that differs is the last of many": (
        (*[ENDED] * 11, OTHER_SHAPE), (MISMATCH, (11,)), "rank 11: all_reduce [96] at step() at train.py:84; rank 0: "
    ),
    "rank 1 waits in another group for rank 2, which waits": ((WAITS, IN_PAIR, [*done(3), entry(4)]), None, ""),
}  # fmt: skip


@pytest.mark.parametrize(("by_rank", "expected", "part"), CASES.values(), ids=CASES)
def test_records_of_nccl_lead_to_the_diagnosis(tmp_path, by_rank, expected, part):
    analysis = analyzed(write(tmp_path, *by_rank))
    assert [(finding.cause, finding.ranks) for finding in analysis.findings] == ([expected] if expected else [])
    assert part in " ".join([*(finding.summary for finding in analysis.findings), *analysis.notes])
    assert analysis.missing == tuple(rank for rank, entries in enumerate(by_rank) if not entries)


@pytest.mark.parametrize(
    ("name", "conclusive"),
    [("a rank has not issued it", True), ("other sizes of an all-to-all", True), ("all wait in the same", False)],
)
def test_records_are_conclusive_unless_all_wait_in_the_same(tmp_path, name, conclusive):
    by_rank, _, _ = CASES[name]
    assert analyzed(write(tmp_path, *by_rank)).conclusive is conclusive


@pytest.mark.parametrize("number", [1, 2, 5])
def test_job_with_nothing_in_flight_has_no_findings(tmp_path, number):
    analysis = analyzed(write(tmp_path, *[done(3)] * number))
    assert analysis.findings == analysis.pending == ()
    assert analysis.conclusive
