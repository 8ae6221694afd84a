"""What a rank wrote to its stderr last: only from regular files, and after its death too."""

import os
import pty
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from zmon.agent.sources import stderr
from zmon.agent.sources.stderr import KEPT_SECONDS, TAIL_BYTES, StderrSource

SAYS = "import sys, time; sys.stderr.write({!r}); sys.stderr.flush(); print('said', flush=True); time.sleep(60)"


@pytest.fixture
def spawn():
    """Start a process that writes to its stderr and lives on; returns it once it has."""
    started = []

    def start(text, to):
        command = [sys.executable, "-S", "-E", "-c", SAYS.format(text)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=to))
        assert started[-1].stdout.readline() == b"said\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


class Ranks(dict):
    """Pids by run uid, and a clock."""

    now = 0.0

    def source(self):
        return StderrSource(lambda: self, clock=lambda: self.now)


@pytest.fixture
def ranks():
    return Ranks()


def descriptors():
    """How many files are open here; sockets and pipes are other tests', and may be closed by any collection."""
    return sum(link.is_file() for link in Path("/proc/self/fd").iterdir())


def read(source, uid="a"):
    assert source.read().value is None
    return source.tail(uid)


def test_last_lines_are_those_of_the_file(spawn, ranks, tmp_path):
    with (tmp_path / "err").open("wb") as file:
        ranks["a"] = spawn("line one\nline two\n", file).pid
    told = read(ranks.source())
    assert (told["stderr_tail"], told["stderr_error"]) == ("line one\nline two\n", None)
    assert told["stderr_path"] == str(tmp_path / "err")
    assert told["stderr_shared"] is False


def test_only_the_end_of_a_long_one(spawn, ranks, tmp_path):
    with (tmp_path / "err").open("wb") as file:
        ranks["a"] = spawn("x" * 3 * TAIL_BYTES + "the end", file).pid
    text = read(ranks.source())["stderr_tail"]
    assert len(text) == TAIL_BYTES
    assert text.endswith("xthe end")


def test_last_lines_of_a_dead_rank_are_there_though_the_file_is_deleted(spawn, ranks, tmp_path):
    with (tmp_path / "err").open("wb") as file:
        process = spawn("before\n", file)
        ranks["a"] = process.pid
        source = ranks.source()
        read(source)
        file.write(b"ValueError: bad batch 17\n")
    process.kill()
    process.wait()
    (tmp_path / "err").unlink()
    del ranks["a"]
    assert read(source)["stderr_tail"].endswith("ValueError: bad batch 17\n")


def test_file_is_let_go_a_while_after_the_ranks_end(spawn, ranks, tmp_path):
    with (tmp_path / "err").open("wb") as file:
        ranks["a"] = spawn("before\n", file).pid
    source = ranks.source()
    read(source)
    before = descriptors()
    del ranks["a"]
    assert read(source)["stderr_tail"] == "before\n"
    ranks.now = KEPT_SECONDS + 1
    assert read(source)["stderr_tail"] is None
    assert descriptors() == before - 1


def test_ranks_that_share_a_file_are_said_to(spawn, ranks, tmp_path):
    with (tmp_path / "err").open("ab") as file:
        ranks.update(a=spawn("mine\n", file).pid, b=spawn("another's\n", file).pid)
    told = read(ranks.source())
    assert told["stderr_shared"] is True
    assert told["stderr_tail"] == "mine\nanother's\n"


