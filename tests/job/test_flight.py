"""Tests of the reader of torch's flight recorder.

Operations are split into pending and completed ones, and the answer has a limited size. Values that cannot be read are
None. An invalid record is an error of a single line; tests/fuzz/test_flight_records.py has random ones.
"""

import json

import pytest

from zmon.job import flight

NOW = 1_800_000_000.0


def entry(sequence, name="gloo:all_reduce", retired=False, group="0", **changes):
    """Return an entry as torch 2.13 writes it."""
    return {
        "record_id": sequence, "pg_id": 0, "process_group": [group, "default_pg"], "thread_name": "python",
        "collective_seq_id": sequence, "p2p_seq_id": 0, "op_id": sequence, "profiling_name": name,
        "time_created_ns": int((NOW - 100) * 1e9) + sequence * 1_000_000, "input_sizes": [[72]],
        "input_dtypes": ["Float"], "output_sizes": [[72]], "output_dtypes": ["Float"], "state": "scheduled",
        "time_discovered_started_ns": 0, "time_discovered_completed_ns": 0, "retired": retired, "timeout_ms": 1800000,
        "is_p2p": False, **changes,
    }  # fmt: skip


def dump(*entries):
    """Return the bytes of a dump with these entries."""
    header = {"pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}}, "pg_status": {}, "version": "2.10"}
    return json.dumps({**header, **({"entries": entries} if entries else {})}).encode()


def read(*entries):
    """Return the record of a dump with these entries."""
    record, error = flight.read([dump(*entries)], NOW)
    assert error is None
    return record


# -- pending or done ---------------------------------------------------------------------------------------


def test_gloo_operation_is_done_once_retired():
    record = read(entry(7, retired=True), entry(8, retired=True), entry(9))
    (pending,) = record.pending
    assert (pending.group, pending.sequence, pending.op, pending.name, pending.state) == (
        "gloo:0", 9, "all_reduce", "gloo:all_reduce", "scheduled"
    )  # fmt: skip
    assert (pending.num_bytes, pending.sizes, pending.dtypes) == (288, ((72,),), ("Float",))
    assert pending.age_seconds == pytest.approx(99.991)
    assert record.last == {"gloo:0": 8}


def test_age_of_an_operation_is_unknown_after_the_clock_was_set_back():
    created_later = entry(1, time_created_ns=int((NOW + 3600) * 1e9))
    assert read(created_later).pending[0].age_seconds is None


def nccl(sequence, retired=False, **changes):
    """Return the entry of an all-reduce of NCCL."""
    return entry(sequence, "nccl:all_reduce", retired, **changes)


SEND = {"p2p_seq_id": 3, "op_id": 12, "is_p2p": True}
RECORDS = {  # entries, the pending operations, and the last sequence that is done
    "NCCL completes": (
        [nccl(1, True, state="completed"), nccl(2, state="completed"), nccl(3, state="started"), nccl(4)],
        [("all_reduce", 3, "started"), ("all_reduce", 4, "scheduled")], {"nccl:0": 2}),
    "NCCL times out": ([nccl(3, True, state="started")], [("all_reduce", 3, "timed_out")], {}),
    "nccl2 completes": (
        [entry(1, "nccl2:all_reduce", True, state="completed"), entry(2, "nccl2:all_reduce", state="completed"),
         entry(3, "nccl2:all_reduce")], [("all_reduce", 3, "scheduled")], {"nccl2:0": 2}),
    "a backend that only retires": ([entry(1, "nccl2:all_reduce", True), entry(2, "ucc:all_reduce", True)], [],
                                    {"nccl2:0": 1, "ucc:0": 2}),
    "send and recv have their own sequence": (
        [nccl(8, state="completed"), entry(8, "nccl:send 0->1", state="completed", **SEND),
         entry(8, "nccl:recv 0<-1", **{**SEND, "p2p_seq_id": 4})], [("recv", 4, "scheduled")], {"nccl:0": 8}),
    "an earlier one is pending": (
        [entry(7), entry(8, retired=True)], [("all_reduce", 7, "scheduled")], {"gloo:0": 8}),
    "no operation": ([], [], {}),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "pending", "last"), RECORDS.values(), ids=RECORDS)
