"""What a rank wrote is what the agent reads, or nothing: a damaged box never yields a value that was not written."""

import contextlib
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.build import JOB, Box
from zmon.box import BoxReader, layout
from zmon.errors import BoxCorrupt, BoxError, BoxVersion
from zmon.probe.rank import EVAL, OP_NUMBER, PHASE_NUMBER
from zmon.records import LastWords, Measures, Memory, OpTotals

PARTS = ("identity", "now", "totals", "report", "words", "groups", "sequences")


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


def read(box):
    """Everything a reader says about a box."""
    reader = BoxReader(box.path)
    try:
        return {part: getattr(reader, part)() for part in PARTS} | {"records": reader.records(0)}
    finally:
        reader.close()


# -- the round trip ----------------------------------------------------------------------------------------


def test_identity_comes_back_in_every_field(tmp_path):
    box = Box(
        tmp_path,
        identity={
            "pid": 4711, "uid": bytes(range(16)), "start": 12_345, "start_unix": 1_700_000_000_500_000_000,
            "launcher_pid": 4000, "launcher_start": 987, "rank": 5, "local_rank": 1, "world_size": 8,
            "local_world_size": 4, "attempt": 2, "restart_count": 3, "max_restarts": 7, "job_id": b"dlrm-17",
            "device": b"GPU-1234", "backend": b"nccl", "socket": b"/run/x.sock", "labels": b'{"owner": "ann"}',
        },
    )  # fmt: skip
    found = read(box)["identity"]
    assert (found.pid, found.run_uid, found.start_ns, found.start_unix) == (
        4711,
        bytes(range(16)).hex(),
        12_345,
        1_700_000_000.5,
    )
    assert (found.launcher_pid, found.launcher_start) == (4000, 987)
    assert (found.rank, found.local_rank, found.world_size, found.local_world_size) == (5, 1, 8, 4)
    assert (found.attempt, found.restart_count, found.max_restarts) == (2, 3, 7)
    assert (found.job_id, found.device, found.backend, found.socket) == ("dlrm-17", "GPU-1234", "nccl", "/run/x.sock")
    assert found.labels == {"owner": "ann"}


def test_no_launcher_that_restarts_and_no_backend_are_unknown(tmp_path):
    found = read(Box(tmp_path, identity={"max_restarts": -1, "backend": b""}))["identity"]
    assert found.max_restarts is None
    assert found.backend is None


def test_state_comes_back_in_every_field(box):
    begun = box.clock.ns
    box.timeline.begin_step(41)
    box.clock.sleep(0.5)
    box.timeline.phase(PHASE_NUMBER["embedding"])
    box.clock.sleep(0.25)
    box.timeline.enter_op(OP_NUMBER["broadcast"], box.timeline.group("pg", 2), 4096, 0)
    found = read(box)["now"]
    assert found.since == begun + 750_000_000
    assert found.activity_since == found.step_since == begun
    assert (found.step, found.sequence, found.num_bytes) == (41, 1, 4096)
    assert (found.activity, found.phase, found.op, found.group) == ("train", "embedding", "broadcast", 0)


def test_state_outside_a_collective_has_none(box):
    found = read(box)["now"]
    assert (found.activity, found.op, found.group) == ("init", None, None)


def test_totals_and_records_come_back_in_every_field(box):
    given_ = list(range(100, 100 + layout.NUM_MEASURES))
    box.writer.totals(1, 20_000_000, 5_000_000_000, 6_000_000_000, 11, 12, 13, 7_000_000, 3, *given_)
    box.writer.record(9, 1_000_000_000, 20_000_000, 14, *given_)
    found = read(box)
    totals, (number, record) = found["totals"], found["records"][0]
    assert (totals.steps, totals.step_seconds) == (1, pytest.approx(0.020))
    assert (totals.last_step_time, totals.last_checkpoint_time) == (5.0, 6.0)
    assert totals.memory == Memory(11, 12, 13)
    assert (totals.overhead_seconds, totals.dropped_records) == (pytest.approx(0.007), 3)
    assert (number, record.step, record.device_memory_peak_bytes) == (1, 9, 14)
    assert (record.start, record.duration) == (pytest.approx(1.0), pytest.approx(0.020))
    for measured in (totals.measures, record.measures):
        assert (measured.samples, measured.lookups) == (100, 101)
        assert (measured.network_sent_bytes, measured.network_received_bytes) == (102, 103)
        assert (measured.nic_sent_bytes, measured.nic_received_bytes) == (104, 105)
        assert list(measured.phases) == list(PHASE_NUMBER)
        assert measured.phases["data"] == pytest.approx(106e-9)
        assert list(measured.ops) == list(OP_NUMBER)
        assert measured.ops["all_to_all"] == OpTotals(113, pytest.approx(114e-9), pytest.approx(115e-9), 116, 117)


