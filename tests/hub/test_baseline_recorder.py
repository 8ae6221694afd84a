"""The hub learns how fast jobs of a name are, and says what one reaches of it; else why nobody can tell."""

import logging
from dataclasses import replace

import pytest

from tests.build import JOB, job_steps, rank_state, snapshot
from tests.scaling.test_fit import point as fitted
from tests.schema.test_curve import point
from zmon.detectors.efficiency import EfficiencyLow
from zmon.hub.api.view import job_state
from zmon.hub.baseline_recorder import BaselineRecorder
from zmon.hub.baseline_store import BaselineStore
from zmon.hub.job_state import JobStates
from zmon.schema.aligned_step import StepWindow
from zmon.schema.curve import ON_PURPOSE, Efficiency
from zmon.schema.unknown import Unknown


def good(seconds=0.02, samples=128):
    return StepWindow(200, seconds, seconds / 2, 0.0, seconds / 2, samples)


def job(now=None, baseline=None, **changes):
    """A job of four ranks whose last stretch was like `now`."""
    seen = snapshot(*(rank_state(rank, **changes) for rank in range(4)))
    stretches = (now,) if now else ()
    return replace(seen, stretches=stretches, baseline=baseline, steps=tuple(job_steps(16)))


def efficiency(curves, seen):
    return curves.judge(seen, job_state(seen, ()))[0]


def step(curves, seen):
    return curves.judge(seen, job_state(seen, ()))[1]


@pytest.fixture
def kept(tmp_path):
    return BaselineStore(tmp_path / "baselines")


def test_job_is_held_against_what_it_was_itself_while_it_was_well(kept):
    curves = BaselineRecorder(kept)
    curves.learn(job(baseline=good()))
    found = efficiency(curves, job(now=good(0.025)))
    assert isinstance(found, Efficiency)
    assert (found.ratio, found.recorded) == (pytest.approx(0.8), pytest.approx(1.0))
    assert (found.name, found.scaling) == (JOB, "weak")


def test_another_hub_and_another_start_go_on_with_it(kept, tmp_path):
    BaselineRecorder(kept).learn(job(baseline=good()))
    found = efficiency(
        BaselineRecorder(BaselineStore(tmp_path / "baselines")), job(now=good(0.04), attempt=3, run_uid="new")
    )
    assert found.ratio == pytest.approx(0.5)


def test_jobs_with_the_same_name_share_what_was_recorded(kept):
    curves = BaselineRecorder(kept)
    named = {"labels": {"name": "ranker"}}
    curves.learn(job(baseline=good(), **named))
    found = efficiency(curves, job(now=good(0.025), job_id="tomorrow", **named))
    assert (found.name, found.ratio) == ("ranker", pytest.approx(0.8))
    assert isinstance(efficiency(curves, job(now=good(), job_id="tomorrow")), Unknown)


def test_name_becomes_one_of_a_file(kept, tmp_path):
    BaselineRecorder(kept).learn(job(baseline=good(), labels={"name": "../../etc/passwd"}))
    assert ".._.._etc_passwd.json" in {path.name for path in (tmp_path / "baselines").iterdir()}
    assert list(kept.curve(JOB).points) == []


def test_causes_that_are_recorded_sum_to_the_step(kept):
    BaselineRecorder(kept).learn(job(baseline=good()))
    (recorded,) = kept.curve(JOB).points
    assert sum(recorded.causes.values()) == pytest.approx(recorded.seconds)
    assert recorded.ranks_per_host == 4


def test_slower_start_never_becomes_what_is_expected_and_a_faster_one_does(kept):
    curves = BaselineRecorder(kept)
    for seconds, expected in ((0.02, 0.02), (0.03, 0.02), (0.0199, 0.02), (0.015, 0.015)):
        curves.learn(job(baseline=good(seconds)))
        assert kept.curve(JOB).points[0].seconds == expected


def test_what_was_measured_on_purpose_is_not_written_over(kept):
    measured = replace(point(4, 128, 0.03), by=ON_PURPOSE)
    kept.record(JOB, measured)
    BaselineRecorder(kept).learn(job(baseline=good(0.01)))
    assert kept.curve(JOB).points == (measured,)


def test_step_is_expected_as_it_was_recorded_and_the_part_that_grew_is_known(kept):
    curves = BaselineRecorder(kept)
    curves.learn(job(baseline=good()))
    found = step(curves, job(now=good(0.03)))
    assert (found.by, found.seconds, found.now_seconds) == ("recorded", pytest.approx(0.02), pytest.approx(0.03))
    assert sum(found.now_causes.values()) == pytest.approx(0.03)
    assert kept.curve(JOB).points[0].sent_bytes == {"all_to_all": 8.0}


def test_other_size_is_predicted_from_what_ran_before(kept):
    for ranks in (2, 4):
        kept.record(JOB, replace(fitted(ranks, 32 * ranks), ranks_per_host=4))
    found = step(BaselineRecorder(kept), job(now=good(0.03, samples=1024)))
    assert found.by == "predicted"


@pytest.mark.parametrize("seen", [job(), job(now=good(), alive=False), job(now=good(samples=None)), job(now=good())])
def test_step_of_which_nobody_can_tell_is_unknown(kept, seen):
    assert isinstance(step(BaselineRecorder(kept), seen), Unknown)


