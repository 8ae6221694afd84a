"""Tests of errors of the hub's parts: each is logged once, and shown until its part succeeds on that job."""

import pytest

from zmon.hub.part_errors import ALL_JOBS, PartErrors


@pytest.fixture
def errors():
    """The errors of a hub that has had none."""
    return PartErrors()


def fail(errors, *part, text="it fails"):
    """Let a part fail with this text. `part`: its name, and the job that it fails on unless it is for all jobs."""
    with errors.isolated(*part):
        raise ValueError(text)


def test_error_is_shown_until_the_part_succeeds_on_the_same_job(errors):
    fail(errors, "stall", "a")
    fail(errors, "stall", "b")
    with errors.isolated("stall", "a"):
        pass
    assert errors.texts == {("stall", "b"): "ValueError: it fails"}


def test_error_is_logged_again_only_if_its_text_changes(errors, caplog):
    for text in ("first", "first", "second"):
        fail(errors, "stall", "a", text=text)
    assert [str(record.exc_info[1]) for record in caplog.records] == ["first", "second"]


def test_errors_on_jobs_that_are_gone_are_forgotten(errors):
    for job_id in ("a", "b"):
        fail(errors, "stall", job_id)
    errors.retain({"a"})
    assert list(errors.texts) == [("stall", "a")]


def test_error_of_a_part_for_all_jobs_is_logged_once_although_jobs_come_and_go(errors, caplog):
    for _ in range(3):
        fail(errors, "acts")
        errors.retain(set())
    assert list(errors.texts) == [("acts", ALL_JOBS)]
    assert len(caplog.records) == 1
