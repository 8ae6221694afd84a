"""Tests that watch deletes the boxes of its own dead ranks, unless somebody reads them."""

import subprocess
import sys

import pytest

from tests.boxes import Box
from tests.build import JOB
from zmon.cli.watch.leftovers import remove_boxes

WATCH = 7  # the number of the watch that deletes
HOLD = "import sys; file = open(sys.argv[1], 'rb'); print('open', flush=True); sys.stdin.read()"


def dead_box(folder, watch):
    """Return the path of the box of a dead rank: a copy of the file, on which nobody holds the lock of a living one."""
    path = Box(folder, identity={"watch": watch}).path
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("watch", "stays"),
    [
        pytest.param(WATCH, False, id="this watch"),
        pytest.param(8, True, id="another watch"),
        pytest.param(0, True, id="no watch"),
    ],
)
def test_boxes_of_this_watch_and_no_others_are_deleted(tmp_path, watch, stays):
    box = dead_box(tmp_path, watch)
    remove_boxes(tmp_path, [JOB, "no-such-job"], WATCH)
    assert box.exists() == stays
    assert (tmp_path / JOB).exists() == stays


def test_box_of_a_living_rank_stays(tmp_path, stand_in):
    process = stand_in()
    box = Box(tmp_path, identity={"watch": WATCH, "pid": process.pid}, holder=process)
    remove_boxes(tmp_path, [JOB], WATCH)
    assert box.path.exists()


def test_box_that_an_agent_reads_stays(tmp_path):
    box = dead_box(tmp_path, WATCH)
    agent = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(box)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert agent.stdout.readline() == "open\n"
    remove_boxes(tmp_path, [JOB], WATCH)
    assert box.exists()
    agent.communicate("")
    remove_boxes(tmp_path, [JOB], WATCH)
    assert not box.exists()
