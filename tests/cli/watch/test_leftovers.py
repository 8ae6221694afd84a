"""Tests that watch deletes the boxes of its own dead ranks, unless somebody reads them."""

import subprocess
import sys

import pytest

from tests.boxes import Box
from tests.build import JOB
from zmon.cli.watch.leftovers import remove_boxes

HOLD = "import sys; file = open(sys.argv[1], 'rb'); print('open', flush=True); sys.stdin.read()"


def dead_box(folder, watch):
    """Return the path of the box of a dead rank, which this process has not open."""
    path = Box(folder, identity={"watch": watch}).path
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(("watch", "stays"), [(7, False), (8, True), (0, True)])
def test_boxes_of_this_watch_are_deleted(tmp_path, watch, stays):
    box = dead_box(tmp_path, watch)
    remove_boxes(tmp_path, [JOB, "no-such-job"], 7)
    assert box.exists() == stays
    assert (tmp_path / JOB).exists() == stays


def test_box_of_a_living_rank_stays(tmp_path, stand_in):
    process = stand_in()
    box = Box(tmp_path, identity={"watch": 7, "pid": process.pid}, holder=process)
    remove_boxes(tmp_path, [JOB], 7)
    assert box.path.exists()


def test_box_that_an_agent_reads_stays(tmp_path):
    box = dead_box(tmp_path, 7)
    agent = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(box)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert agent.stdout.readline() == "open\n"
    remove_boxes(tmp_path, [JOB], 7)
    assert box.exists()
    agent.communicate("")
    remove_boxes(tmp_path, [JOB], 7)
    assert not box.exists()
