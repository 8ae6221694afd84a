"""Tests of the launch of a watch: its number, and which one of several watches of a launch watches."""

import subprocess
import sys

import pytest

from tests.places import REPOSITORY
from zmon.cli.watch.launch import Launch, remove_lock_file, take_lock, this_launch
from zmon.errors import BoxUnavailable

SRUN = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"}
ENVIRONMENTS = {  # environment → a launcher has started a watch for each rank
    "a shell": ({}, False),
    "srun": (SRUN, True),
    "srun of one task": ({**SRUN, "SLURM_STEP_NUM_TASKS": "1"}, False),
    "a batch script of Slurm, which has the number of its tasks": ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, False),
    "torchrun": ({"RANK": "1", "WORLD_SIZE": "2"}, True),
    "mpirun": ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, True),
    "no number": ({"RANK": "1", "WORLD_SIZE": ""}, False),
}


@pytest.mark.parametrize(("env", "is_shared"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_watches_of_a_shared_launch_have_one_number(env, is_shared):
    one, other = this_launch(env), this_launch(env)
    assert one.is_shared == is_shared
    assert (one.number == other.number) == is_shared
    assert 0 < one.number < 1 << 31


def test_first_watch_of_a_shared_launch_watches_and_the_others_do_not(tmp_path):
    launch = Launch(7, is_shared=True)
    script = f"""
from pathlib import Path
from zmon.cli.watch.launch import Launch, take_lock
print(take_lock(Launch(7, True), Path({str(tmp_path)!r})))
"""

    def other():
        return subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True).stdout

    assert take_lock(launch, tmp_path)
    assert other() == "False\n"
    remove_lock_file(launch, tmp_path)
    assert [*tmp_path.iterdir()] == []
    assert other() == "True\n"  # of the next launch with that number


def test_first_watch_makes_the_folder_of_boxes(tmp_path):
    assert take_lock(Launch(7, is_shared=True), tmp_path / "boxes" / "of-user")


def test_folder_without_room_for_a_lock_says_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BoxUnavailable, match="Make room there, or set ZMON_BOX_DIR"):
        take_lock(Launch(7, is_shared=True), tmp_path / "file" / "boxes")


def test_watch_of_a_launch_that_is_not_shared_needs_no_lock(tmp_path):
    launch = Launch(7, is_shared=False)
    assert take_lock(launch, tmp_path)
    assert take_lock(launch, tmp_path)
    assert [*tmp_path.iterdir()] == []
