"""Tests of `zmon act`: scores, intents, and a stop that a person writes and takes away."""

import json

import msgspec
import pytest

from tests.build import JOB
from tests.hub.acts.builds import intent
from zmon.act_stops import ALL, stop, stops
from zmon.schema.api import IntentList, IntentScore

INTENTS = [
    intent(result="acted", reasons=("override: ann", "vm: SIGKILL to process 7"), outcome="steps_again",
           outcome_seconds=12.5, ranks=(2,)),
    intent(id="f0/frozen", mode="observe", score="wrong", ranks=(), hosts=("node-a",), act="end_job"),
]  # fmt: skip
SCORES = [
    IntentScore("compute_hang", right=20, wrong=0, unclear=3, open=1, is_proven=True),
    IntentScore("rank_frozen", right=4, wrong=1, unclear=0, open=0, is_proven=False),
]
ANSWER = IntentList(INTENTS, 9, SCORES, {"all": "a storm"})


@pytest.fixture
def hub(monkeypatch, fake_server):
    """A hub that serves ANSWER, and 404 for all other paths."""
    monkeypatch.setenv("COLUMNS", "140")
    return fake_server(lambda path, _: ANSWER if path.startswith("/api/v1/intents") else None)


def test_score_has_a_row_for_each_cause_and_what_is_stopped(command, hub):
    code, out, _ = command("act", "score", "--hub", hub.url)
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["cause", "right", "wrong", "unclear", "open"],
        ["compute_hang", "20", "0", "3", "1", "may", "act"],
        ["rank_frozen", "4", "1", "0", "0", "observes"],
        ["stopped:", "all:", "a", "storm"],
    ]


def test_intents_are_listed_with_what_became_of_them(command, hub):
    code, out, _ = command("act", "list", "--hub", hub.url)
    lines = [line.strip() for line in out.splitlines()]
    assert code == 0
    assert lines[0].endswith(f"UTC  {JOB}  kill culprit, rank 2: acted, steps again 12 s after the onset")
    assert lines[1:4] == [
        "rule frozen, rank_frozen by process state, finding f1", "override: ann", "vm: SIGKILL to process 7",
    ]  # fmt: skip
    assert lines[4].endswith(f"UTC  {JOB}  end job, node-a: observed, wrong")
    assert lines[-2:] == ["7 earlier intents left out: --limit", "stopped: all: a storm"]


@pytest.mark.parametrize("words", [("score",), ("list",), ("list", JOB)], ids=" ".join)
def test_json_is_the_answer_of_the_hub(command, hub, words):
    code, out, _ = command("act", *words, "--json", "--hub", hub.url)
    assert code == 0
    assert msgspec.convert(json.loads(out), IntentList) == ANSWER


NO_POLICY = "the hub runs without --act: it intends nothing (docs/act.md)"


@pytest.mark.parametrize(
    ("words", "has_policy", "message"),
    [
        (("score",), False, NO_POLICY),
        (("list",), False, NO_POLICY),
        (("score",), True, "no rule has asked for an act yet"),
        (("list",), True, "no rule has asked for an act yet"),
        (("list", JOB), True, f"no rule has asked for an act on job {JOB} yet"),
    ],
)
def test_answer_without_intents_is_one_line(command, fake_server, words, has_policy, message):
    server = fake_server(lambda *_: IntentList([], 0, has_policy=has_policy))
    assert command("act", *words, "--hub", server.url).out == f"{message}\n"


def test_stop_and_reset_are_for_the_data_directory(command, tmp_path):
    data = ("--data-dir", str(tmp_path))
    code, out, _ = command("act", "stop", "maintenance", *data)
    assert (code, out) == (0, f"acts are stopped in {tmp_path}; zmon act reset lets them go on\n")
    assert (stops(tmp_path)[ALL].reason, stops(tmp_path)[ALL].is_breaker) == ("maintenance", False)
    code, out, _ = command("act", "reset", *data)
    assert (code, stops(tmp_path)) == (0, {})
    assert out.startswith("removed the stop all of ")
    assert out.endswith(": maintenance\n")


def test_stop_by_a_user_without_a_name_has_the_number(command, tmp_path, monkeypatch):
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)  # in no passwd
    assert command("act", "stop", "maintenance", "--data-dir", str(tmp_path)).code == 0
    assert stops(tmp_path)[ALL].by == "uid 4000000"


def test_stop_of_a_rule_is_taken_away_by_its_name(command, tmp_path):
    stop(tmp_path, "rule-frozen", "it did not help", "the hub", is_breaker=True)
    data = ("--data-dir", str(tmp_path))
    code, _, err = command("act", "reset", *data)
    assert (code, err.count("\n")) == (2, 1)
    assert "there is no stop all: the stops are rule-frozen" in err
    code, out, _ = command("act", "reset", "rule-frozen", *data)
    assert (code, out) == (0, "removed the stop rule-frozen of the hub: it did not help\n")
    assert stops(tmp_path) == {}


def test_reset_of_a_rule_says_that_all_acts_are_still_stopped(command, tmp_path):
    stop(tmp_path, "rule-frozen", "it did not help", "the hub", is_breaker=True)
    stop(tmp_path, ALL, "maintenance", "ann")
    out = command("act", "reset", "rule-frozen", "--data-dir", str(tmp_path)).out
    assert out.endswith(": it did not help. All acts are still stopped: maintenance\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reset",), "there is no stop all: nothing is stopped in"),
        (("reset", "../../etc/passwd"), "../../etc/passwd"),
        (("stop",), "REASON"),
        (("kill",), "No such command 'kill'"),
    ],
    ids=" ".join,
)
def test_misuse_is_one_line(command, words, message):
    code, _, err = command("act", *words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_directory_that_cannot_be_written_is_one_line(command, tmp_path):
    (tmp_path / "act-stops").write_text("no folder")
    code, _, err = command("act", "stop", "maintenance", "--data-dir", str(tmp_path))
    assert (code, err.count("\n")) == (2, 1)
    assert f"cannot write to {tmp_path}" in err
