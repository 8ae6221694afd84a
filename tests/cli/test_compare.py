"""Tests of `zmon compare`: its results, its thresholds for a pipeline, its exit codes, and its JSON."""

import json
from functools import partial
from types import SimpleNamespace

import pytest

from tests.offline.analyze.logs import rows, written


@pytest.fixture
def compare(command):
    """Return a function that runs `zmon compare` in this process, and returns exit code, stdout and stderr."""
    return partial(command, "compare")


@pytest.fixture
def logs(tmp_path):
    """The paths of three logs: a run, an equal run, and a run whose rank 1 computes 1.5 times as long."""
    run, equal, slower = (tmp_path / f"{name}.jsonl" for name in ("run", "equal", "slower"))
    for path, changes in ((run, {}), (equal, {}), (slower, {"slow": 1})):
        written(path, rows(steps=200, ranks=2, **changes))
    return SimpleNamespace(run=run, equal=equal, slower=slower)


def test_slower_run_is_reported_with_time_category(compare, logs):
    code, out, _ = compare(logs.run, logs.slower)
    assert code == 0
    assert out.startswith("steps are slower: +")
    assert "imbalance" in out


def test_equal_runs_are_reported_as_alike(compare, logs):
    code, out, _ = compare(logs.run, logs.equal)
    assert (code, out.splitlines()[0]) == (
        0,
        "steps are alike (+0.0% ± 0.0%, 62.24 ms → 62.24 ms; smaller changes than 1.5% are not reported)",
    )


def test_exceeded_threshold_exits_with_1(compare, logs):
    code, out, _ = compare(logs.run, logs.slower, "--fail-on", "step_seconds>+3%", "--fail-on", "data>+90%")
    assert code == 1
    assert [line.split(":")[0] for line in out.splitlines()[-2:]] == ["failed", "ok"]


def test_threshold_that_is_not_exceeded_exits_with_0(compare, logs):
    assert compare(logs.run, logs.equal, "--fail-on", "step_seconds>+3%").code == 0


def test_too_few_steps_exit_with_3(compare, logs, tmp_path):
    few = written(tmp_path / "few.jsonl", rows(steps=30, ranks=2))
    assert compare(logs.run, few).code == 3
    code, out, _ = compare(logs.run, few, "--fail-on", "step_seconds>+3%")
    assert code == 3
    assert out.splitlines()[-1].startswith("unknown: step_seconds>+3%: unknown, 30 complete steps are too few")


def test_different_batches_are_reported(compare, logs, tmp_path):
    other = written(tmp_path / "b.jsonl", [{**row, "samples": 64} for row in rows(steps=200, ranks=2)])
    expected = "a step of A has 64 samples and a step of B has 128: compare samples_per_second"
    assert expected in compare(logs.run, other).out


def test_missing_ranks_are_reported(compare, logs, tmp_path):
    half = written(tmp_path / "half.jsonl", [row for row in rows(steps=200, ranks=4) if row["rank"] != 1])
    code, out, _ = compare(logs.run, half)
    assert code == 3
    assert "3 of 4 ranks are in the log" in " ".join(out.split())


def test_too_few_reported_values_are_unknown_with_reason(compare, tmp_path):
    reported = [{**row, "report_loss": 0.5 if row["step"] % 50 == 0 else None} for row in rows(steps=200, ranks=2)]
    log = written(tmp_path / "reported.jsonl", reported)
    code, out, _ = compare(log, log)
    assert code == 0
    assert "loss: unknown, each run needs 24 values" in out


def test_json_has_runs_changes_and_thresholds(compare, logs):
    code, out, _ = compare(logs.run, logs.slower, "--json", "--fail-on", "step_seconds>+3%")
    answer = json.loads(out)
    assert (code, answer["schema"], [run["steps"] for run in answer["runs"]]) == (1, 1, [200, 200])
    assert (answer["changes"][0]["name"], answer["changes"][0]["verdict"]) == ("step_seconds", "slower")
    assert answer["fail_on"][0]["passed"] is False


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("nowhere", "nowhere"), "zmon: there is no file nowhere, and no job with this ID"),
        (("a.jsonl", "a.jsonl"), "zmon: cannot read a.jsonl: No such file or directory"),
        (("a", "b", "--fail-on", "faster"), "zmon: --fail-on faster is not a threshold"),
        (("a",), "zmon: Missing argument 'B'."),
    ],
)
def test_misuse_prints_one_line_and_exits_with_2(compare, arguments, line):
    code, _, err = compare(*arguments)
    assert code == 2
    assert err.startswith(line)
    assert err.count("\n") == 1
