"""Tests that `zmon watch` is a parent that nobody notices: each row does the same under `zmon run` and `zmon watch`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.cli.watch.terminal import Terminal

pytestmark = pytest.mark.slow  # one case of the table without a terminal is in test_watch.py

# Says each signal that it gets, and ends with the number of them half a second after the last one.
COUNTING = """
import os, signal, sys, time
got = []
def note(number, frame):
    got.append(time.monotonic())
    os.write(1, f"got {signal.Signals(number).name}\\n".encode())  # print is not reentrant
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT):
    signal.signal(number, note)
print("ready", flush=True)
while not got or time.monotonic() < got[-1] + 0.5:
    time.sleep(0.02)
sys.exit(len(got))
"""
PLAIN = "import time; print('ready', flush=True); time.sleep(30)"


@pytest.fixture(params=["run", "watch"])
def zmon(request, tmp_path):
    """The words before a command that runs under zmon, and the environment and the working directory of both."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
    boxes = tmp_path / "boxes"
    boxes.mkdir()
    env = {**clean, "ZMON_BOX_DIR": str(boxes), "TMPDIR": str(tmp_path)}
    # A shell without job control starts the tests with ignored signals.
    default = ["env", "--default-signal=INT,QUIT"]
    return [*default, sys.executable, "-m", "zmon", request.param, "--"], env, str(tmp_path)


def python(script):
    """Return the command that runs a Python script."""
    return [sys.executable, "-S", "-c", script]


def twice(key):
    """Return a function that presses the key, and presses it again after the command has noted the first signal."""

    def press(terminal):
        terminal.type(key)
        terminal.read_until("got")
        time.sleep(0.2)
        terminal.type(key)

    return press


IN_A_TERMINAL: dict[str, tuple[str, Callable[[Terminal], None], int]] = {  # script, what happens → exit code
    "Ctrl-C": (COUNTING, lambda t: t.type("C"), 1),
    "Ctrl-C twice": (COUNTING, twice("C"), 2),
    "Ctrl-backslash": (COUNTING, lambda t: t.type("\\"), 1),
    "SIGTERM": (COUNTING, lambda t: t.kill(signal.SIGTERM), 1),
    "SIGHUP": (COUNTING, lambda t: t.kill(signal.SIGHUP), 1),
    "SIGUSR1": (COUNTING, lambda t: t.kill(signal.SIGUSR1), 1),
    "SIGINT from a process": (COUNTING, lambda t: t.kill(signal.SIGINT), 1),
    "Ctrl-C ends it": (PLAIN, lambda t: t.type("C"), -signal.SIGINT),
    "SIGTERM ends it": (PLAIN, lambda t: t.kill(signal.SIGTERM), -signal.SIGTERM),
    "the terminal goes away": (PLAIN, lambda t: t.hang_up(), -signal.SIGHUP),
}


@pytest.mark.parametrize(("script", "happens", "code"), IN_A_TERMINAL.values(), ids=IN_A_TERMINAL)
def test_signals_reach_the_command_once(zmon, script, happens, code):
    prefix, env, cwd = zmon
    terminal = Terminal([*prefix, *python(script)], env, cwd)
    terminal.read_until("ready")
    happens(terminal)
    event = terminal.event()
    terminal.close()
    assert event == {"code": code}, terminal.output


@pytest.mark.parametrize("by", ["key", "signal"])
def test_command_that_is_stopped_in_the_terminal_goes_on_as_the_shell_says(zmon, by):
    prefix, env, cwd = zmon
    script = "print('ready', flush=True); print('typed', input()); raise SystemExit(4)"
    terminal = Terminal([*prefix, *python(script)], env, cwd)
    terminal.read_until("ready")
    if by == "key":
        terminal.type("Z")
    else:
        terminal.kill(signal.SIGTSTP)
    assert terminal.event() == {"stopped": signal.SIGTSTP}
    terminal.continue_group()
    assert terminal.event() == {"continued": True}
    terminal.type_line("word")
    assert terminal.event() == {"code": 4}
    terminal.close()
    assert "typed word" in terminal.output


