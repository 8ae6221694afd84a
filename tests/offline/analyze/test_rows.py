"""Tests of reading step logs of other tools. Missing values are unknown, and unusable rows are counted."""

import pytest

from tests.offline.analyze.logs import rows, without, written
from tests.steps import by_step
from zmon.errors import UsageError
from zmon.offline.analyze import read


def measures(log, rank=0, step=1):
    """Return what was counted in a step of a rank."""
    return by_step(log)[0, rank][step].measures


def test_each_row_is_read_as_a_record(tmp_path):
    log = read([written(tmp_path / "a.jsonl", rows(steps=10, ranks=3))])
    assert (log.job_id, log.attempts(), log.has_exposed_time) == ("elsewhere", [0], True)
    assert {rank: len(steps) for (_, rank), steps in by_step(log).items()} == {0: 10, 1: 10, 2: 10}
    assert log.hosts[0, 2] == "node-1"


def test_parquet_and_json_lines_are_equal(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = list(rows(steps=10))
    parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path / "a.parquet")
    assert by_step(read([tmp_path / "a.parquet"])) == by_step(read([written(tmp_path / "a.jsonl", table)]))


def test_gauges_are_read_by_rank_and_step(tmp_path):
    table = [{**row, "report_loss": row["step"] / 10 if row["rank"] == 1 else None} for row in rows(steps=2, ranks=2)]
    log = read([written(tmp_path / "a.jsonl", table)])
    assert log.reported == {(0, 1): {1: {"loss": 0.1}, 2: {"loss": 0.2}}}


def test_missing_columns_are_unknown(tmp_path):
    log = read([written(tmp_path / "a.jsonl", without(rows(steps=1), "samples", "host"))])
    assert (measures(log).samples, measures(log).lookups, log.hosts[0, 0]) == (None, None, "unknown")
    nulls = {"lookups": None, "nic_sent": None, "device_memory_peak": None}  # `zmon steps` writes them
    assert measures(read([written(tmp_path / "b.jsonl", rows(steps=1, **nulls))])).lookups is None


def test_time_without_phases_is_self_time_if_exposed_time_is_known(tmp_path):
    log = read([written(tmp_path / "a.jsonl", without(rows(steps=1), "phase_"))])
    (row, *_) = rows(steps=1)
    assert measures(log).phases == pytest.approx({"other": row["duration"] - row["exposed_all_reduce"]})


def test_time_outside_phases_is_exposed_time_of_an_unknown_op(tmp_path):
    log = read([written(tmp_path / "a.jsonl", without(rows(steps=1), "exposed_"))])
    (row, *_) = rows(steps=1)
    assert measures(log).ops["unknown"].exposed_seconds == pytest.approx(row["exposed_all_reduce"])
    assert log.has_exposed_time
    durations = read([written(tmp_path / "b.jsonl", without(rows(steps=1), "exposed_", "phase_"))])
    assert not durations.has_exposed_time


def test_unusable_rows_are_counted_by_their_reason(tmp_path):
    usable = list(rows(steps=2, ranks=1))
    path = written(
        tmp_path / "a.jsonl", [*usable, {**usable[0], "duration": -1}, {**usable[0], "rank": "x"}, {"step": 1}]
    )
    with path.open("a") as file:
        file.write('[1, 2]\n{"cut": \n\n')
    log = read([path])
    assert dict(log.left_out) == {
        "rank, start or duration is not possible": 1,
        "rank, step, start or duration is not a number": 1,
        "no 'rank'": 1,
        "not a row": 2,
    }
    assert len(by_step(log)[0, 0]) == 2


def test_long_log_is_thinned_to_the_same_steps_of_every_rank(tmp_path, monkeypatch):
    monkeypatch.setattr("zmon.offline.analyze.rows.MAX_ROWS", 100)
    log = read([written(tmp_path / "a.jsonl", rows(steps=200))])
    assert log.every == 8  # 800 rows of four ranks
    assert {tuple(steps) for steps in by_step(log).values()} == {tuple(range(8, 201, 8))}


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("a.csv", "rank,step\n", "must end in .parquet or .jsonl"),
        ("a.jsonl", "", "the log is empty"),
        ("a.jsonl", "what?\n", "1 rows left out: not a row"),
        ("a.parquet", "what?\n", "a.parquet"),
    ],
)
def test_invalid_log_is_refused(tmp_path, name, text, part):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=part):
        read([tmp_path / name])


def test_damaged_parquet_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(list(rows(steps=2000))), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:1000] + bytes(len(whole) // 2) + whole[1000 + len(whole) // 2 :])
    with pytest.raises(UsageError, match="cannot read"):
        read([path])


def test_numbers_out_of_range_are_left_out_or_unknown(tmp_path):
    (row, *_) = rows(steps=1)
    beyond = [{**row, "rank": 2_000_000_000}, {**row, "duration": 10**400}, {**row, "samples": 10**400}]
    beyond += [{**row, name: value} for name, value in (("duration", 1e300), ("duration", 1e-10), ("start", -1e300))]
    log = read([written(tmp_path / "a.jsonl", beyond)])
    assert dict(log.left_out) == {
        "rank is beyond 1,048,576": 1,
        "rank, start or duration is not possible": 3,
        "rank, step, start or duration is not a number": 1,
    }
    assert measures(log).samples is None


def test_log_with_several_jobs_is_refused_without_a_choice(tmp_path):
    path = written(tmp_path / "a.jsonl", [*rows(steps=1), *rows(steps=1, job_id="other")])
    with pytest.raises(UsageError, match="elsewhere, other"):
        read([path])
    assert read([path], "other").job_id == "other"
    with pytest.raises(UsageError, match="no steps of job third: the log has the jobs elsewhere, other"):
        read([path], "third")


@pytest.mark.parametrize("job", [4711, "4711"])
def test_job_with_a_number_as_its_id_is_selected(tmp_path, job):
    """Slurm's ids are numbers, and a log of another tool may have them as such."""
    path = written(tmp_path / "a.jsonl", [*rows(steps=2, job_id=job), *rows(steps=1, job_id="other")])
    log = read([path], "4711")
    assert (log.job_id, [len(steps) for steps in by_step(log).values()]) == ("4711", [2, 2, 2, 2])


def test_unknown_phase_and_op_keep_their_names(tmp_path):
    times = {"phase_forward": 0.01, "phase_quantize": 0.01, "exposed_shuffle": 0.01}
    row = {"rank": 0, "step": 1, "duration": 0.03, **times}
    step = measures(read([written(tmp_path / "a.jsonl", [row])]))
    assert step.phases == {"forward": 0.01, "quantize": 0.01}
    assert {op: totals.exposed_seconds for op, totals in step.ops.items()} == {"shuffle": 0.01}
