"""Tests of `zmon ends`: a row for each launch that ended, and one line if no hub answers."""

import json

import msgspec
import pytest
from aiohttp.test_utils import unused_port

from tests.build import JOB, finding, finished, killed, snapshot
from zmon.format import duration
from zmon.job.outcome import ended_launch
from zmon.schema.api import EndList

DONE = ended_launch(snapshot(*(finished(rank, 9.0, step=1200, steps=600) for rank in range(4))), None, None)
FAILED = ended_launch(snapshot(*(killed(rank, 30.0, max_restarts=3) for rank in range(4))), finding(summary="X"), None)


@pytest.fixture
def hub(fake_server):
    """A hub with one launch that is done and one that failed, of seven that ended."""
    return fake_server(lambda path, _: EndList([DONE, FAILED], 7) if path.startswith("/api/v1/ends") else None)


def test_ends_are_listed_newest_first(command, hub, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    code, out, _ = command("ends", "--hub", hub.url)
    lines = [line.strip() for line in out.splitlines()]
    assert code == 0
    assert lines[0].endswith(f"UTC  {JOB}  done after {duration(DONE.seconds)}, steps 601 to 1,200")
    assert lines[1] == "all 4 ranks finished at step 1200"
    assert lines[2].endswith(f"UTC  {JOB}  failed after {duration(FAILED.seconds)}, steps 0 to 99")
    assert lines[3:] == ["killed: X", f"next  {FAILED.next_step}", "5 earlier ends left out: --limit"]


def test_json_is_the_answer_of_the_hub(command, hub):
    code, out, _ = command("ends", "--json", "--hub", hub.url)
    assert code == 0
    assert msgspec.convert(json.loads(out), EndList).ends == [DONE, FAILED]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "no launch has ended"),
        (("--days", "1"), "no launch has ended in that time (--days 1)"),
        ((JOB, "--days", "0.5"), f"no launch of job {JOB} has ended in that time (--days 0.5)"),
    ],
)
def test_list_without_ends_is_one_line(command, fake_server, words, line):
    assert command("ends", *words, "--hub", fake_server(lambda *_: EndList([], 0)).url).out == f"{line}\n"


@pytest.mark.parametrize("words", [("ends",), ("act", "score")], ids=" ".join)
def test_hub_that_does_not_answer_is_one_line(command, words):
    code, out, err = command(*words, "--hub", f"http://127.0.0.1:{unused_port()}")
    assert (code, out) == (1, "")
    assert err.startswith("zmon: cannot reach")
    assert err.count("\n") == 1
