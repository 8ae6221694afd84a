"""Tests of `zmon analyze` with the formats of other tools: the choice of the format, its output, and its exit codes."""

import json
import pickle
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.offline.analyze.formats.dumps import done, entry, write
from tests.offline.analyze.logs import rows, written
from zmon.cli.analyze import analyze
from zmon.errors import UsageError

RECORDED = Path(__file__).parents[1] / "offline" / "analyze" / "recorded"


def run(*arguments):
    """Run `zmon analyze` in this process, and return click's result."""
    return CliRunner().invoke(analyze, [*map(str, arguments)], env={"COLUMNS": "160"})


@pytest.mark.parametrize("chosen", [(), ("--format", "straggler-analysis")])
def test_pipeline_trace_has_findings_and_what_ifs(chosen):
    path = RECORDED / "straggler-analysis" / "trace-ST.parquet"
    answer = run(path, *chosen)
    assert answer.exit_code == 1
    assert answer.output.startswith("stage_imbalance, steps 23 to 1,048: stage 3 takes 60% longer")
    assert "what-if: mean of 32 replayed steps, 2.175 s as it is" in answer.output
    document = json.loads(run(path, "--json").output)
    (span,) = document["attempts"][0]["findings"]
    assert span["finding"]["evidence"]["saved_seconds"] == pytest.approx(0.402, abs=0.01)
    assert span["finding"]["summary"].endswith("saves 0.402 s of 2.175 s per step")
    what_if = document["what_if"]
    # The published figures of StragglerAnalysis, in seconds: a step as it is, and with stage 3 as the other stages.
    assert what_if["stages"][3]["saved_seconds"] == pytest.approx(2.1727 - 1.7710, abs=0.01)
    assert what_if["workers"]["7"] == {"rank": 7, "stage": 3, "data_rank": 1}


def test_trace_of_a_few_steps_is_unknown_and_has_what_ifs():
    answer = run(RECORDED / "straggler-analysis" / "trace-AR.parquet")
    assert answer.exit_code == 3
    assert answer.output.startswith("unknown: the log does not have enough data")
    assert "2 steps; ranks are compared from 24 steps on" in answer.output
    assert "the slowest worker: dp0-stage0" in answer.output


def test_folder_of_profiler_traces_is_analyzed():
    answer = run(RECORDED / "kineto")
    assert answer.exit_code == 1
    assert answer.output.startswith("compute_straggler, steps 1 to 28: rank 1 on node")


def test_folder_of_flight_records_names_the_stuck_collective():
    answer = run(RECORDED / "flight-recorder" / "skipped")
    assert answer.exit_code == 1
    assert answer.output.startswith("compute_hang: all_reduce 4 of group gloo:0 [128] is stuck: it was not issued by")
    document = json.loads(run(RECORDED / "flight-recorder" / "skipped", "--json").output)
    assert document["findings"][0]["ranks"] == [2]
    assert [pending["where"] for pending in document["pending"]] == ["work() at job.py:14"] * 2


def test_flight_records_of_a_finished_job_have_no_findings(tmp_path):
    write(tmp_path, done(3), done(3))
    answer = run(tmp_path)
    assert (answer.exit_code, answer.output) == (0, "no findings: no collective is in flight\n")


def test_flight_records_without_that_of_a_rank_are_unknown(tmp_path):
    write(tmp_path, [*done(3), entry(4)], None, ranks=2)
    answer = run(tmp_path)
    assert answer.exit_code == 3
    assert answer.output.startswith("unknown: there is no usable record of rank 1")


def test_step_log_is_guessed_by_its_columns(tmp_path):
    assert run(written(tmp_path / "log.jsonl", rows())).output.startswith("no findings")
    assert run(written(tmp_path / "log.json", rows())).output.startswith("no findings")


def test_other_files_of_a_folder_are_left_out_with_a_note(tmp_path):
    write(tmp_path, done(3), done(3))
    (tmp_path / "README.md").write_text("what?\n")
    assert "left out 1 file of another kind: README.md" in run(tmp_path).output


CHOICES = "Choose it with --format: steps, straggler-analysis, flight-recorder, kineto"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("unknown.json", f"unknown.json. {CHOICES}"),
        ("unknown", CHOICES),
        ("empty", "cannot tell the format of an empty directory"),
        ("empty --format kineto", "no file of the format kineto"),
        ("log.jsonl trace_0", "the files have several formats: flight-recorder, steps"),
        ("log.jsonl --format flight-recorder", "its name does not end in the number of a rank"),
        ("log.jsonl --format kineto", "it is not a Chrome trace"),
        ("log.jsonl --format straggler-analysis", "no steps in"),
        (f"{RECORDED / 'kineto'} --job a", "select from a step log"),
        (f"{RECORDED / 'kineto'} --attempt 0", "select from a step log"),
        ("none.json", "cannot read"),
        ("none.parquet", "cannot read"),
    ],
)
def test_files_that_cannot_be_analyzed_are_refused(tmp_path, monkeypatch, arguments, line):
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "unknown"):
        (tmp_path / folder).mkdir()
    for path in ("unknown.json", "unknown/a.json"):
        (tmp_path / path).write_text('{"what": 1}')
    (tmp_path / "trace_0").write_bytes(pickle.dumps({"version": "2.10"}))
    written(tmp_path / "log.jsonl", rows(steps=1))
    error = run(*arguments.split()).exception
    assert isinstance(error, UsageError)
    assert line in str(error)


def test_name_of_a_group_is_not_interpreted_as_markup(tmp_path):
    write(tmp_path, [entry(1, group="[/tp]")], [entry(1, group="[/tp]")])
    assert "nccl:[/tp]" in run(tmp_path).output
