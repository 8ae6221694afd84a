"""Tests of frozen processes: what /proc and the control groups show, by the kernel's documentation and by trial."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.boxes import eventually
from zmon.agent.sources.freezer import is_frozen
from zmon.process import process_stat

ROOT = Path("/sys/fs/cgroup")
HYBRID = "5:freezer:/docker/a1\n4:memory:/docker/a1\n3:cpu,cpuacct:/docker/a1\n0::/docker/a1"
V1 = HYBRID.rpartition("\n")[0]
V2 = "0::/docker/a1"
V2_STATE = "docker/a1/cgroup.events"
V2_FROZEN, V2_THAWED = "populated 1\nfrozen 1", "populated 1\nfrozen 0"
FREEZERS = {  # state of the process in /proc, its control groups, files of the groups → whether it is frozen
    "hybrid host, freezer of v1": ("D", HYBRID, {"freezer/docker/a1/freezer.state": "FROZEN"}, True),
    "v1": ("D", V1, {"freezer/docker/a1/freezer.state": "FROZEN"}, True),
    "v1, freezing": ("D", V1, {"freezer/docker/a1/freezer.state": "FREEZING"}, False),
    "v1, thawed: it waits for a disk": ("D", V1, {"freezer/docker/a1/freezer.state": "THAWED"}, False),
    "v2, waits for a disk": ("D", V2, {"cgroup.controllers": "", V2_STATE: V2_THAWED}, False),
    "v2": ("S", V2, {"cgroup.controllers": "", V2_STATE: V2_FROZEN}, True),
    "v2, sleeps": ("S", V2, {"cgroup.controllers": "", V2_STATE: V2_THAWED}, False),
    "hybrid host, freezer of v2": ("S", HYBRID, {f"unified/{V2_STATE}": V2_FROZEN}, True),
    "v2, runs": ("R", V2, {"cgroup.controllers": "", V2_STATE: V2_FROZEN}, False),
    "v1 without a freezer": ("D", V1, {}, False),
    "v2 without a freezer": ("S", V2, {}, False),
    "in another cgroup namespace": ("S", "0::/../../docker/a1", {"cgroup.controllers": ""}, False),
    "no control group is known": ("D", "", {}, False),
}


@pytest.mark.parametrize(("state", "cgroup", "files", "frozen"), FREEZERS.values(), ids=FREEZERS)
def test_process_is_frozen_if_its_control_group_is(tmp_path, state, cgroup, files, frozen):
    for name, text in files.items():
        (tmp_path / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / name).write_text(f"{text}\n")
    (tmp_path / "1000").mkdir()
    (tmp_path / "1000" / "cgroup").write_text(cgroup)
    assert is_frozen(tmp_path / "1000", state, tmp_path / "cgroup") is frozen


@pytest.mark.parametrize(
    ("parent", "file", "freeze", "thaw"),
    [
        pytest.param(ROOT / "freezer", "freezer.state", "FROZEN", "THAWED", id="v1"),
        pytest.param(ROOT, "cgroup.freeze", "1", "0", id="v2"),
        pytest.param(ROOT / "unified", "cgroup.freeze", "1", "0", id="v2 of a hybrid host"),
    ],
)
def test_real_freezer_holds_a_process_by_the_group_above(parent, file, freeze, thaw):
    above = parent / f"zmon-test-{os.getpid()}"
    group = above / "below"
    try:
        group.mkdir(parents=True)
        (above / file).read_text()
    except OSError:
        for folder in (group, above):
            if folder.exists():
                folder.rmdir()
        pytest.skip(f"no control group with {file} can be made under {parent}")
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        (group / "cgroup.procs").write_text(str(sleeper.pid))
        (above / file).write_text(freeze)
        assert eventually(lambda: is_frozen_now(sleeper.pid))
        (above / file).write_text(thaw)
        assert eventually(lambda: not is_frozen_now(sleeper.pid))
    finally:
        (above / file).write_text(thaw)
        sleeper.send_signal(signal.SIGKILL)
        sleeper.wait()
        assert eventually(lambda: remove(group) and remove(above))


def is_frozen_now(pid):
    """Return True if a process of this machine is frozen."""
    return is_frozen(Path(f"/proc/{pid}"), process_stat(pid).state)


def remove(folder):
    """Try to remove the folder of a control group; return True if it is gone."""
    try:
        folder.rmdir()
    except OSError:  # the kernel needs a moment to let its last process go
        return not folder.exists()
    return True