def test_what_is_unknown_is_not_zero(box):
    box.timeline.begin_step(None)
    box.timeline.end_step()
    found = read(box)
    assert found["totals"].memory is None
    assert found["totals"].last_checkpoint_time is None
    assert found["records"][0][1].device_memory_peak_bytes is None
    assert found["records"][0][1].measures == Measures()


def test_report_groups_and_sequences_come_back(box):
    box.timeline.report({"loss": 0.5, "auc": float("nan")})
    for name, size in (("default", 4), ("tables", 2)):
        box.timeline.group(name, size)
    for group in (0, 1, 1):
        box.timeline.count_op(OP_NUMBER["all_reduce"], group, 8, 8)
    found = read(box)
    assert found["report"]["loss"] == 0.5
    assert found["report"]["auc"] != found["report"]["auc"]
    assert found["groups"] == {0: ("default", 4), 1: ("tables", 2)}
    assert (found["sequences"][0], found["sequences"][1]) == (1, 2)


def test_last_words_come_back_and_long_ones_are_cut_between_characters(box):
    assert read(box)["words"] is None
    box.timeline.last_words("exception", "builtins.ValueError", "ж" * 5000)
    found = read(box)["words"]
    assert (found.kind, found.type) == ("exception", "builtins.ValueError")
    assert set(found.message) == {"ж"}
    assert len(found.message.encode()) >= 1022


def test_what_a_signal_handler_appended_are_the_last_words(box):
    with box.path.open("ab") as file:
        file.write(b"Current thread 0x01:\n  File train.py, line 3 in main\n")
    found = read(box)["words"]
    assert (found.kind, found.type) == ("signal", "SIGTERM")
    assert "train.py, line 3" in found.message
    assert found.time == pytest.approx(box.path.stat().st_mtime)


def test_last_words_win_over_a_signal_that_came_later(box):
    box.timeline.last_words("exception", "builtins.ValueError", "bad batch")
    with box.path.open("ab") as file:
        file.write(b"Current thread 0x01:\n")
    assert isinstance(read(box)["words"], LastWords)
    assert read(box)["words"].type == "builtins.ValueError"


# -- files that are no box ---------------------------------------------------------------------------------


def refused(path, error):
    """The line a reader refuses a file with."""
    with pytest.raises(error) as caught:
        BoxReader(path)
    line = str(caught.value)
    assert str(path) in line
    assert "\n" not in line
    return line


@pytest.mark.parametrize("content", [b"", b"ZMON", b"\x7fELF" + b"\0" * 4096, b"loss=0.5\n" * 1000])
def test_foreign_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "rank-0.box"
    path.write_bytes(content)
    assert "it is not one" in refused(path, BoxCorrupt)


def test_box_of_another_version_is_refused_by_name(box):
    box.overwrite(8, struct.pack("<I", layout.VERSION + 1))
    line = refused(box.path, BoxVersion)
    assert f"version {layout.VERSION + 1}" in line
    assert f"version {layout.VERSION}" in line


def test_box_with_sizes_of_its_own_is_refused(box):
    box.overwrite(12, struct.pack("<I", 1_000_000_000))
    assert "sizes" in refused(box.path, BoxCorrupt)


@pytest.mark.parametrize("size", [layout.PREFIX.size, layout.RING, layout.FILE_SIZE - 1])
def test_truncated_box_is_refused(box, size):
    with box.path.open("r+b") as file:
        file.truncate(size)
    assert "cut short" in refused(box.path, BoxCorrupt)


@pytest.mark.parametrize("part", PARTS)
def test_box_that_is_truncated_under_an_open_reader_is_corrupt(box, part):
    reader = BoxReader(box.path)
    with box.path.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(BoxCorrupt) as caught:
        getattr(reader, part)()
    assert "\n" not in str(caught.value)
    reader.close()


def test_link_to_a_box_is_not_followed(box, tmp_path):
    link = tmp_path / "rank-1.box"
    link.symlink_to(box.path)
    with pytest.raises(OSError, match=r"rank-1\.box"):
        BoxReader(link)


def test_identity_that_cannot_be_is_corrupt(tmp_path):
    reader = BoxReader(Box(tmp_path, identity={"rank": 5, "world_size": 2}).path)
    with pytest.raises(BoxCorrupt, match="cannot be"):
        reader.identity()
    reader.close()