def test_operation_is_pending_until_it_is_done(entries, pending, last):
    record = read(*entries)
    assert [(op.op, op.sequence, op.state) for op in record.pending] == pending
    assert record.last == last


def test_each_backend_of_a_group_has_its_own_sequence():
    """The group `cpu:gloo,cuda:nccl` is one process group with two sequences."""
    record, _ = flight.read([dump(entry(5, retired=True)), dump(entry(900, "nccl:broadcast", state="completed"))], NOW)
    assert record.last == {"gloo:0": 5, "nccl:0": 900}


def test_operation_that_is_in_both_answers_counts_once():
    both = [dump(entry(9)), dump(entry(9))]
    assert flight.read(both, NOW)[0].num_pending == 1


# -- fields ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("gloo:all_reduce", "all_reduce"),
        ("gloo:sparse_all_reduce", "all_reduce"),
        ("gloo:recvAnySource", "recv"),
        ("nccl:_all_gather_base", "all_gather"),
        ("nccl:_reduce_scatter_base", "reduce_scatter"),
        ("nccl:reduce", "reduce"),
        ("nccl:_broadcast_oop", "broadcast"),
        ("nccl:send 0->1", "send"),
        ("nccl:coalesced", "coalesced"),
        ("", ""),
    ],
)
def test_profiling_name_gives_the_op(name, op):
    assert flight.op_of(name) == op


@pytest.mark.parametrize(
    ("tensors", "num_bytes"),
    [
        ({"input_sizes": [[2, 3], []], "input_dtypes": ["BFloat16", "Long"]}, 2 * 3 * 2 + 8),
        ({"input_sizes": [], "input_dtypes": [], "output_sizes": [[4]], "output_dtypes": ["Double"]}, 32),
        ({"input_dtypes": ["Float3"]}, None),
        ({"input_dtypes": []}, None),
        ({"input_sizes": [[2**40, 2**40]]}, None),
        ({"input_sizes": [[-1]]}, None),
    ],
)
def test_bytes_are_from_the_input_tensors_or_else_the_output_tensors_or_unknown(tensors, num_bytes):
    assert read(entry(1, **tensors)).pending[0].num_bytes == num_bytes


# -- bounds ------------------------------------------------------------------------------------------------


def test_many_pending_operations_are_cut_to_the_oldest_and_newest():
    record = read(*(entry(n) for n in range(100, 2100)))
    assert record.num_pending == 2000
    assert [pending.sequence for pending in record.pending] == [*range(100, 108), *range(2092, 2100)]


def test_long_names_of_an_entry_are_cut():
    long = entry(1, "gloo:" + "x" * 1000, group="g" * 1000, input_sizes=[[1]] * 500, input_dtypes=["Float"] * 500)
    (pending,) = read(long).pending
    assert max(len(pending.group), len(pending.name), len(pending.op)) <= 2 * flight.MAX_NAME + 1
    assert len(pending.sizes) == len(pending.dtypes) == flight.MAX_TENSORS
    assert pending.num_bytes == 2000


def test_many_groups_are_cut_to_the_newest():
    record = read(*(entry(n, retired=True, group=str(n)) for n in range(100)))
    assert list(record.last) == [f"gloo:{n}" for n in range(99, 99 - flight.MAX_GROUPS, -1)]


# -- no record ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"pg_config": {}, "version": "2.10"}', "TORCH_FR_BUFFER_SIZE"),  # the recorder is switched off
        *((dump(entry(1))[:length], "cannot be understood") for length in (0, 1, 100, 500, -1)),
    ],
)
def test_error_of_an_unreadable_record_has_one_line(body, text):
    record, error = flight.read([body], NOW)
    assert record is None
    assert text in error
    assert "\n" not in error