def test_more_samples_a_second_are_faster_however_many_a_step_has(kept):
    curves = BaselineRecorder(kept)
    curves.learn(job(baseline=good(0.0200, samples=1000)))
    curves.learn(job(baseline=good(0.0195, samples=910)))
    assert kept.curve(JOB).points[0].samples == 1000


def test_point_measured_on_purpose_stays_where_another_is_nearer(kept):
    kept.record(JOB, point(4, 1000, 0.1), replace(point(4, 1120, 0.2), by=ON_PURPOSE))
    BaselineRecorder(kept).learn(job(baseline=good(0.01, samples=1050)))
    assert [p.samples for p in kept.curve(JOB).points] == [1000, 1120]


def test_steps_of_the_batch_before_are_no_part_of_what_is_recorded(kept):
    other = replace(job(baseline=good(samples=512)), steps=tuple(job_steps(16)))  # of 128 samples
    BaselineRecorder(kept).learn(other)
    assert kept.curve(JOB).points[0].causes == {}


def test_expected_step_has_as_many_samples_as_the_job(kept):
    curves = BaselineRecorder(kept)
    curves.learn(job(baseline=good(0.0200, samples=128)))
    assert step(curves, job(now=good(0.0218, samples=139))).seconds == pytest.approx(0.0200 * 139 / 128)


@pytest.mark.parametrize("state", ["stalled", "eval", "checkpoint", "unknown"])
def test_job_that_does_not_train_has_no_efficiency(kept, state):
    curves = BaselineRecorder(kept)
    curves.learn(job(baseline=good()))
    assert all(isinstance(found, Unknown) for found in curves.judge(job(now=good()), state))


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (job(now=good(), alive=False, exit_status="exit code 0"), "it does not train now: exited"),
        (job(), "it has not taken steps enough"),
        (job(now=good(samples=None)), "its ranks do not tell their samples"),
        (job(now=good()), "nothing was"),
    ],
)
def test_what_nobody_can_know_is_unknown_and_says_why(kept, seen, why):
    assert why in efficiency(BaselineRecorder(kept), seen).reason


def test_baseline_that_cannot_be_read_makes_it_unknown(kept, tmp_path):
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / f"{JOB}.json").write_text("{")
    assert "cannot be read" in efficiency(BaselineRecorder(kept), job(now=good())).reason


def test_job_without_samples_or_without_good_steps_records_nothing(kept):
    BaselineRecorder(kept).learn(job(baseline=good(samples=None)))
    BaselineRecorder(kept).learn(job())
    assert kept.curve(JOB).points == ()


def test_disk_that_is_full_is_said_once_and_harms_nothing(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    curves = BaselineRecorder(BaselineStore(tmp_path / "file"))
    with caplog.at_level(logging.ERROR):
        curves.learn(job(baseline=good()))
        curves.learn(job(baseline=good()))
    assert len(caplog.records) == 1


def test_one_host_may_have_room_for_more_ranks_than_this_job_has(kept):
    """So that a curve of a small job goes on to what was recorded of larger ones beside it."""
    kept.record(JOB, *(replace(fitted(ranks, 512 * ranks), ranks_per_host=ranks) for ranks in (1, 4, 8)))
    of_one, of_two = job(now=good()), job(now=good())
    one_host = replace(of_one, ranks=tuple(replace(r, host="n0") for r in of_one.ranks))
    assert not isinstance(BaselineRecorder(kept).model(one_host)[1].at(8, 4096), Unknown)
    two_hosts = replace(of_two, ranks=tuple(replace(r, host=f"n{r.rank % 2}") for r in of_two.ranks))
    assert "between hosts" in BaselineRecorder(kept).model(two_hosts)[1].at(8, 4096).reason


def watched(tmp_path, seen, minutes, state="train"):
    """What the hub knows of a job after it was like that for so long, with a look every ten seconds."""
    books = JobStates(tmp_path)
    books.curves.learn(job(baseline=good()))
    for seconds in range(0, minutes * 60 + 1, 10):
        known = books.with_efficiency(replace(seen, time=seen.time + seconds), state)
    return known


def test_what_a_job_reaches_is_remembered_every_half_minute(tmp_path):
    seen = job(now=good(0.025))
    kept = watched(tmp_path, seen, 1).efficiency
    assert [sample.time - seen.time for sample in kept] == [0, 30, 60]
    assert {(round(s.ratio, 3), round(s.recorded, 3), s.name, s.scaling) for s in kept} == {(0.8, 1.0, JOB, "weak")}


@pytest.mark.parametrize("state", ["eval", "stalled", "unknown"])
def test_what_a_job_reaches_is_not_known_while_it_does_not_train(tmp_path, state):
    assert watched(tmp_path, job(now=good(0.025)), 1, state).efficiency == ()


def test_size_that_nobody_recorded_is_not_judged(tmp_path):
    assert watched(tmp_path, job(now=good(0.025, samples=1024)), 1).efficiency == ()


def test_job_that_stays_slow_is_found_after_ten_minutes(tmp_path):
    assert EfficiencyLow().detect(watched(tmp_path, job(now=good(0.025)), 9)) == ()
    (found,) = EfficiencyLow().detect(watched(tmp_path, job(now=good(0.025)), 10))
    assert "has reached 80% of the efficiency recorded for job at this size" in found.summary
