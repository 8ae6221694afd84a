"""Tests of `zmon top` in a real terminal against a hub over HTTP, without a terminal, and without textual."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager

import pytest

from tests.build import NOW
from tests.cli.one_line import assert_one_line
from tests.cli.top.scene import FROZEN, job, row
from zmon.cli.top.app import connect
from zmon.job.headline import with_headline

TIMEOUT_SECONDS = 40.0  # a busy machine takes long to start Python
COLOUR = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|[34]8;[25];[\d;]+)m")
DIM_HEADLINE = rb"\x1b\[(?:\d+;)*2(?:;\d+)*mSTALLED rank_frozen"
SUMMARY = {"num_ranks": 2, "num_standing_out": 0, "num_missing": 0, "missing": [], "by_state": {"train": 2}}
RANKS = "/api/v1/jobs/dlrm-7/ranks"
ANSWERS = {
    "/api/v1/jobs": {"schema": 1, "blind": False, "jobs": [with_headline(job(findings=("f1",)), [FROZEN])]},
    "/api/v1/findings": {"schema": 1, "findings": [FROZEN]},
    RANKS: {"schema": 1, "job_id": "dlrm-7", "ranks": [row(0), row(1)], "num_rows": 2, "summary": SUMMARY},
}


@pytest.fixture
def http_hub(fake_server):
    """The URL of a hub, and its answers by path, which a test may change; any other path is a 404."""
    answers = dict(ANSWERS)
    return fake_server(lambda path, _: answers.get(path)).url, answers


@contextmanager
def terminal(url, **env):
    """Yield `zmon top` in a terminal of 80 × 24, and the user's end of the terminal."""
    user, programs = pty.openpty()
    fcntl.ioctl(programs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", **env}
    process = subprocess.Popen(
        [sys.executable, "-m", "zmon", "top", "--hub", url],
        stdin=programs, stdout=programs, stderr=programs, env=env, start_new_session=True,
    )  # fmt: skip
    os.close(programs)
    try:
        yield process, user
    finally:
        process.kill()
        process.wait()
        os.close(user)


def read_until(user, words):
    """Return the output up to a match of `words`."""
    output, deadline = b"", time.monotonic() + TIMEOUT_SECONDS
    os.set_blocking(user, False)
    while not re.search(words, output) and time.monotonic() < deadline:
        try:
            output += os.read(user, 65536)
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:
            break  # the process has ended
    assert re.search(words, output), output[-2000:]
    return output


@pytest.mark.parametrize("colour", [True, False])
def test_terminal_shows_finding_and_outage_and_q_quits(http_hub, monkeypatch, colour):
    monkeypatch.delenv("NO_COLOR", raising=False)
    url, answers = http_hub
    with terminal(url, **({} if colour else {"NO_COLOR": "1"})) as (process, user):
        output = read_until(user, b"STALLED rank_frozen")
        assert not re.search(DIM_HEADLINE, output)
        answers.clear()
        output += read_until(user, b"BLIND since")
        output += read_until(user, DIM_HEADLINE)
        os.write(user, b"q")
        output += read_until(user, rb"\x1b\[\?1049l")  # the previous screen is restored
        assert process.wait(timeout=TIMEOUT_SECONDS) == 0
    assert bool(COLOUR.search(output)) is colour


def test_closed_terminal_ends_top(http_hub):
    """`zmon top` is in another session than the terminal, so no SIGHUP ends it."""
    url, _ = http_hub
    with terminal(url) as (process, user):
        read_until(user, b"STALLED rank_frozen")
        closed = os.open(os.devnull, os.O_RDONLY)
        os.dup2(closed, user)
        os.close(closed)
        process.wait(timeout=TIMEOUT_SECONDS)  # raises TimeoutExpired if it goes on


def test_missing_terminal_is_refused_in_one_line(command):
    code, _, err = command("top")
    assert code == 2
    assert_one_line(err, "zmon status")


def test_missing_textual_is_reported_with_install_command(command, monkeypatch):
    """Training nodes do not have textual."""
    for name in [name for name in sys.modules if name.split(".")[:3] == ["zmon", "cli", "top"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual.app", None)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    code, _, err = command("top")
    assert code == 1
    assert_one_line(err, "pip install 'zmon-training[top]'")


async def fetch(url, job_id):
    """Return what `zmon top` reads from the hub if this job is selected."""
    async with connect(url) as ask:
        return await ask(job_id, NOW)


async def test_state_has_the_jobs_findings_and_ranks_of_the_hub(http_hub):
    url, _ = http_hub
    state = await fetch(url, "dlrm-7")
    assert ([job.job_id for job in state.jobs], [f.id for f in state.findings]) == (["dlrm-7"], ["f1"])
    assert ([r.rank for r in state.ranks], state.ranks_note) == ([0, 1], "")
    assert (await fetch(url, None)).ranks == ()


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        pytest.param({"num_rows": 16_384}, "16,382 more ranks", id="large job"),
        pytest.param({"ranks": "odd"}, "ranks unknown", id="malformed"),
        pytest.param(None, "another version, or no longer knows the job", id="missing"),
    ],
)
async def test_answer_about_ranks_that_is_not_whole_has_a_note_and_hides_no_job(http_hub, changes, note):
    url, answers = http_hub
    answers[RANKS] = None if changes is None else {**answers[RANKS], **changes}
    state = await fetch(url, "dlrm-7")
    assert note in state.ranks_note
    assert state.jobs