def test_redirection_while_it_lives_is_followed(ranks, tmp_path):
    script = (
        "import os, sys\nfor path in sys.stdin:\n"
        " os.dup2(os.open(path.strip(), os.O_WRONLY | os.O_CREAT), 2); os.write(2, path.encode()); print(flush=True)"
    )
    command = [sys.executable, "-S", "-E", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        ranks["a"], source = process.pid, ranks.source()
        for path in (tmp_path / "one", tmp_path / "two"):
            print(path, file=process.stdin, flush=True)
            process.stdout.readline()
            assert read(source)["stderr_tail"] == f"{path}\n"


def test_what_goes_to_a_pipe_is_not_kept_and_not_read(spawn, ranks):
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe, os.fdopen(writer, "wb") as to:
        ranks["a"] = spawn("for somebody else", to).pid
        told = read(ranks.source())
        assert (told["stderr_tail"], told["stderr_error"]) == (None, "it goes to a pipe: not kept")
        assert pipe.read(17) == b"for somebody else"


def test_terminal_device_and_socket_are_not_kept(spawn, ranks):
    _, terminal = pty.openpty()
    ours, theirs = socket.socketpair()
    with os.fdopen(terminal, "wb") as tty, Path("/dev/null").open("wb") as null, ours, theirs:
        for to, kind in ((tty, "a terminal or device"), (null, "a terminal or device"), (theirs, "a socket")):
            ranks["a"] = spawn("x", to).pid
            assert read(ranks.source())["stderr_error"] == f"it goes to {kind}: not kept"


@pytest.mark.parametrize("flags", [os.O_PATH, os.O_RDONLY])
def test_file_that_the_rank_does_not_write_is_not_read_for_it(ranks, tmp_path, flags):
    """As a place anybody may open what only root reads, and the agent may be root."""
    secret = tmp_path / "shadow"
    secret.write_text("root:$6$")
    script = f"import os; os.dup2(os.open({str(secret)!r}, {flags}), 2); print(flush=True); input()"
    command = [sys.executable, "-S", "-E", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        ranks["a"], before = process.pid, descriptors()
        told = read(ranks.source())
        assert told["stderr_tail"] is None
        assert told["stderr_error"] == "it goes to a file that the rank does not write, or may not: not kept"
        assert descriptors() == before


@pytest.mark.parametrize(
    ("uid", "groups", "mode", "read_for_it"),
    [(1000, "", 0o600, False), (1000, "7", 0o640, False), (1000, "7", 0o660, True), (1000, "8", 0o660, False),
     (1000, "", 0o622, True), (None, "", 0o400, True), (0, "", 0o600, True)],
)  # fmt: skip
def test_only_a_file_that_who_runs_the_rank_may_write_is_read_for_it(tmp_path, uid, groups, mode, read_for_it):
    """It may have been handed the descriptor of another user's file."""
    file = tmp_path / "err"
    file.write_text("said")
    owner = 501
    found = os.stat_result((stat.S_IFREG | mode, 1, 1, 1, owner, 7, 4, 0, 0, 0))
    uid = owner if uid is None else uid
    (tmp_path / "status").write_text(f"Name:\tp\nUid:\t{uid}\t0\t0\t0\nGid:\t9\t7\t7\t7\nGroups:\t{groups} \n")
    assert stderr._may_write(tmp_path, found) is read_for_it


def test_process_of_another_user_is_said_to_be_closed(ranks, tmp_path):
    """A process whose descriptors may not be followed, as those of another user's."""
    (tmp_path / "7/fd").mkdir(parents=True)
    (tmp_path / "7/fd/2").symlink_to("2")  # a loop: cannot be looked at, whoever asks
    ranks["a"] = 7
    source = StderrSource(lambda: ranks, tmp_path)
    assert "cannot look where it goes" in read(source)["stderr_error"]


def test_rank_that_was_never_seen_has_none(ranks):
    assert "never seen alive" in read(ranks.source())["stderr_error"]


def test_number_of_files_is_bounded_and_what_is_left_out_is_said(spawn, ranks, tmp_path, monkeypatch):
    monkeypatch.setattr(stderr, "MAX_FILES", 1)
    with (tmp_path / "err").open("wb") as file:
        ranks.update(a=spawn("x", file).pid, b=os.getpid())
    source = ranks.source()
    assert source.read().dropped == ("1 ranks more than 1",)
    assert source.tail("b")["stderr_tail"] is None
