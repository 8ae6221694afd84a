"""Tests of `zmon analyze`. It runs the detectors of the hub over a step log."""

import json

import pytest
from click.testing import CliRunner

from tests.offline.analyze.logs import rows, without, written
from zmon.cli.analyze import analyze
from zmon.offline.analyze import play, read


@pytest.fixture
def run(tmp_path):
    """Return a function that runs `zmon analyze` over a step log in this process, and returns click's result."""

    def run(steps, *arguments):
        return CliRunner().invoke(analyze, [str(written(tmp_path / "log.jsonl", steps)), *arguments])

    return run


def test_slow_rank_is_reported_with_its_steps(run):
    answer = json.loads(run(rows(slow=2, since=200), "--json").output)
    ((attempt,), (span,)) = answer["attempts"], answer["attempts"][0]["findings"]
    assert (span["finding"]["cause"], span["finding"]["ranks"]) == ("compute_straggler", [2])
    assert span["first_step"] <= 260
    assert span["last_step"] == 400
    assert 396 <= attempt["steps"] <= 400  # steps before the first snapshot are not counted


def test_exit_code_is_1_with_findings_by_the_thresholds_of_the_site(run):
    assert run(rows(slow=2)).exit_code == 1
    ten_times = "{straggler: {slower_ratio: 10}, slowdown: {slow_ratio: 20}}"
    assert run(rows(slow=2), "--detectors", ten_times).exit_code == 0


TOO_LITTLE = {
    "a rank lacks": ((row for row in rows() if row["rank"] != 1), "3 of 4 ranks are in the log"),
    "durations only": (without(rows(slow=2), "phase_", "exposed_"), "which rank waits for which is unknown"),
}


@pytest.mark.parametrize(("steps", "reason"), TOO_LITTLE.values(), ids=TOO_LITTLE)
def test_log_that_is_not_enough_says_why(run, steps, reason):
    answer = run(steps)
    assert answer.exit_code == 3
    assert "the log does not have enough data" in answer.output
    assert reason in " ".join(answer.output.split())


def test_time_categories_of_a_log_sum_to_its_steps(run):
    steps = list(rows())
    (attempt,) = json.loads(run(steps, "--json").output)["attempts"]
    assert sum(attempt["time"].values()) == pytest.approx(attempt["seconds"])
    assert attempt["seconds"] == pytest.approx(sum(row["duration"] for row in steps if row["rank"] == 0), rel=0.02)


@pytest.mark.parametrize("count", [1, 5, 23])
def test_all_steps_of_a_short_log_are_counted_however_fast_they_are(run, count):
    steps = [row | {"duration": 0.005} for row in rows() if 101 <= row["step"] < 101 + count]
    (attempt,) = json.loads(run(steps, "--json").output)["attempts"]
    assert attempt["steps"] == count


def test_attempts_are_analyzed_separately(run):
    steps = [*rows(steps=300), *rows(steps=300, slow=1, attempt=1)]
    answer = json.loads(run(steps, "--json").output)
    assert [len(attempt["findings"]) for attempt in answer["attempts"]] == [0, 1]
    assert run(steps, "--attempt", "7").exit_code == 2


def test_clock_offsets_between_hosts_have_no_effect(tmp_path):
    steps = list(rows(slow=2, since=200))
    shifted = [{**row, "start": row["start"] + 47.0 * (row["host"] == "node-1")} for row in steps]
    result, other = (play(read([written(tmp_path / "a.jsonl", log)]), 0) for log in (steps, shifted))
    assert [(s.first_step, s.finding.ranks) for s in result.spans] == [
        (s.first_step, s.finding.ranks) for s in other.spans
    ]


def test_phases_that_fill_their_steps_are_not_called_missing(run):
    steps = [{"rank": rank, "step": step, "duration": 0.1, "phase_forward": 0.1} for step in (1, 2) for rank in (0, 1)]
    assert "(no column tells exposed time from self time: which rank waits for which" in run(steps).output
