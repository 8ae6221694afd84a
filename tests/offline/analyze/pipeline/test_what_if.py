"""Tests of the what-ifs: against jobs that really ran with other durations, and against the published figures."""

from pathlib import Path

import pytest

from tests.offline.analyze.logs import written
from tests.offline.analyze.pipeline import pipelines
from zmon.offline.analyze.formats import straggler_analysis

RECORDED = Path(__file__).parents[1] / "recorded" / "straggler-analysis"


def what_ifs(tmp_path, rows):
    """Return the what-ifs of a trace with these rows."""
    return straggler_analysis.read([written(tmp_path / "trace.jsonl", rows)]).what_ifs


def test_even_pipeline_has_nothing_to_save(tmp_path):
    rows = pipelines.rows()
    report = what_ifs(tmp_path, rows)
    assert report.seconds == pytest.approx(pipelines.duration(rows), rel=1e-6)
    assert report.recorded_seconds == pytest.approx(report.seconds)
    assert report.even.saved_seconds == pytest.approx(0.0, abs=1e-9)
    assert report.slowest.saved_seconds == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_saving_of_a_slow_worker_is_that_of_the_job_without_it(tmp_path, stage):
    def slow(step, data_rank, at_stage, batch):
        return 2.0 if (data_rank, at_stage) == (1, stage) else 1.0

    data_ranks = 16
    size = {"data_ranks": data_ranks, "stages": 3, "batches": 8}
    trace, healthy = pipelines.rows(slow, **size), pipelines.rows(**size)
    report = what_ifs(tmp_path, trace)
    saving = pipelines.duration(trace) - pipelines.duration(healthy)
    assert report.seconds == pytest.approx(pipelines.duration(trace), rel=1e-6)
    assert stage * data_ranks + 1 in report.slowest.workers  # two of 48 are the slowest 3 %
    assert report.slowest.saved_seconds == pytest.approx(saving, rel=0.1)


def test_saving_of_a_long_stage_is_that_of_equal_stages(tmp_path):
    def longer(step, data_rank, stage, batch):
        return 1.6 if stage == 2 else 1.0

    def equal(step, data_rank, stage, batch):
        return 1.2  # the same work in all

    trace = pipelines.rows(longer)
    report = what_ifs(tmp_path, trace)
    saving = pipelines.duration(trace) - pipelines.duration(pipelines.rows(equal))
    assert report.even.saved_seconds == pytest.approx(saving, rel=0.02)
    *others, last = report.stages
    assert last.saved_seconds > report.even.saved_seconds
    assert all(what_if.saved_seconds <= 0 for what_if in others)
    assert report.slowest.explained_ratio < 0.2


@pytest.mark.parametrize(
    ("name", "seconds", "even_seconds"),
    [  # result-*.json of StragglerAnalysis; of AR and SE the two steps that are in the repository
        ("ST", 2.1727, 1.8433),
        ("AR", 46.5767, 23.4847),
        ("SE", 8.3576, 5.8975),
    ],
)
def test_replay_of_recorded_steps_agrees_with_the_published_figures(name, seconds, even_seconds):
    report = straggler_analysis.read([RECORDED / f"trace-{name}.parquet"]).what_ifs
    assert report.seconds == pytest.approx(seconds, rel=0.01)
    assert report.even.saved_seconds == pytest.approx(seconds - even_seconds, rel=0.1)


def test_slow_worker_of_a_recorded_trace_explains_all_unevenness():
    report = straggler_analysis.read([RECORDED / "trace-AR.parquet"]).what_ifs
    assert report.slowest.workers == (0,)
    assert report.slowest.explained_ratio == pytest.approx(1.0, abs=0.02)
