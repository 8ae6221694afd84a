"""Tests of the baseline recorder: what it learns from jobs, and how it compares a job with that, or why it cannot."""

import logging
from dataclasses import replace

import pytest

from tests.build import JOB
from tests.hub.step_windows import job, step_window
from tests.scaling.test_fit import point as fitted_point
from tests.schema.test_curve import point
from zmon.detectors.slow.efficiency import EfficiencyLow
from zmon.hub.api.view import job_state
from zmon.hub.baseline_recorder import BaselineRecorder
from zmon.hub.baseline_store import BaselineStore
from zmon.hub.job_state import JobStates
from zmon.schema.curve import ON_PURPOSE, Efficiency
from zmon.schema.unknown import Unknown


def efficiency(recorder, job_):
    """Return the efficiency of a job, or why it is unknown."""
    result, _ = recorder.compare(job_, job_state(job_, ()))
    return result


def expected_step(recorder, job_):
    """Return the expected step of a job, or why it is unknown."""
    _, step = recorder.compare(job_, job_state(job_, ()))
    return step


@pytest.fixture
def recorder(store):
    """A recorder that has learned steps of 20 ms at 128 samples."""
    recorder = BaselineRecorder(store)
    recorder.learn(job(baseline=step_window()))
    return recorder


def test_job_is_compared_with_its_own_baseline(recorder):
    result = efficiency(recorder, job(now=step_window(0.025)))
    assert isinstance(result, Efficiency)
    assert (result.ratio, result.recorded) == (pytest.approx(0.8), pytest.approx(1.0))
    assert (result.name, result.scaling) == (JOB, "weak")


@pytest.mark.usefixtures("recorder")
def test_baseline_is_used_by_the_next_hub_for_the_next_launch(tmp_path):
    next_recorder = BaselineRecorder(BaselineStore(tmp_path / "baselines"))
    result = efficiency(next_recorder, job(now=step_window(0.04), attempt=3, run_uid="new"))
    assert result.ratio == pytest.approx(0.5)


def test_jobs_with_the_same_name_share_a_baseline(store):
    recorder = BaselineRecorder(store)
    fields = {"labels": {"name": "ranker"}}
    recorder.learn(job(baseline=step_window(), **fields))
    result = efficiency(recorder, job(now=step_window(0.025), job_id="tomorrow", **fields))
    assert (result.name, result.ratio) == ("ranker", pytest.approx(0.8))
    assert isinstance(efficiency(recorder, job(now=step_window(), job_id="tomorrow")), Unknown)


def test_next_run_of_a_command_is_compared_with_the_first_one(store):
    recorder = BaselineRecorder(store)
    recorder.learn(job(baseline=step_window(), owner=7, program="train-aaaaaa-111111"))
    again = {"job_id": "train-2", "owner": 7, "program": "train-aaaaaa-111111"}
    assert efficiency(recorder, job(now=step_window(0.025), **again)).ratio == pytest.approx(0.8)
    for other in ({"owner": 8}, {"program": "train-aaaaaa-222222"}, {"program": "train-bbbbbb-111111"}):
        assert isinstance(efficiency(recorder, job(now=step_window(), **{**again, **other})), Unknown)


def test_name_is_made_safe_for_a_file_name(store, tmp_path):
    BaselineRecorder(store).learn(job(baseline=step_window(), labels={"name": "../../etc/passwd"}))
    assert ".._.._etc_passwd.json" in {path.name for path in (tmp_path / "baselines").iterdir()}
    assert list(store.curve(JOB).points) == []


@pytest.mark.usefixtures("recorder")
def test_recorded_time_categories_sum_to_the_step(store):
    (recorded,) = store.curve(JOB).points
    assert sum(recorded.causes.values()) == pytest.approx(recorded.seconds)
    assert recorded.ranks_per_host == 4


def test_only_a_faster_launch_replaces_the_baseline(store):
    recorder = BaselineRecorder(store)
    for seconds, expected in ((0.02, 0.02), (0.03, 0.02), (0.0199, 0.02), (0.015, 0.015)):
        recorder.learn(job(baseline=step_window(seconds)))
        assert store.curve(JOB).points[0].seconds == expected


def test_expected_step_is_the_recorded_step(recorder, store):
    result = expected_step(recorder, job(now=step_window(0.03)))
    assert (result.by, result.seconds, result.now_seconds) == ("recorded", pytest.approx(0.02), pytest.approx(0.03))
    assert sum(result.now_causes.values()) == pytest.approx(0.03)
    assert store.curve(JOB).points[0].sent_bytes == {"all_to_all": 8.0}


def test_speed_is_compared_in_samples_per_second(store):
    recorder = BaselineRecorder(store)
    recorder.learn(job(baseline=step_window(0.0200, samples=1000)))
    recorder.learn(job(baseline=step_window(0.0195, samples=910)))
    assert store.curve(JOB).points[0].samples == 1000


