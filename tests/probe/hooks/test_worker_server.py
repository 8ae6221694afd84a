"""Tests of the worker server of torch in a rank: it prints nothing, and its socket is beside the box or in /tmp."""

import asyncio
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import REPOSITORY
from zmon.agent import evidence
from zmon.agent.worker_socket import WorkerSocket
from zmon.box.rank_files import SHORT_PATHS, is_short_socket
from zmon.box.reader import BoxReader
from zmon.probe.hooks.worker_server import socket_path
from zmon.process import process_id

MAX_PATH = 107  # bytes, as in unix(7)


def test_socket_is_beside_the_box():
    assert socket_path(Path("/dev/shm/zmon/job/0/rank-3.box")) == Path("/dev/shm/zmon/job/0/rank-3.sock")


def test_longest_path_beside_the_box_can_be_bound(tmp_path):
    folder = tmp_path / ("x" * (MAX_PATH - len(os.fsencode(tmp_path)) - len("//rank-3.sock")))
    folder.mkdir()
    longest = socket_path(folder / "rank-3.box")
    assert (longest.parent, len(os.fsencode(longest))) == (folder, MAX_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(longest))


def test_rank_whose_socket_path_would_be_too_long_has_a_socket_of_its_own_in_tmp(tmp_path):
    box = tmp_path / ("x" * 100) / "0" / "rank-3.box"
    path = socket_path(box)
    assert len(os.fsencode(path)) <= MAX_PATH
    assert path.parent == SHORT_PATHS == Path("/tmp")
    assert is_short_socket(path.name)  # else nobody would use or delete it
    assert path == socket_path(box) != socket_path(box.with_name("rank-4.box"))


def test_rank_and_its_server_continue_after_a_forked_worker_ends(start_rank):
    """The workers of data loaders start and end during training, and share the listening socket."""
    rank = start_rank("""
        import os, sys, time, zmon
        assert zmon.attach()
        time.sleep(0.05)
        for _ in range(3):
            worker = os.fork()
            if not worker:
                sys.exit()
            os.waitpid(worker, 0)
        print("waited", flush=True)
        time.sleep(60)
    """)
    rank.says("waited")
    reader = BoxReader(rank.box)
    path = reader.identity().socket
    reader.close()
    for _ in range(2):
        answer = asyncio.run(evidence.gather(process_id(rank.pid), WorkerSocket(Path(path), os.geteuid(), path)))
        assert "script-0.py" in (answer.stack or ""), answer.stack_error


def test_socket_is_removed_when_its_rank_ends(start_rank):
    """On a host without an agent, no other process deletes the socket."""
    rank = start_rank("import zmon\nassert zmon.attach()\nimport time\ntime.sleep(0.05)\n")
    assert rank.wait() == 0
    assert [file.name for file in rank.box.parent.iterdir()] == ["rank-0.box"]


JOB_THAT_SPEAKS = """
import sys, time
import torch.distributed as dist
from torch._C._distributed_c10d import _WorkerServer
print("begins", file=sys.stderr)
if "watched" in sys.argv:
    import zmon
    assert zmon.attach()
print("goes on", file=sys.stderr)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=0, world_size=1)
own = _WorkerServer("own.sock")  # logs a line as zmon's server would, and three more at its end
time.sleep(0.3)  # a shutdown before its thread listens would hang
own.shutdown()
dist.destroy_process_group()
print("ends", file=sys.stderr)
"""


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("level", "expected_text"),
    [
        ("", "Server listening to UNIX own.sock"),
        pytest.param("INFO", "debug level is set to DETAIL", marks=pytest.mark.slow),
    ],
)
def test_watched_job_and_its_torch_print_the_same_as_without_zmon(tmp_path, level, expected_text):

    def stderr(*arguments):
        folder = tmp_path / "-".join(("job", *arguments))
        folder.mkdir()
        env = os.environ | {
            "TORCH_CPP_LOG_LEVEL": level, "TORCH_DISTRIBUTED_DEBUG": "DETAIL", "PYTHONPATH": str(REPOSITORY),
            "ZMON_BOX_DIR": str(tmp_path / "box"), "ZMON_JOB_ID": "job",
        }  # fmt: skip
        command = [sys.executable, "-c", JOB_THAT_SPEAKS, str(folder), *arguments]
        ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=True)
        assert ended.stdout == ""
        return re.sub(r"\d{4} \d\d:\d\d:\d\d\.\d{9}", "TIME", ended.stderr)

    alone, watched = stderr(), stderr("watched")
    assert expected_text in alone
    assert watched == alone.replace("/job/", "/job-watched/")


def test_torch_without_the_log_level_variable_prints_its_warning(start_rank):
    """Another build of torch may lack the variable; an extra line is better than a rank without stacks."""
    rank = start_rank("""
        import ctypes, zmon
        def nothing_is_loaded(*arguments, **options):
            raise OSError("libc10.so: not loaded")
        ctypes.CDLL = nothing_is_loaded
        print(zmon.attach(), flush=True)
    """)
    assert rank.wait() == 0
    assert rank.says("True") == ""
    assert "[c10d] Server listening to UNIX" in rank.output