# -- damage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", [layout.NOW, layout.TOTALS, layout.REPORT], ids=["now", "totals", "report"])
def test_writer_frozen_in_the_middle_of_a_write_leaves_the_state_before_it(box, cell):
    part = {layout.NOW: "now", layout.TOTALS: "totals", layout.REPORT: "report"}[cell]
    box.steps(3)
    box.timeline.report({"loss": 3.0})
    seen = []
    for number in (1, 2):
        box.clock.sleep(0.001)
        box.timeline.phase(PHASE_NUMBER["data"])
        box.steps(1)
        box.timeline.report({"loss": float(number)})
        seen.append(read(box)[part])
    assert seen[0] != seen[1]
    torn = box.newest_slot(cell)
    box.overwrite(torn + 8, b"\xaa" * 3)
    found = read(box)[part]
    assert found != seen[1]
    if part != "now":  # a step writes that more than once
        assert found == seen[0]
    assert found == read(box)[part]


def test_box_with_both_copies_of_a_cell_damaged_is_corrupt_and_the_rest_of_it_is_not(box):
    box.steps(2)
    for at in (layout.NOW.offset, layout.NOW.offset + layout.NOW.slot_size):
        box.flip(at + 9)
    reader = BoxReader(box.path)
    with pytest.raises(BoxCorrupt, match="checksum"):
        reader.now()
    assert reader.identity().job_id == JOB
    assert len(reader.records(0)) == 2
    reader.close()


def test_damaged_record_is_left_out_and_its_neighbours_are_not(box):
    box.steps(5)
    box.flip(layout.RING + 3 * layout.RECORD_SIZE + 40)
    assert [number for number, _ in read(box)["records"]] == [1, 2, 4, 5]


def test_sequence_caught_in_the_middle_of_a_write_is_left_out(box):
    box.steps(2)
    box.flip(layout.SEQUENCES + 2)
    assert 0 not in read(box)["sequences"]


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A box with two steps of history, its bytes, and every value each part ever had."""
    box = Box(tmp_path_factory.mktemp("flips"))
    written = {part: [repr(value)] for part, value in read(box).items()}
    plain = [lambda: box.steps(1), lambda: box.timeline.report({"loss": 0.5}), lambda: box.timeline.turn_to(EVAL)]
    for act in [*plain, *plain]:
        act()
        for part, value in read(box).items():
            written[part].append(repr(value))
    records = {repr(pair) for pair in read(box)["records"]}
    return box, box.path.read_bytes(), written, records


# Where the values are: the whole head, and the two records of the ring that were written.
OFFSETS = st.one_of(st.integers(0, layout.RING - 1), st.integers(layout.RING, layout.RING + 4 * layout.RECORD_SIZE - 1))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=st.lists(st.tuples(OFFSETS, st.integers(1, 255)), min_size=1, max_size=12))
def test_no_damage_yields_a_value_that_was_not_written(history, flips):
    box, pristine, written, records = history
    box.overwrite(0, pristine[: layout.RING + 4 * layout.RECORD_SIZE])
    for offset, mask in flips:
        box.flip(offset, mask)
    try:
        reader = BoxReader(box.path)
    except BoxError:
        return
    try:
        for part in PARTS:
            with contextlib.suppress(BoxCorrupt):
                value = getattr(reader, part)()
                if part == "sequences":  # a damaged counter is left out
                    assert value.items() <= {group: 2 if group == 0 else 0 for group in range(8)}.items()
                else:
                    assert repr(value) in written[part]
        with contextlib.suppress(BoxCorrupt):
            assert {repr(pair) for pair in reader.records(0)} <= records
    finally:
        reader.close()


# -- the ring ----------------------------------------------------------------------------------------------


def test_ring_holds_the_last_4096_records(box):
    box.steps(layout.RING_CAPACITY + 904)
    records = read(box)["records"]
    assert [number for number, _ in records] == list(range(905, 5001))
    assert [record.step for _, record in records] == list(range(905, 5001))


def test_records_are_read_on_from_where_the_last_reading_ended(box):
    box.steps(5)
    reader = BoxReader(box.path)
    assert [number for number, _ in reader.records(3)] == [4, 5]
    assert reader.records(5) == []
    reader.close()


def test_record_that_the_writer_is_overwriting_is_not_read_as_a_whole_one(box):
    box.steps(layout.RING_CAPACITY + 1)
    at = layout.RING + 2 % layout.RING_CAPACITY * layout.RECORD_SIZE
    box.overwrite(at, struct.pack("<Q", layout.RING_CAPACITY + 2))  # its number is new, its body still the old one
    numbers = [number for number, _ in read(box)["records"]]
    assert numbers == list(range(3, layout.RING_CAPACITY + 2))


def test_whole_record_of_another_number_is_not_taken_for_the_one_that_was_asked_for(box):
    """The writer lapped the reader: the record is whole, and it is 4,096 steps newer."""
    box.steps(3)
    data = box.path.read_bytes()
    at = layout.RING + 3 * layout.RECORD_SIZE
    box.overwrite(layout.RING + 2 * layout.RECORD_SIZE, data[at : at + layout.RECORD_SIZE])
    assert [number for number, _ in read(box)["records"]] == [1, 3]