def test_measured_point_is_never_replaced_although_another_is_nearer(store):
    points = (point(4, 1000, 0.1), replace(point(4, 1120, 0.2), by=ON_PURPOSE))
    store.record(JOB, *points)
    BaselineRecorder(store).learn(job(baseline=step_window(0.01, samples=1050)))
    assert store.curve(JOB).points == points


def test_steps_of_another_batch_size_are_not_recorded(store):
    BaselineRecorder(store).learn(job(baseline=step_window(samples=512)))  # the steps of `job` have 128 samples
    assert store.curve(JOB).points[0].causes == {}


def test_expected_step_has_as_many_samples_as_the_job(recorder):
    result = expected_step(recorder, job(now=step_window(0.0218, samples=139)))
    assert result.seconds == pytest.approx(0.0200 * 139 / 128)


@pytest.mark.parametrize("state", ["stalled", "eval", "checkpoint", "unknown"])
def test_job_that_does_not_train_has_no_efficiency(recorder, state):
    assert all(isinstance(result, Unknown) for result in recorder.compare(job(now=step_window()), state))


@pytest.mark.parametrize(
    ("job_", "reason"),
    [
        (job(now=step_window(), alive=False, exit_status="exit code 0"), "the job is not training: exited"),
        (job(), "the job has not taken enough steps yet"),
        (job(now=step_window(samples=None)), "the samples of a step are unknown: no batch was recognized"),
        (job(now=step_window()), "recorded: nothing"),
    ],
)
def test_comparison_without_data_is_unknown_with_a_reason(store, job_, reason):
    assert reason in efficiency(BaselineRecorder(store), job_).reason
    assert isinstance(expected_step(BaselineRecorder(store), job_), Unknown)


def test_unreadable_baseline_makes_the_answer_unknown(store, tmp_path):
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / f"{JOB}.json").write_text("{")
    assert "cannot be read" in efficiency(BaselineRecorder(store), job(now=step_window())).reason


def test_job_without_samples_or_without_good_steps_records_nothing(store):
    BaselineRecorder(store).learn(job(baseline=step_window(samples=None)))
    BaselineRecorder(store).learn(job())
    assert store.curve(JOB).points == ()


def test_write_error_is_logged_once(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    recorder = BaselineRecorder(BaselineStore(tmp_path / "file"))
    with caplog.at_level(logging.ERROR):
        recorder.learn(job(baseline=step_window()))
        recorder.learn(job(baseline=step_window()))
    assert len(caplog.records) == 1


def test_single_host_is_predicted_beyond_the_ranks_of_the_job(store):
    """The curve of a small job continues with the points that larger jobs on one host have recorded."""
    store.record(JOB, *(replace(fitted_point(ranks, 512 * ranks), ranks_per_host=ranks) for ranks in (1, 4, 8)))
    job_ = job(now=step_window())
    one_host = replace(job_, ranks=tuple(replace(r, host="n0") for r in job_.ranks))
    two_hosts = replace(job_, ranks=tuple(replace(r, host=f"n{r.rank % 2}") for r in job_.ranks))
    _, model = BaselineRecorder(store).model(one_host)
    assert not isinstance(model.predict(8, 4096), Unknown)
    _, model = BaselineRecorder(store).model(two_hosts)
    assert "between hosts" in model.predict(8, 4096).reason


def snapshot_after(tmp_path, job_, minutes, state="train"):
    """Return the snapshot of a job that has been like this for some minutes, with a pass every ten seconds."""
    states = JobStates(tmp_path)
    states.baselines.learn(job(baseline=step_window()))
    for seconds in range(0, minutes * 60 + 1, 10):
        latest = states.with_efficiency(replace(job_, time=job_.time + seconds), state)
    return latest


def test_efficiency_is_sampled_every_half_minute(tmp_path):
    job_ = job(now=step_window(0.025))
    samples = snapshot_after(tmp_path, job_, 1).efficiency
    assert [sample.time - job_.time for sample in samples] == [0, 30, 60]
    assert {(round(s.ratio, 3), round(s.recorded, 3), s.name, s.scaling) for s in samples} == {(0.8, 1.0, JOB, "weak")}


@pytest.mark.parametrize(("state", "samples"), [("eval", 128), ("stalled", 128), ("unknown", 128), ("train", 1024)])
def test_efficiency_is_not_sampled_without_training_or_at_a_size_without_baseline(tmp_path, state, samples):
    assert snapshot_after(tmp_path, job(now=step_window(0.025, samples=samples)), 1, state).efficiency == ()


def test_job_that_stays_slow_is_reported_after_ten_minutes(tmp_path):
    assert EfficiencyLow().detect(snapshot_after(tmp_path, job(now=step_window(0.025)), 9)) == ()
    (result,) = EfficiencyLow().detect(snapshot_after(tmp_path, job(now=step_window(0.025)), 10))
    assert "has reached 80% of the efficiency recorded for job at this size" in result.summary
