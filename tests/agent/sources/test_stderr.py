"""Tests of the end of a rank's stderr: which files are read, and for how long after the end of the rank."""

import errno
import os
import pty
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.agent_client import raising
from tests.processes import add_process
from zmon.agent.sources import stderr
from zmon.agent.sources.stderr import OPEN_SECONDS, TAIL_BYTES, StderrSource
from zmon.process import process_id

SCRIPT = "import sys, time; sys.stderr.write({!r}); sys.stderr.flush(); print('written', flush=True); time.sleep(60)"


@pytest.fixture
def spawn(start_python):
    """Return a function that starts a process, which writes to its stderr and keeps running."""
    return lambda text, file: start_python(SCRIPT.format(text), stderr=file)


class FakeRanks(dict):
    """The processes of ranks by run uid, with a clock."""

    now = 0.0  # monotonic seconds

    def source(self):
        """Return the source that reads the stderr of these ranks."""
        return StderrSource(lambda: self, clock=lambda: self.now)


@pytest.fixture
def ranks():
    """Return an empty set of ranks."""
    return FakeRanks()


def num_open_files():
    """Return the number of open files, without sockets and pipes: garbage collection may close those of other tests."""
    return sum(link.is_file() for link in Path("/proc/self/fd").iterdir())


def read_tail(source, uid="a"):
    """Read the source once, and return the tail of a rank."""
    assert source.read().value is None
    return source.tail(uid)


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        pytest.param("line one\nline two\n", "line one\nline two\n", id="whole"),
        pytest.param("x" * 3 * TAIL_BYTES + "!", "x" * (TAIL_BYTES - 1) + "!", id="one long line"),
        pytest.param("token=" + "x" * TAIL_BYTES + "\nlast\n", "last\n", id="without the line that is cut off"),
    ],
)
def test_tail_is_the_end_of_the_file(spawn, ranks, tmp_path, text, tail):
    with (tmp_path / "err").open("wb") as file:
        ranks["a"] = process_id(spawn(text, file).pid)
    answer = read_tail(ranks.source())
    assert (answer.text, answer.error) == (tail, None)
    assert (answer.path, answer.is_shared) == (str(tmp_path / "err"), False)


def test_tail_of_a_dead_rank_is_read_after_the_file_was_deleted(spawn, ranks, tmp_path):
    with (tmp_path / "err").open("wb") as file:
        process = spawn("before\n", file)
        ranks["a"] = process_id(process.pid)
        source = ranks.source()
        read_tail(source)
        file.write(b"ValueError: bad batch 17\n")
    process.kill()
    process.wait()
    (tmp_path / "err").unlink()
    del ranks["a"]
    assert read_tail(source).text.endswith("ValueError: bad batch 17\n")


def test_file_is_closed_some_time_after_the_ranks_end(spawn, ranks, tmp_path):
    with (tmp_path / "err").open("wb") as file:
        ranks["a"] = process_id(spawn("before\n", file).pid)
    source = ranks.source()
    read_tail(source)
    before = num_open_files()
    del ranks["a"]
    assert read_tail(source).text == "before\n"
    ranks.now = OPEN_SECONDS + 1
    assert read_tail(source).text is None
    assert num_open_files() == before - 1


def test_shared_file_is_reported_as_shared(spawn, ranks, tmp_path):
    with (tmp_path / "err").open("ab") as file:
        ranks.update(a=process_id(spawn("first\n", file).pid), b=process_id(spawn("second\n", file).pid))
    answer = read_tail(ranks.source())
    assert answer.is_shared is True
    assert answer.text == "first\nsecond\n"


def test_last_lines_of_a_dead_rank_are_not_pushed_out_by_what_others_write_to_its_file(spawn, ranks, tmp_path):
    with (tmp_path / "err").open("ab") as file:
        victim = spawn("", file)
        ranks.update(a=process_id(spawn("", file).pid), b=process_id(victim.pid))
        source = ranks.source()
        file.write(b"step 1\n" * TAIL_BYTES)
        file.flush()
        read_tail(source)
        file.write(b"ValueError: bad batch 17\n" + b"Connection reset by peer\n" * TAIL_BYTES)
    del ranks["a"]
    assert "step 1\nValueError: bad batch 17\nConnection reset" in read_tail(source, "a").text
    assert "bad batch" not in read_tail(source, "b").text  # it lives, so its file may still get its last lines


