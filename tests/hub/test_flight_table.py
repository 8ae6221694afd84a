"""Tests of the flight table: ranks that are behind, ranks that differ, and ranks that cannot be asked."""

import msgspec

from tests.build import dead, rank_state, snapshot
from tests.job.test_flight import NOW, dump, entry
from zmon.hub.stall_evidence import flight_table
from zmon.job import flight
from zmon.schema.api import RankEvidence
from zmon.schema.unknown import Unknown


def answer(*entries):
    """Return the evidence of a rank whose flight record has these entries."""
    flight_, error = flight.read([dump(*entries)], NOW)
    return RankEvidence("job", 0, stack="File x", flight=flight_, flight_error=error)


def test_table_shows_ranks_that_are_behind_or_differ():
    done, broadcast = entry(8, retired=True), entry(9, "gloo:broadcast", input_sizes=[[3]])
    answers = {0: answer(done, entry(9)), 1: answer(done), 2: answer(done, broadcast)}
    table = flight_table(snapshot(*map(rank_state, range(3))), answers)
    assert (table["1"].pending, table["1"].last) == ((), {"gloo:0": 8})
    hanging = [table[rank].pending[0] for rank in ("0", "2")]
    expected = [(9, "all_reduce", 288), (9, "broadcast", 12)]
    assert [(operation.sequence, operation.op, operation.num_bytes) for operation in hanging] == expected


def test_row_of_a_rank_that_cannot_be_asked_has_the_reason():
    job = snapshot(rank_state(0), dead(1), rank_state(11), unwatched=[rank_state(2, host="node-b")])
    answers = {
        0: RankEvidence("job", 0, flight_error="stopped?"),
        11: RankEvidence("job", 11, stack="of an older agent"),
        12: Unknown("no answer within 5 s"),
    }
    assert [(rank, row.error) for rank, row in flight_table(job, answers).items()] == [
        ("0", "stopped?"),
        ("1", "its process is gone"),
        ("2", "its agent is silent"),
        ("3", "no agent has reported it"),
        ("11", "its agent is older and has no flight records"),
        ("12", "no answer within 5 s"),
    ]


def test_row_with_partial_data_has_the_error():
    partial = msgspec.structs.replace(answer(entry(1)), flight_error="the rank answers dump_nccl_trace_json with 500")
    row = flight_table(snapshot(*map(rank_state, range(4))), {0: partial})["0"]
    assert row.num_pending == 1
    assert "dump_nccl_trace_json" in row.error
