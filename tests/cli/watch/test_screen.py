"""Tests of `zmon watch --top`: the screen, the output of the command in a file, and the terminal afterwards."""

import os
import subprocess
import sys

import pytest

from tests.cli.watch.terminal import Terminal

pytestmark = pytest.mark.slow


@pytest.fixture
def env(tmp_path):
    """The environment of a watch: a terminal, and a folder of its own for boxes."""
    boxes = tmp_path / "boxes"
    boxes.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
    return {**clean, "ZMON_BOX_DIR": str(boxes), "TMPDIR": str(tmp_path), "TERM": "xterm"}


def watch(*command):
    """Return the words of `zmon watch --top` for a command."""
    return [sys.executable, "-m", "zmon", "watch", "--top", "--", *command]


def output(folder):
    """Return what the command has written to the file in this folder."""
    (file,) = folder.glob("zmon-output-*.log")
    return file.read_text()


def test_screen_is_closed_at_the_end_and_the_card_follows(env, tmp_path):
    # The screen must not import the module of the job in place of the package `attr`.
    (tmp_path / "attr.py").write_text("raise SystemExit('a module of the job')")
    script = "echo out; echo err >&2; until [ -e go ]; do sleep 0.1; done; exit 4"
    terminal = Terminal(watch("bash", "-c", script), env, str(tmp_path))
    terminal.read_until("no training job is known")
    (tmp_path / "go").touch()
    assert terminal.event() == {"code": 4}
    terminal.close()
    screen, _, after = terminal.output.rpartition("\x1b[?1049l")  # back from the alternate screen
    assert "out\r\n" not in screen
    assert "ended     exit code 4" in after
    assert "output    zmon-output-" in after
    assert output(tmp_path) == "out\nerr\n"


def test_key_closes_the_screen_and_the_command_runs_on(env, tmp_path):
    script = "until [ -e go ]; do sleep 0.1; done"
    terminal = Terminal(watch("bash", "-c", script), env, str(tmp_path))
    terminal.read_until("no training job is known")
    os.write(terminal.keyboard, b"q")
    terminal.read_until("\x1b[?1049l")
    (tmp_path / "go").touch()
    assert terminal.event() == {"code": 0}
    terminal.close()


def test_command_that_cannot_start_says_so_in_the_terminal(env, tmp_path):
    terminal = Terminal(watch("no-such-command"), env, str(tmp_path))
    assert terminal.event() == {"code": 127}
    terminal.close()
    assert "no-such-command" in terminal.output


def test_screen_needs_a_terminal(env, tmp_path):
    done = subprocess.run(
        watch("true"), env=env, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert "--top needs a terminal" in done.stderr
