"""Tests of the command `zmon drill`: misuse, exit codes, output, and resumed sessions."""

import dataclasses
import functools
import json
import shutil
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.cli import drill as drill_command
from lab.drills import session
from lab.drills.draw import draw_job
from lab.drills.matrix import ALL
from lab.drills.play import play
from tests.lab.drills.build import ROW
from zmon.errors import PartFailed


@pytest.fixture
def run(command, monkeypatch):
    """Return a function that runs `zmon drill …` in this process and returns exit code, stdout and stderr."""
    monkeypatch.setattr(drill_command.signal, "signal", lambda *_: None)
    return functools.partial(command, "drill")


@pytest.fixture
def policies():
    """The policies of the sessions that were played."""
    return []


@pytest.fixture
def rows(monkeypatch, policies):
    """The rows that a session yields instead of playing drills."""
    rows = []

    def play_all(drills, head, done, folder, on_row, watch):
        policies.append(head.policy)
        for row in rows:
            if (row.drill, row.repeat) not in done:
                on_row(row)

    monkeypatch.setattr(drill_command, "play_all", play_all)
    return rows


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((), "no drill is selected"),
        (("--all", "rank-killed"), "drills are selected in more than one way"),
        (("no-such",), "there is no drill 'no-such'"),
        (("--resume",), "there is no session to resume"),
        (("--all", "--repeats", "0"), "--repeats"),
        (("--watch", "--soak", "5"), "--watch plays drills by name"),
        (("--watch", "--simulated", "5"), "--watch plays drills by name"),
        (("--act", __file__, "--watch", "rank-killed"), "--act is for a stack"),
        (("--act", __file__, "--simulated", "5"), "cannot use"),
        (("--act", "/no/such", "rank-killed"), "/no/such"),
    ],
)
def test_misuse_prints_one_line_and_exits_with_2(run, arguments, part):
    code, _, err = run(*arguments)
    assert code == 2
    assert part in err
    assert len(err.strip().splitlines()) == 1


def test_list_option_prints_every_drill(run):
    _, out, _ = run("--list")
    assert [drill.name for drill in ALL if drill.name not in out] == []


def test_missing_program_is_reported_in_the_last_line(run, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("zmon.stack.shutil.which", lambda *_, **__: None)
    code, _, err = run("rank-killed")
    assert code == 1
    assert "prometheus is not installed" in err.splitlines()[-1]


def test_command_exits_with_0_if_all_drills_are_as_expected(run, rows):
    rows.append(ROW)
    code, out, err = run("rank-killed")
    assert code == 0
    assert "seed" in err
    assert "rank_exited rank 2 on a" in out


SKIPPED = replace(ROW, drill="rank-oom", reported_cause=None, skipped="it needs root")
NOT_PLAYED = "1 not played: rank-oom: it needs root"


@pytest.mark.parametrize(
    ("played", "arguments", "code", "last_line"),
    [
        pytest.param([replace(ROW, reported_cause=None)], ["rank-killed"], 1, "", id="missed"),
        pytest.param([replace(ROW, paged=())], ["rank-killed"], 1, "", id="no page"),
        pytest.param([replace(ROW, broken="the job does not train")], ["rank-killed"], 1, "", id="broken"),
        pytest.param([ROW, SKIPPED], ["rank-killed", "rank-oom"], 1, NOT_PLAYED, id="named drill skipped"),
        pytest.param([ROW, SKIPPED], ["--all"], 0, NOT_PLAYED, id="some of all skipped"),
        pytest.param([SKIPPED], ["--all"], 1, NOT_PLAYED, id="all skipped"),
    ],
)
def test_exit_code_tells_whether_the_drills_are_as_expected(run, rows, played, arguments, code, last_line):
    rows += played
    result, out, err = run(*arguments)
    assert result == code
    assert err.splitlines()[-1].endswith(last_line)
    assert ("1 skipped" in out) == (SKIPPED in played)


def test_command_keeps_logs_that_an_error_names(run, monkeypatch):
    def fails(drills, head, done, folder, on_row, watch):
        (folder / "stack.log").write_text("no room")
        raise PartFailed("the stack did not start", "no room", f"see {folder}/stack.log")

    monkeypatch.setattr(drill_command, "play_all", fails)
    code, _, err = run("rank-killed")
    folder = Path(err.split("logs are kept in ")[1].splitlines()[0])
    assert code == 1
    assert (folder / "stack.log").exists()
    shutil.rmtree(folder)


def test_only_the_first_signal_interrupts_the_drill(monkeypatch):
    handlers = dict.fromkeys(drill_command.signal.Signals, signal.SIG_DFL)
    handlers[signal.SIGHUP] = signal.SIG_IGN  # nohup
    monkeypatch.setattr(drill_command.signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(drill_command.signal, "getsignal", handlers.__getitem__)
    drill_command._end_in_order()
    assert handlers[signal.SIGHUP] == signal.SIG_IGN
    with pytest.raises(KeyboardInterrupt):
        handlers[signal.SIGTERM](signal.SIGTERM, None)
    assert {handlers[number] for number in (signal.SIGINT, signal.SIGTERM)} == {signal.SIG_IGN}


def test_json_option_prints_only_json_to_stdout(run, rows):
    rows.append(ROW)
    code, out, _ = run("rank-killed", "--json", "--seed", "7")
    answer = json.loads(out)
    assert (code, answer["schema"], answer["seed"]) == (0, 1, 7)


def test_resume_plays_the_remaining_drills_with_the_same_seed(run, rows):
    rows.append(ROW)
    run("rank-killed", "--seed", "7", "--repeats", "2")
    rows.append(replace(ROW, repeat=1))
    answer = json.loads(run("--resume", "--json")[1])
    assert answer["seed"] == 7
    assert [row["repeat"] for row in answer["rows"]] == [0, 1]


def test_policy_of_acts_is_that_of_the_session_after_a_resume_too(run, rows, policies, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: []")
    run("rank-killed", "--act", policy)
    run("--resume")
    run("rank-killed")
    assert policies == [policy, policy, None]


def test_play_skips_an_unavailable_drill_without_a_stage():
    drill = dataclasses.replace(session.select_drills(ALL, ["rank-oom"])[0], unavailable=lambda: "it needs root")
    assert play(drill, None, draw_job(drill, 0, 1)).result == "skipped"
