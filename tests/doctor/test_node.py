"""Tests of the node checks: which parts of a node are armed or inert, and the reason."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.boxes import Box
from tests.build import agent_report, rank_state
from tests.doctor.scene import source
from tests.hostile.users import needs_root
from zmon.box.roots import Places
from zmon.box.versions import CURRENT
from zmon.cli.main import cli
from zmon.doctor.installation import installed_torch, torch_version
from zmon.doctor.node import boxes, shared_directory, sources, space_for_boxes, timeouts
from zmon.web import client

UNUSED_URL = "http://127.0.0.1:1"  # port of tcpmux, which no machine serves
UNUSED_URLS = ["--agent", UNUSED_URL, "--hub", UNUSED_URL, "--prometheus", UNUSED_URL]


@pytest.fixture
def small_tmpfs(tmp_path):
    """A file system that is too small for a box."""
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], check=True)
    yield mount
    subprocess.run(["umount", mount], check=True)


def test_box_directory_with_space_is_armed_and_unchanged(tmp_path):
    check = space_for_boxes(tmp_path / "boxes")
    assert check.armed
    assert not (tmp_path / "boxes").exists()


def test_box_directory_in_which_a_rank_begins_meanwhile_stays(tmp_path, monkeypatch):
    folder = tmp_path / "boxes"
    monkeypatch.setattr("zmon.doctor.node.check_share", lambda *_: (folder / "job").mkdir())
    assert space_for_boxes(folder).armed
    assert [path.name for path in folder.iterdir()] == ["job"]


def test_full_box_directory_is_inert(small_tmpfs):
    check = space_for_boxes(small_tmpfs)
    assert check.armed is False
    assert "No space left" in check.result
    assert "Free some space" in check.next_step
    assert list(small_tmpfs.iterdir()) == []


def test_read_only_box_directory_is_inert(small_tmpfs):
    subprocess.run(["mount", "-o", "remount,ro", small_tmpfs], check=True)
    check = space_for_boxes(small_tmpfs)
    assert check.armed is False
    assert "Read-only" in check.result


POD = "/3f2a9c1e-0000-4000-8000-000000000001"


@needs_root
@pytest.mark.parametrize(
    ("root", "armed"), [("/", True), (POD, True), ("/zmon", False), (f"/zmon{POD}", False), (None, False)]
)
def test_directory_of_all_boxes_should_be_a_file_system_of_its_own(tmp_path, root, armed):
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o1777)
    device = tmp_path.stat().st_dev
    point = tmp_path / "run" if root else tmp_path
    line = f"21 1 {os.major(device)}:{os.minor(device)} {root or '/'} {point} rw - tmpfs none rw\n"
    (tmp_path / "mounts").write_text(line)
    (check,) = shared_directory(Places(tmp_path / "run", tmp_path, tmp_path / "mounts"))
    assert check.armed == armed
    assert ("run-zmon.mount" in check.next_step) != armed


def test_without_a_directory_for_all_users_there_is_nothing_to_check(tmp_path):
    assert [*shared_directory(Places(tmp_path / "run", tmp_path))] == []


def test_directory_without_boxes_is_absent(tmp_path):
    assert [check.armed for check in boxes(tmp_path)] == [None]


def test_directory_that_cannot_be_read_is_not_called_empty(tmp_path):
    (tmp_path / "file").touch()
    assert [check.result for check in boxes(tmp_path / "file")] == [
        f"unknown: cannot read {tmp_path / 'file'}: Not a directory"
    ]


def test_damaged_box_is_named(tmp_path):
    path = tmp_path / "job/0/rank-3.box"
    path.parent.mkdir(parents=True)
    path.write_bytes(os.urandom(CURRENT.file_size))
    damaged, readable = boxes(tmp_path)
    assert damaged.armed is False
    assert str(path) in damaged.result
    assert (readable.armed, readable.result) == (None, "none can be read")


def test_box_of_a_rank_is_read(tmp_path):
    box = Box(tmp_path)
    assert [(check.name, check.armed) for check in boxes(tmp_path)] == [("boxes", True)]
    box.release(box.path)


def test_box_that_is_deleted_meanwhile_is_no_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "glob", lambda *_: [tmp_path / "job/0/rank-0.box"])
    assert [(check.name, check.armed) for check in boxes(tmp_path)] == [("boxes", None)]


def test_node_without_daemons_is_unwatched(tmp_path):
    answer = CliRunner().invoke(cli, ["doctor", "--json", "--box-dir", str(tmp_path), *UNUSED_URLS])
    results = {check["name"]: check for check in json.loads(answer.output)["checks"]}
    assert answer.exit_code == 1
    assert results["agent"]["armed"] is results["hub"]["armed"] is results["Prometheus"]["armed"] is False
    assert "zmon up" in results["agent"]["next_step"]
    assert "--prometheus" in results["Prometheus"]["next_step"]
    assert results["torch"]["found"] == torch_version(installed_torch()).result
    for_people = CliRunner().invoke(cli, ["doctor", "--box-dir", str(tmp_path), *UNUSED_URLS])
    assert "INERT" in for_people.output
    assert "armed" in for_people.output


async def checks_of_agent(monkeypatch, **report):
    """Return the checks of an agent with this report, as ranks here write to /boxes."""

    async def answer(*_):
        return agent_report(**report)

    monkeypatch.setattr(client, "ask", answer)
    return await sources(None, "http://node-a:9780", Path("/boxes"))


@pytest.mark.parametrize(
    ("status", "armed", "result"),
    [
        (source("nic"), True, "reads"),
        (source("gpu", up=False, absent=True, error="no driver"), None, "no driver"),
        (source("host", up=False, error="it does not answer"), False, "it does not answer"),
        (source("rdma", num_dropped=2, dropped=("mlx5:1",)), True, "reads, but leaves out mlx5:1"),
    ],
)
async def test_each_source_of_the_agent_has_a_check(monkeypatch, status, armed, result):
    _, check = await checks_of_agent(monkeypatch, sources=(status,))
    assert (check.name, check.armed, check.result) == (f"source {status.name}", armed, result)


@pytest.mark.parametrize(
    ("report", "part"),
    [
        ({"box_dir": "/other"}, "reads /other, but ranks started here write to /boxes"),  # it does not see them
        ({"version": "0.0.9"}, "runs zmon 0.0.9, but this is"),
    ],
)
async def test_agent_of_another_box_directory_or_version_is_inert(monkeypatch, report, part):
    *_, check = await checks_of_agent(monkeypatch, **report)
    assert check.armed is False
    assert part in check.result


LABELS = {"collective_timeout_seconds": "60"}


def test_timeout_of_torch_that_is_shorter_than_the_lease_has_a_next_step():
    ranks = [rank_state(rank, labels=LABELS, lease_seconds=90.0) for rank in range(4)]
    (check,) = timeouts(ranks)
    assert (check.name, check.armed) == ("timeout of job", None)
    assert check.result == "torch ends a collective after 1 min, zmon reports a stall after 1 min 30 s"
    assert "init_process_group" in check.next_step


QUIET_TIMEOUTS = {
    "the lease is shorter": {"lease_seconds": 4.0},
    "the timeout is unknown": {"labels": {}},
    "no lease is learned yet": {"steps": 2},
    "the rank evaluates": {"activity": "eval"},
    "the rank is gone": {"alive": False},
    "the rank is done": {"lease_seconds": None},
}


@pytest.mark.parametrize("changes", QUIET_TIMEOUTS.values(), ids=QUIET_TIMEOUTS)
def test_no_check_if_the_order_of_timeouts_is_right_or_unknown(changes):
    assert timeouts([rank_state(**{"labels": LABELS, "lease_seconds": 90.0, **changes})]) == []
