"""Tests of the reader of StragglerAnalysis traces: verdicts, self time, and bad input."""

import contextlib
import random

import pytest

from tests.offline.analyze.logs import written
from tests.offline.analyze.pipeline import pipelines
from tests.steps import by_step
from zmon.errors import UsageError
from zmon.offline.analyze import play
from zmon.offline.analyze.formats import straggler_analysis


def read(tmp_path, rows):
    """Write the rows to a file, and read it as a trace."""
    return straggler_analysis.read([written(tmp_path / "trace.jsonl", rows)])


def verdicts(trace):
    """Return cause and ranks of each finding about a trace."""
    return [(span.finding.cause, span.finding.ranks) for span in play(trace.steps, 0).spans]


def test_one_slow_worker_is_named(tmp_path):
    chance = random.Random(3)

    def slow(step, data_rank, stage, batch):
        return chance.uniform(0.98, 1.02) * (2.0 if (data_rank, stage) == (1, 0) else 1.0)

    trace = read(tmp_path, pipelines.rows(slow, steps=30, data_ranks=3))
    assert verdicts(trace) == [("compute_straggler", (1,))]
    (span,) = play(trace.steps, 0).spans
    assert "dp1-stage0" in span.finding.summary


def test_work_that_differs_in_each_microbatch_names_no_rank(tmp_path):
    """Like trace SE: sequence lengths differ from rank to rank and step to step."""
    chance = random.Random(5)
    trace = read(tmp_path, pipelines.rows(lambda *_: chance.choice((0.5, 0.8, 1.0, 2.5)), steps=40, data_ranks=8))
    assert verdicts(trace) == [("compute_jitter", ())]


def test_even_pipeline_is_quiet(tmp_path):
    chance = random.Random(9)
    trace = read(tmp_path, pipelines.rows(lambda *_: chance.uniform(0.95, 1.05), steps=30))
    assert verdicts(trace) == []


def test_healthy_rank_behind_a_slow_stage_waits_and_is_not_slow(tmp_path):
    trace = read(tmp_path, pipelines.rows(lambda s, d, stage, b: 2.0 if stage == 0 else 1.0, steps=1))
    first, last = (by_step(trace.steps)[0, rank][1].measures for rank in (0, 4))  # of the first and the last stage
    assert first.self_seconds == pytest.approx(2 * last.self_seconds, rel=0.02)
    assert last.exposed_seconds > 1.0


def test_phases_and_exposed_time_sum_to_the_step(tmp_path):
    trace = read(tmp_path, pipelines.rows(steps=2))
    for records in by_step(trace.steps).values():
        for record in records.values():
            assert record.measures.self_seconds + record.measures.exposed_seconds == pytest.approx(record.duration)


def test_send_and_receive_at_the_same_time_count_once(tmp_path):
    trace = read(tmp_path, pipelines.rows(steps=1, data_ranks=1, stages=2))
    (record,) = by_step(trace.steps)[0, 0].values()
    assert record.measures.exposed_seconds < 3.0


def test_pause_without_an_operation_is_exposed_time_of_an_unknown_op(tmp_path):
    rows = pipelines.rows(steps=1, data_ranks=1, stages=1, batches=1)
    rows[-1]["start_ts"] += 2.0  # the optimizer begins late
    measures = by_step(read(tmp_path, rows).steps)[0, 0][1].measures
    assert measures.ops["unknown"].exposed_seconds == pytest.approx(2.0)


def test_steps_of_a_sample_keep_their_numbers(tmp_path):
    rows = [{**row, "step": {0: 16, 1: 21, 2: 404}[row["step"]]} for row in pipelines.rows(steps=3)]
    table = read(tmp_path, rows).steps
    assert [table.number(step) for step in by_step(table)[0, 0]] == [16, 21, 404]
    assert play(table, 0).job_state.time.num_steps == 3  # the steps in between count for nothing


def test_ranks_of_a_part_of_the_job_are_numbered_and_keep_their_positions(tmp_path):
    rows = [{**row, "rank": 4 * row["rank"]} for row in pipelines.rows(steps=1)]
    trace = read(tmp_path, rows)
    assert sorted(trace.workers) == [0, 1, 2, 3, 4, 5]
    assert trace.workers[1].rank == 4
    assert trace.steps.hosts[0, 3] == "dp1-stage1"
    assert trace.steps.roles[0, 3] == "1"
    assert trace.steps.notes == ["the trace has 6 ranks, numbered 0 to 5 by their order: rank 1 is the job's rank 4"]


def test_step_that_lacks_a_rank_is_left_out(tmp_path):
    rows = [row for row in pipelines.rows(steps=3) if (row["step"], row["rank"]) != (1, 2)]
    trace = read(tmp_path, rows)
    assert len(by_step(trace.steps)[0, 0]) == 2
    assert set(trace.steps.left_out) == {"the step lacks some rank"}


def test_unknown_operation_is_an_unknown_op_and_stops_the_what_ifs(tmp_path):
    rows = pipelines.rows(steps=1)
    rows.append({**rows[0], "optype": "expert-all-to-all", "seq_id": 0, "start_ts": 0.0, "duration": 0.005})
    trace = read(tmp_path, rows)
    assert trace.what_ifs is None
    assert trace.steps.notes == ["no what-ifs: zmon does not know the operations expert-all-to-all"]


def test_send_without_a_receive_stops_the_what_ifs(tmp_path):
    rows = [row for row in pipelines.rows(steps=1) if row["optype"] != "forward-recv"]
    trace = read(tmp_path, rows)
    assert trace.what_ifs is None
    assert "a send has no receive" in trace.steps.notes[0]


@pytest.mark.parametrize(
    "change",
    [
        {"duration": float("nan")}, {"duration": -1.0}, {"start_ts": "x"}, {"rank": None}, {"rank": -1}, {"step": 1.5},
        {"optype": 7}, {"duration": 10**400}, {"stage": 1 << 40},
    ],
)  # fmt: skip
def test_row_that_cannot_be_used_is_counted(tmp_path, change):
    rows = pipelines.rows(steps=1)
    trace = read(tmp_path, [*rows, {**rows[0], **change}])
    assert sum(trace.steps.left_out.values()) == 1
    assert trace.what_ifs is not None


def test_rank_in_two_positions_is_refused(tmp_path):
    rows = pipelines.rows(steps=1)
    with pytest.raises(UsageError, match="rank 0 has two positions: dp0-stage0 and dp1-stage0"):
        read(tmp_path, [*rows, {**rows[0], "dp_rank": 1}])


@pytest.mark.parametrize("text", ["", "{}\n", "[1]\nnull\n", '{"rank": 0}\n', "\x00\xff\n"])
def test_file_without_operations_is_refused(tmp_path, text):
    (tmp_path / "a.jsonl").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match="no steps"):
        straggler_analysis.read([tmp_path / "a.jsonl"])


def test_rows_in_any_order_and_cut_anywhere_are_read_or_refused(tmp_path):
    chance, rows = random.Random(1), pipelines.rows(steps=2, data_ranks=1, stages=2, batches=2)
    for _ in range(60):
        some = chance.sample(rows, chance.randrange(1, len(rows)))
        with contextlib.suppress(UsageError):
            play(read(tmp_path, some).steps, 0)
