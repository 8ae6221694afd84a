"""Tests of the output of the demo: the progress line, the summary, and the messages of the trainer."""

from dataclasses import replace
from io import StringIO

from rich.console import Console

from tests.build import finding
from tests.cli.render.build import text_of
from tests.metrics.scene import JOB_VIEW
from zmon.cli.demo import Relay
from zmon.cli.render.demo import progress_line, summary


def job_view(**changes):
    """Return a job with a loss and these changes."""
    return replace(JOB_VIEW, **{"report": {"loss": 0.512345}, **changes})


def test_progress_line_has_step_rate_loss_and_step_time():
    line = progress_line(job_view(step=1234), [])
    for part in ("train", "step 1,234", "1,600 samples/s", "loss 0.5123", "step time 20.0 ms"):
        assert part in line
    assert "\n" not in line


def test_progress_line_before_first_step_shows_waiting():
    for job in (None, job_view(step=0), job_view(step_seconds=None)):
        assert "waiting for the first step" in progress_line(job, [])


def test_progress_line_names_only_open_findings():
    assert progress_line(job_view(), [finding()]).endswith("CRITICAL rank_frozen rank 2")
    assert "CRITICAL" not in progress_line(job_view(), [finding(resolved=1.0)])


def test_nan_loss_is_shown_as_nan_and_missing_loss_as_unknown():
    assert "loss NaN" in progress_line(job_view(report={"loss": None}), [])
    assert "loss unknown" in progress_line(job_view(report={}), [])


def test_summary_has_shares_of_time_and_findings():
    text = text_of(summary(job_view(time={"forward": 3.0, "all_to_all": 1.0}), [finding()]))
    for part in ("100", "20.0 ms / 30.0 ms", "75.0%", "25.0%", "critical rank 2 on node-a froze"):
        assert part in text
    assert text.index("forward") < text.index("all_to_all")


def test_summary_reports_missing_job_unknown_values_and_no_findings():
    assert "the hub saw no step" in text_of(summary(None, []))
    assert "unknown" in text_of(
        summary(job_view(samples_per_second=None, step_seconds=None, step_seconds_p95=None), [])
    )
    assert "none" in text_of(summary(job_view(), []))


def test_messages_of_the_trainer_are_shown_once_and_complete(tmp_path):
    log, out = tmp_path / "log", StringIO()
    log.write_text("step 1\ntrainer: rows.tsv line 3 column 7: not a number\nzmon: half a li")
    relay = Relay(log, Console(file=out, width=200))
    relay.show()
    relay.show()
    with log.open("a") as file:
        file.write("ne\n")
    relay.show()
    assert out.getvalue().splitlines() == ["trainer: rows.tsv line 3 column 7: not a number", "zmon: half a line"]
    assert relay.num_lines == 2
