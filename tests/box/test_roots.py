"""Tests of the directory of a user's boxes: where it is, that it is in memory, and that it is the user's own."""

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.hostile.users import BOB, needs_root
from zmon.box.roots import Places, check_owner, check_share, own_root, prepare_root
from zmon.errors import BoxUnavailable

ME = str(os.geteuid())


@pytest.fixture
def places(tmp_path):
    """Return directories of this test that the table of mounts calls tmpfs."""
    for name in ("run", "shm"):
        (tmp_path / name).mkdir()
    return Places(tmp_path / "run", tmp_path / "shm", mounts(tmp_path, "tmpfs"))


def mounts(folder, kind):
    """Write a table of mounts in which the file system of this folder is of this kind; return its path."""
    device = folder.stat().st_dev
    table = folder / f"mounts-{kind}"
    table.write_text(f"21 1 {os.major(device)}:{os.minor(device)} / /x rw - {kind} none rw\n")
    return table


def test_named_directory_is_used_as_it_is(places, tmp_path):
    assert prepare_root({"ZMON_BOX_DIR": str(tmp_path / "named")}, places) == tmp_path / "named"
    assert not (tmp_path / "named").exists()


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "fuse.sshfs", "of_a_newer_kernel"])
@pytest.mark.parametrize("name", ["a network/boxes", "link/boxes"])
def test_directory_on_a_network_is_refused(places, tmp_path, kind, name):
    (tmp_path / "link").symlink_to(tmp_path / "a network")
    mount_point = str(tmp_path / "a network").replace(" ", r"\040")
    places.mounts.write_text(f"20 1 254:0 / / rw - ext4 none rw\n21 20 0:7 / {mount_point} rw - {kind} server:/x rw\n")
    with pytest.raises(BoxUnavailable, match=rf"it is on {kind}, .* Set ZMON_BOX_DIR to a directory in memory"):
        prepare_root({"ZMON_BOX_DIR": str(tmp_path / name)}, places)
    prepare_root({"ZMON_BOX_DIR": str(tmp_path / "a network of disks")}, places)


SIZES = {  # the size of /dev/shm in MiB, 0: no limit; the number of ranks; whether their boxes may take their share
    "2 ranks in 64 MiB, the default of Docker": (64, 2, True),
    "3 ranks in 64 MiB": (64, 3, False),
    "a rank in 25 MiB": (25, 1, False),
    "8 ranks in a little less than they need": (215, 8, False),
    "8 ranks in what they need": (216, 8, True),
    "8 ranks without a limit": (0, 8, True),
}


@pytest.mark.parametrize(("mebibytes", "ranks", "fits"), SIZES.values(), ids=SIZES)
def test_boxes_take_a_small_share_of_the_memory_that_others_need(places, tmp_path, monkeypatch, mebibytes, ranks, fits):
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_blocks=mebibytes * 256, f_frsize=4096))
    root = places.in_shm(ME) / "not made yet"
    refused = pytest.raises(BoxUnavailable, match=r"has .* MiB.*--shm-size.*unwatched")
    with contextlib.nullcontext() if fits else refused:
        check_share(root, ranks, places)
    check_share(root, 10_000, replace(places, shm=Path("/proc")))  # boxes beside /dev/shm have no limit


def test_each_user_has_a_directory_of_mode_700(places):
    root = prepare_root({"ZMON_BOX_DIR": ""}, places)
    assert root == places.shm / f"zmon-{ME}"
    assert oct(root.stat().st_mode)[-3:] == "700"
    assert prepare_root({}, places) == root


@needs_root
def test_directory_in_run_is_used_if_root_made_it_for_all(places):
    places.run.chmod(0o1777)
    assert own_root({}, places) == places.run / ME
    os.chown(places.run, BOB, -1)
    assert own_root({}, places) == places.shm / f"zmon-{ME}"


@pytest.mark.parametrize("mode", [0o777, 0o1775, 0o700])
def test_directory_in_run_is_not_used_if_others_may_change_it_or_may_not_use_it(places, mode):
    places.run.chmod(mode)
    assert own_root({}, places) == places.shm / f"zmon-{ME}"


@needs_root
def test_directory_in_run_is_not_used_on_a_disk(places, tmp_path):
    places.run.chmod(0o1777)
    on_disk = Places(places.run, places.shm, mounts(tmp_path, "ext4"))
    assert own_root({}, on_disk) == places.shm / f"zmon-{ME}"


def test_default_directory_on_a_disk_is_refused(places, tmp_path):
    on_disk = Places(places.run, places.shm, mounts(tmp_path, "ext4"))
    with pytest.raises(BoxUnavailable, match=r"it is on ext4\. Set ZMON_BOX_DIR"):
        prepare_root({}, on_disk)
    assert list(places.shm.iterdir()) == []


@needs_root
def test_directory_of_another_user_is_refused_with_its_owner(places):
    prepare_root({}, places)
    os.chown(places.in_shm(ME), BOB, -1)
    with pytest.raises(BoxUnavailable, match=f"it belongs to uid {BOB}, and this is uid {ME}"):
        prepare_root({}, places)


def test_link_in_place_of_the_directory_is_refused(places, tmp_path):
    (tmp_path / "private").mkdir()
    places.in_shm(ME).symlink_to(tmp_path / "private")
    with pytest.raises(BoxUnavailable, match="cannot use"):
        prepare_root({}, places)
    check_owner(tmp_path / "private")