def test_redirected_stderr_of_a_living_rank_is_followed(ranks, tmp_path):
    script = (
        "import os, sys\nfor path in sys.stdin:\n"
        " os.dup2(os.open(path.strip(), os.O_WRONLY | os.O_CREAT), 2); os.write(2, path.encode()); print(flush=True)"
    )
    command = [sys.executable, "-S", "-E", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        ranks["a"] = process_id(process.pid)
        source = ranks.source()
        for path in (tmp_path / "one", tmp_path / "two"):
            print(path, file=process.stdin, flush=True)
            process.stdout.readline()
            assert read_tail(source).text == f"{path}\n"


def test_pipe_terminal_device_and_socket_are_not_read(spawn, ranks):
    (reader, writer), (_, terminal), (ours, theirs) = os.pipe(), pty.openpty(), socket.socketpair()
    with (
        os.fdopen(reader, "rb") as pipe,
        os.fdopen(writer, "wb") as to_pipe,
        os.fdopen(terminal, "wb") as tty,
        Path("/dev/null").open("wb") as null,
        ours,
        theirs,
    ):
        kinds = {to_pipe: "a pipe", tty: "a terminal or device", null: "a terminal or device", theirs: "a socket"}
        for file, kind in kinds.items():
            ranks["a"] = process_id(spawn("for another reader", file).pid)
            answer = read_tail(ranks.source())
            assert answer.text is None
            assert answer.error == f"it goes to {kind}, which zmon does not read"
        assert pipe.read(18) == b"for another reader"


@pytest.mark.parametrize("flags", [os.O_PATH, os.O_RDONLY])
def test_file_not_opened_for_writing_is_not_read(start_python, ranks, tmp_path, flags):
    """Any process can hold a file with O_PATH that only root may read, and the agent may be root."""
    secret = tmp_path / "shadow"
    secret.write_text("root:$6$")
    script = f"import os; os.dup2(os.open({str(secret)!r}, {flags}), 2); print(flush=True); input()"
    ranks["a"] = process_id(start_python(script, stdin=subprocess.PIPE).pid)
    before = num_open_files()
    answer = read_tail(ranks.source())
    assert answer.text is None
    assert answer.error == "it goes to a file that the rank does not or may not write, which zmon does not read"
    assert num_open_files() == before


OWNER, GROUP, OTHER_GROUP = 501, 7, 8  # OWNER and GROUP have the file
USER = 1000  # of the rank


@pytest.mark.parametrize(
    ("uid", "groups", "mode", "may_write"),
    [
        pytest.param(USER, "", 0o600, False, id="another user"),
        pytest.param(USER, GROUP, 0o640, False, id="the group may only read"),
        pytest.param(USER, GROUP, 0o660, True, id="the group may write"),
        pytest.param(USER, OTHER_GROUP, 0o660, False, id="another group"),
        pytest.param(USER, "", 0o622, True, id="everybody may write"),
        pytest.param(OWNER, "", 0o400, True, id="the owner, who may change the mode"),
        pytest.param(0, "", 0o600, True, id="root"),
    ],
)
def test_file_is_read_only_if_writable_by_the_user_of_the_rank(tmp_path, uid, groups, mode, may_write):
    """The rank may have inherited the descriptor of another user's file. Only its real ids count, which come first."""
    file = os.stat_result((stat.S_IFREG | mode, 1, 1, 1, OWNER, GROUP, 4, 0, 0, 0))
    status = f"Name:\tp\nUid:\t{uid}\t0\t0\t0\nGid:\t9\t{GROUP}\t{GROUP}\t{GROUP}\nGroups:\t{groups} \n"
    (tmp_path / "status").write_text(status)
    assert stderr._may_write(tmp_path, file) is may_write


def test_process_of_another_user_has_a_reason_instead_of_a_tail(ranks, tmp_path):
    """The descriptors of such a process cannot be followed."""
    (tmp_path / "7/fd").mkdir(parents=True)
    (tmp_path / "7/fd/2").symlink_to("2")  # a link to itself, which no user can follow
    ranks["a"] = add_process(tmp_path, 7)
    source = StderrSource(lambda: ranks, tmp_path)
    assert "cannot open it" in read_tail(source).error


def test_file_that_cannot_be_opened_once_is_opened_by_a_later_read(spawn, ranks, tmp_path, monkeypatch):
    with (tmp_path / "err").open("wb") as file:
        ranks["a"] = process_id(spawn("text\n", file).pid)
    source = ranks.source()
    with monkeypatch.context() as patch:
        patch.setattr(stderr, "_open_for_reading", raising(OSError(errno.EMFILE, "Too many open files")))
        assert read_tail(source).error == "cannot open it: Too many open files"
    assert read_tail(source).text == "text\n"


def test_unknown_rank_has_no_tail(ranks):
    assert "never saw the rank alive" in read_tail(ranks.source()).error


def test_files_above_the_limit_are_reported(spawn, ranks, tmp_path, monkeypatch):
    monkeypatch.setattr(stderr, "MAX_FILES", 1)
    with (tmp_path / "err").open("wb") as file:
        ranks.update(a=process_id(spawn("x", file).pid), b=process_id(os.getpid()))
    source = ranks.source()
    assert source.read().dropped == ("1 ranks: at most 1 files are open",)
    assert source.tail("b").text is None
