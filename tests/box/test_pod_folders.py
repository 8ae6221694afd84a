"""Tests of the deletion of the folders that pods leave behind: when a pod is gone, and what is never deleted."""

import os
import subprocess

import pytest

from tests.boxes import Clock
from tests.hostile.users import BOB, needs_root
from zmon.box.pod_folders import PodFolders, pods_with_mounts
from zmon.box.rank_files import GRACE_SECONDS

GONE = "3f2a9c1e-0000-4000-8000-000000000001"
LIVING = "3f2a9c1e-0000-4000-8000-000000000002"
LINK = "3f2a9c1f-0000-4000-8000-000000000001"  # a link with the name of a pod that is gone
DEEP = "002a9c1e-0000-4000-8000-000000000001"  # a pod that is gone, and the first by name
TOO_DEEP = 1100  # folders: more than Python's stack of 1,000 calls
# The host's /proc/1/mountinfo: a kubelet mounts the folder of a pod into the pod's own folder, by its uid.
MOUNTED = (
    f"612 28 0:25 /{LIVING} /var/lib/kubelet/pods/{LIVING}/volume-subpaths/zmon-boxes/trainer/0 rw - tmpfs zmon rw\n"
)


@pytest.fixture
def node(tmp_path):
    """Return a folder with a table of mounts, and with the folders of a living pod and of one that is gone."""
    for pod in (GONE, LIVING):
        (tmp_path / "run" / pod / "0/job/0").mkdir(parents=True)
        (tmp_path / "run" / pod / "0/job/0/rank-0.box").touch()
    (tmp_path / "mounts").write_text(MOUNTED)
    return tmp_path


@pytest.fixture
def clock():
    """Return the clock of the deleter, which a test moves."""
    return Clock()


@pytest.fixture
def folders(node, clock):
    """Return the deleter of folders. Its first `remove` only notes which pods are gone."""
    return PodFolders(node / "run", node / "mounts", lambda: clock.ns / 1e9)


def names(node):
    """Return the sorted names in the directory of boxes."""
    return sorted(path.name for path in (node / "run").iterdir())


def removed_after_the_grace_period(folders, clock):
    """Let the grace period of the pods pass that are gone now, and return the folders that are deleted then."""
    folders.remove()
    clock.sleep(GRACE_SECONDS + 1)
    return folders.remove()


def test_pods_are_found_by_the_mounts_that_the_kubelet_makes(tmp_path):
    (tmp_path / "mounts").write_text(MOUNTED + "21 1 0:20 / /run rw - tmpfs none rw\nodd\n")
    assert pods_with_mounts(tmp_path / "mounts") == {LIVING}


def test_no_pod_is_found_by_mounts_that_a_container_sees(tmp_path):
    """A container sees the mount at its own path, and not at the path in which the kubelet made it."""
    (tmp_path / "mounts").write_text(f"612 28 0:25 /{LIVING} /run/zmon rw - tmpfs zmon rw\n")
    assert pods_with_mounts(tmp_path / "mounts") == frozenset()


@needs_root
def test_folder_of_a_pod_is_deleted_once_the_grace_period_after_its_end_is_over(folders, node, clock):
    assert folders.remove() == []
    clock.sleep(GRACE_SECONDS - 1)
    assert folders.remove() == []
    clock.sleep(2)
    assert folders.remove() == [GONE]
    assert names(node) == [LIVING]


@needs_root
def test_pod_whose_container_starts_again_keeps_its_folder(folders, node, clock):
    folders.remove()
    (node / "mounts").write_text(MOUNTED + MOUNTED.replace(LIVING, GONE))
    clock.sleep(GRACE_SECONDS + 1)
    folders.remove()
    (node / "mounts").write_text(MOUNTED)
    assert folders.remove() == []
    assert names(node) == [GONE, LIVING]


@needs_root
def test_nothing_is_deleted_without_a_view_of_the_host(folders, node, clock):
    folders.remove()
    (node / "mounts").write_text("21 1 0:20 / /run rw - tmpfs none rw\n")
    clock.sleep(GRACE_SECONDS + 1)
    assert folders.remove() == []
    assert names(node) == [GONE, LIVING]


@needs_root
def test_links_and_folders_of_users_stay(folders, node, clock):
    (node / "outside").mkdir()
    (node / "run" / LINK).symlink_to(node / "outside")
    (node / "run/1000").mkdir()
    os.chown(node / "run" / GONE, BOB, -1)
    assert removed_after_the_grace_period(folders, clock) == []
    assert names(node) == sorted([GONE, LIVING, LINK, "1000"])


@pytest.fixture
def deep(node):
    """Yield the folder of a pod that is gone. Its folders are nested deeper than Python's stack, as a user can do."""
    deep = node / "run" / DEEP
    deep.mkdir()
    outer = os.open(deep, os.O_RDONLY)
    for _ in range(TOO_DEEP):
        os.mkdir("d", dir_fd=outer)
        inner = os.open("d", os.O_RDONLY, dir_fd=outer)
        os.close(outer)
        outer = inner
    os.close(outer)
    yield deep
    subprocess.run(["rm", "-rf", deep], check=True)  # pytest could not


@needs_root
def test_folder_that_is_nested_too_deep_is_logged_and_hinders_no_other_deletion(folders, deep, node, clock, caplog):
    assert removed_after_the_grace_period(folders, clock) == [GONE]
    assert names(node) == [DEEP, LIVING]
    assert f"cannot delete {deep}: its folders are nested too deep" in caplog.text
    assert f"`rm -rf {deep}`" in caplog.text


@needs_root
def test_link_in_a_folder_is_deleted_and_not_followed(folders, node, clock):
    (node / "outside").mkdir()
    (node / "outside/file").touch()
    (node / "run" / GONE / "1000").symlink_to(node / "outside")
    assert removed_after_the_grace_period(folders, clock) == [GONE]
    assert (node / "outside/file").exists()