def test_watch_that_is_stopped_goes_on(zmon):
    """Slurm suspends all processes of a job. Whoever stops a container suspends all of its processes, too."""
    prefix, env, cwd = zmon
    script = "import time; print('ready', flush=True); time.sleep(1.5); raise SystemExit(4)"
    process = subprocess.Popen([*prefix, *python(script)], env=env, cwd=cwd, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    for _ in range(2):
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 4


def test_terminal_is_that_of_the_command(zmon):
    prefix, env, cwd = zmon
    script = "import os; print([os.isatty(fd) for fd in range(3)], os.tcgetpgrp(0) == os.getpgrp(), 'end')"
    terminal = Terminal([*prefix, *python(script)], env, cwd)
    terminal.read_until("end")
    assert terminal.event() == {"code": 0}
    terminal.close()
    assert "[True, True, True] True end" in terminal.output


ENDINGS = {  # command → exit code, standard output
    "exit code 0": (python("print('out')"), 0, b"out\n"),
    "exit code 3": (python("print('out'); raise SystemExit(3)"), 3, b"out\n"),
    "exit code 255": (python("raise SystemExit(255)"), 255, b""),
    "SIGKILL": (python("import os; os.kill(os.getpid(), 9)"), -9, b""),
    "SIGSEGV": (python("import os; os.kill(os.getpid(), 11)"), -11, b""),
    "SIGTERM": (python("import os; os.kill(os.getpid(), 15)"), -15, b""),
    "stdin": (["cat"], 0, b"typed\n"),
    "pipe that breaks": (["bash", "-c", "yes | head -1"], 0, b"y\n"),
    "open descriptors": (["bash", "-c", "ls /proc/self/fd | wc -l"], 0, b"4\n"),  # 0 to 2, and the folder that ls lists
    "not found": (["no-such-command"], 127, b""),
    "not executable": (["/"], 126, b""),
}  # fmt: skip


@pytest.mark.parametrize(("command", "code", "output"), ENDINGS.values(), ids=ENDINGS)
def test_ending_is_that_of_the_command(zmon, command, code, output):
    prefix, env, cwd = zmon
    done = subprocess.run([*prefix, *command], env=env, cwd=cwd, input=b"typed\n", capture_output=True, timeout=120)
    assert (done.returncode, done.stdout) == (code, output), done.stderr
    if code in (126, 127):
        assert len(done.stderr.splitlines()) == 1


def test_signals_that_the_command_ignores_and_blocks_are_those_of_the_shell(zmon):
    prefix, env, cwd = zmon
    show = ["grep", "-E", "SigIgn|SigBlk", "/proc/self/status"]
    shell = prefix[: prefix.index(sys.executable)]  # what started the tests may itself ignore signals
    assert subprocess.check_output([*prefix, *show], env=env, cwd=cwd) == subprocess.check_output([*shell, *show])


@pytest.mark.parametrize("zmon", ["watch"], indirect=True)  # `zmon run` becomes the command
def test_command_lives_on_if_zmon_is_killed(zmon, tmp_path):
    prefix, env, cwd = zmon
    script = "import os, time; print(os.getppid(), flush=True); time.sleep(3); open('alive', 'w')"
    process = subprocess.Popen([*prefix, *python(script)], env=env, cwd=cwd, stdout=subprocess.PIPE, text=True)
    assert int(process.stdout.readline()) == process.pid  # zmon is the parent of the command
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while not (tmp_path / "alive").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (tmp_path / "alive").exists()


def test_full_pipe_as_stderr_does_not_hold_up_the_command(zmon):
    prefix, env, cwd = zmon
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(writer, True)
    done = subprocess.run([*prefix, *python("raise SystemExit(5)")], env=env, cwd=cwd, stderr=writer, timeout=60)
    assert done.returncode == 5
    os.close(reader)
    os.close(writer)


def test_ignored_signals_stay_ignored(zmon):
    """`nohup` and a shell without job control start commands with ignored signals."""
    prefix, env, cwd = zmon
    script = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    done = subprocess.run(
        ["nohup", *prefix, *python(script)], env=env, cwd=cwd, capture_output=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) == (0, b"True\n")


def test_no_word_of_the_command_is_taken_for_that_of_a_daemon(zmon):
    """Daemons begin with SIGHUP ignored."""
    prefix, env, cwd = zmon
    script = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_DFL)"
    command = ["env", "--default-signal=HUP", *prefix, *python(script), "agent", "hub"]
    assert subprocess.run(command, env=env, cwd=cwd, capture_output=True, timeout=60).stdout == b"True\n"


def test_sender_of_a_forwarded_signal_is_the_one_who_sent_it(zmon):
    prefix, env, cwd = zmon
    script = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", flush=True)
info = signal.sigwaitinfo([signal.SIGTERM])
print(info.si_pid, info.si_uid)
"""
    process = subprocess.Popen([*prefix, *python(script)], env=env, cwd=cwd, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.communicate(timeout=60)[0] == f"{os.getpid()} {os.getuid()}\n"
