"""Tests of the exported table of steps. A phase or op that did not run is 0, and unknown values are null."""

import io
import json

import pytest
from pyarrow import parquet

from tests.steplog.build import append_once, logged, rank_box, segments
from zmon.probe.rank import OP_NUMBER, PHASE_NUMBER, TRAIN
from zmon.schema.measures import AMOUNT_MEASURES
from zmon.steplog import table
from zmon.steplog.table import Table, write_json_lines, write_parquet

OWN_COLUMNS = [measure.column for measure in AMOUNT_MEASURES]


def rows(root):
    """Return all rows from the JSON lines."""
    file = io.BytesIO()
    exported = Table.from_runs(logged(root))
    assert write_json_lines(exported, file) == file.getvalue().count(b"\n")
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_row_has_all_columns_in_order(tmp_path, root):
    box = rank_box(tmp_path / "boxes", rank=3, attempt=2)
    box.ledger.memory_reader = lambda: (100, 200, 300)
    box.clock.sleep(2)
    box.timeline.turn_to(TRAIN)
    box.ledger.work(32, 64)
    box.steps(1)
    append_once(root, box)
    (row,) = rows(root)
    start = row.pop("start")
    assert start > 1_700_000_000
    assert list(row.items()) == [
        ("job_id", "job"), ("attempt", 2), ("rank", 3), ("host", "node-a"), ("step", 1),
        ("duration", pytest.approx(0.020, abs=1e-6)), ("device_memory_peak", 300),
        *{**dict.fromkeys(OWN_COLUMNS), "samples": 32, "lookups": 64}.items(),
        ("phase_forward", pytest.approx(0.010, abs=1e-6)), ("phase_other", pytest.approx(0, abs=1e-6)),
        ("exposed_all_to_all", pytest.approx(0.010, abs=1e-6)),
        ("inflight_all_to_all", pytest.approx(0.010, abs=1e-6)),
        ("bytes_sent_all_to_all", 100), ("bytes_received_all_to_all", 60),
    ]  # fmt: skip


def test_gauges_are_columns_and_null_without_a_report(box, root):
    box.ledger.report({"loss": 0.5}, 1)
    box.steps(2)
    append_once(root, box)
    first, second = rows(root)
    assert list(first)[-1] == "report_loss"
    assert (first["report_loss"], second["report_loss"]) == (0.5, None)


def test_unknown_values_are_null_and_unused_phases_and_ops_have_no_column(box, root):
    box.steps(1)
    append_once(root, box)
    (row,) = rows(root)
    assert [name for name, value in row.items() if value is None] == ["device_memory_peak", *OWN_COLUMNS]
    used = [name for name in row if name.startswith(("phase_", "exposed_"))]
    assert used == ["phase_forward", "phase_other", "exposed_all_to_all"]


def test_phase_or_op_of_other_rows_is_0(tmp_path, root):
    for rank in range(2):
        box = rank_box(tmp_path / "boxes", rank)
        box.steps(1)
        if rank == 1:
            box.timeline.begin_step(None)
            box.timeline.phase(PHASE_NUMBER["optimizer"])
            box.clock.sleep(0.5)
            box.timeline.enter_op(OP_NUMBER["all_reduce"], 0, 8, 8)
            box.clock.sleep(0.25)
            box.timeline.leave_op()
            box.timeline.end_step()
        append_once(root, box)
    values = [(row["rank"], row["phase_optimizer"], row["exposed_all_reduce"], row["bytes_sent_all_reduce"],
             row["bytes_sent_all_to_all"]) for row in rows(root)]  # fmt: skip
    assert values == [
        (0, 0, 0, 0, 100),
        (1, 0, 0, 0, 100),
        (1, pytest.approx(0.5, abs=1e-6), pytest.approx(0.25, abs=1e-6), 8, 0),
    ]


def test_parquet_has_the_same_rows_and_typed_columns(tmp_path, root, monkeypatch):
    monkeypatch.setattr(table, "ROW_GROUP", 10)
    for rank in range(2):
        box = rank_box(tmp_path / "boxes", rank)
        box.steps(17)
        append_once(root, box)
    with (tmp_path / "out.parquet").open("wb") as file:
        assert write_parquet(Table.from_runs(logged(root)), file) == 34
    read = parquet.ParquetFile(tmp_path / "out.parquet")
    assert read.num_row_groups == 4
    assert read.read().to_pylist() == rows(root)
    types = {field.name: str(field.type) for field in read.schema_arrow}
    assert (types["host"], types["samples"], types["start"]) == ("string", "int64", "double")


def test_parquet_without_steps_has_no_rows(tmp_path):
    with (tmp_path / "out.parquet").open("wb") as file:
        assert write_parquet(Table.from_runs([]), file) == 0
    assert parquet.read_table(tmp_path / "out.parquet").num_rows == 0


def test_rows_are_read_from_a_segment_deleted_meanwhile(box, root):
    box.steps(100)
    append_once(root, box)
    (run,) = logged(root)
    exported = Table.from_runs([run])
    remaining = exported.rows()
    first = dict(zip(exported.columns(), next(remaining), strict=True))
    assert first["step"] == 1
    segments(root)[0].unlink()
    assert len([*remaining]) == 99  # the open segment
