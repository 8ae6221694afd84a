"""Where can a rank be asked for its stacks? Beside its box, or in /tmp where that is too long for a socket."""

import asyncio
import os
import socket
from pathlib import Path

from zmon import evidence
from zmon.box import BoxReader
from zmon.hooks.worker_server import socket_path


def test_socket_lies_beside_the_box():
    assert socket_path(Path("/dev/shm/zmon/job/0/rank-3.box")) == Path("/dev/shm/zmon/job/0/rank-3.sock")


def test_path_that_is_too_long_for_a_socket_falls_back_to_a_short_one(tmp_path):
    box = tmp_path / ("x" * 100) / "0" / "rank-3.box"
    path = socket_path(box)
    assert len(os.fsencode(path)) <= 107
    assert path.parent == Path("/tmp")
    assert path == socket_path(box)
    assert path != socket_path(box.with_name("rank-4.box"))


def test_longest_path_that_is_kept_can_be_bound(tmp_path):
    room = 107 - len(os.fsencode(tmp_path)) - len("//rank-3.sock") - 1
    folder = tmp_path / ("x" * (room + 1))
    folder.mkdir()
    path = socket_path(folder / "rank-3.box")
    assert path.parent == folder
    assert len(os.fsencode(path)) == 107
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def test_rank_and_its_server_outlive_a_forked_worker_that_ends(start_rank):
    """Data loaders fork and end all the time; they share the listening socket."""
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
        found = asyncio.run(evidence.gather(rank.pid, Path(path)))
        assert "script-0.py" in (found["stack"] or ""), found["stack_error"]


def test_socket_goes_with_its_rank(start_rank):
    """Nobody can ask a rank that has ended; where no agent runs nobody would ever remove it."""
    rank = start_rank("import zmon\nassert zmon.attach()\nimport time\ntime.sleep(0.05)\n")
    assert rank.wait() == 0
    assert [file.name for file in rank.box.parent.iterdir()] == ["rank-0.box"]
