"""The directories that hold black boxes: one for each user, and always in memory.

The directory of a rank is `$ZMON_BOX_DIR`; else `/run/zmon/<uid>` if an administrator has made `/run/zmon` for all
users (mode 1777, tmpfs); else `/dev/shm/zmon-<uid>`. Boxes are written at every step, and on a disk file system the
kernel's write-back would make steps wait. On a network file system a rank could wait for ever, so none is used. Loader
workers and NCCL need `/dev/shm` as well, so boxes take only a small share of it.

On Kubernetes, users of different pods may have the same number. So a pod sees only a folder of its own as its
`/run/zmon`: `/run/zmon/<uid of the pod>` of the host.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zmon.box.lock import opened
from zmon.box.mounts import OWN_MOUNTS, file_system, file_system_without_access, read_mounts
from zmon.box.versions import CURRENT
from zmon.errors import BoxUnavailable

VARIABLE = "ZMON_BOX_DIR"
IN_MEMORY = ("tmpfs", "ramfs")
# On these file systems a write to mapped memory waits at most for a disk of this machine. Others may be on a network.
LOCAL = (*IN_MEMORY, "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "overlay")
# Part of /dev/shm that the boxes of this host's ranks may take. Loader workers pass their batches through it, and die
# when it is full. Of the 64 MiB that a container has by default, two boxes leave them 90 %; 8 boxes need 216 MiB.
SHM_SHARE = 1 / 8
POD_VOLUME = "zmon-boxes"  # on Kubernetes, the emptyDir volume in which a pod has its boxes
POD_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # name of the folder of a pod in `/run/zmon`
_NEXT_STEP = f"Set {VARIABLE} to a directory in memory that this user may write; the job continues unwatched"


@dataclass(frozen=True)
class Places:
    """The directories in which the directories of users are."""

    run: Path = Path("/run/zmon")
    shm: Path = Path("/dev/shm")
    mounts: Path = OWN_MOUNTS
    pods: Path | None = None  # the directory of a kubelet with one directory for each pod; None: no pod's volumes

    def in_run(self, uid: int | str) -> Path:
        """Return the directory of a user below `run`."""
        return self.run / str(uid)

    def in_shm(self, uid: int | str) -> Path:
        """Return the directory of a user below `shm`."""
        return self.shm / f"zmon-{uid}"

    def in_pod(self, uid: str) -> Path | None:
        """Return the directory of the volume of boxes of a pod: an emptyDir that is called `zmon-boxes`."""
        return None if self.pods is None else self.pods / uid / "volumes/kubernetes.io~empty-dir" / POD_VOLUME

    def run_is_shared(self) -> bool:
        """Return True if `run` is root's, every user may create entries, none can rename others', and it is memory."""
        try:
            status = self.run.lstat()
        except OSError:
            return False
        shared = stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) & 0o1777 == 0o1777
        return shared and status.st_uid == 0 and file_system(self.run, self.mounts) in IN_MEMORY

    def run_shares_file_system(self) -> bool:
        """Return True if `run` is no file system of its own, so that whoever fills it fills that of `/run` as well.

        A pod sees a folder of it as its own `run` (POD_UID).
        """
        mounted_folders = [mount.root for mount in read_mounts(self.mounts) if mount.point == self.run]
        return not mounted_folders or POD_UID.sub("", mounted_folders[-1]) != "/"


PLACES = Places()


def own_root(env: Mapping[str, str], places: Places = PLACES) -> Path:
    """Return the directory of the boxes of this user."""
    uid = os.geteuid()
    default = places.in_run(uid) if places.run_is_shared() else places.in_shm(uid)
    return Path(env.get(VARIABLE) or default)


def prepare_root(env: Mapping[str, str], places: Places = PLACES) -> Path:
    """Return the directory of the boxes of this user, and create it unless the user has named another one.

    Raises BoxUnavailable if it belongs to somebody else, is not in memory, or was named and may be on a network.
    """
    root = own_root(env, places)
    if env.get(VARIABLE):
        check_local(root, places.mounts)
        return root
    try:
        if (kind := file_system(root.parent, places.mounts)) not in IN_MEMORY:
            raise BoxUnavailable(
                f"cannot create black boxes in {root}", f"it is on {kind or 'an unknown file system'}", _NEXT_STEP
            )
        root.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise BoxUnavailable(
            f"cannot create black boxes in {root}", error.strerror or str(error), _NEXT_STEP
        ) from error
    check_owner(root)
    return root


def check_local(root: Path, mounts: Path = OWN_MOUNTS) -> None:
    """Raise BoxUnavailable if the directory, which need not exist, is neither in memory nor on a disk of this host.

    The path as it was given is compared first: to follow its links would already wait for a server that is down.
    """
    for path in (root.absolute(), root.resolve()):
        kind = file_system_without_access(path, mounts)
        if kind and kind not in LOCAL:
            raise BoxUnavailable(
                f"cannot use {root} for black boxes",
                f"it is on {kind}, neither in memory nor on a local disk, so the job could wait for a server",
                _NEXT_STEP,
            )


def check_share(root: Path, num_boxes: int, places: Places = PLACES) -> None:
    """Raise BoxUnavailable if the directory is in /dev/shm, and this number of boxes would take too much of it."""
    existing = next(path for path in (root, *root.absolute().parents) if path.exists())
    try:
        if existing.stat().st_dev != places.shm.stat().st_dev:
            return
        status = os.statvfs(places.shm)
    except OSError:
        return  # the writer will say why
    total, needed = status.f_blocks * status.f_frsize, num_boxes * CURRENT.file_size
    if total and needed > total * SHM_SHARE:
        raise BoxUnavailable(
            f"cannot create black boxes in {root}",
            f"those of this host take {needed / 2**20:.1f} MiB, and {places.shm} has {total / 2**20:.0f} MiB, which "
            "loader workers and NCCL need",
            f"Make {places.shm} {int(needed / SHM_SHARE / 2**20) + 1} MiB large (`--shm-size`), or set {VARIABLE} to a "
            "tmpfs for boxes; the job continues unwatched",
        )


def check_owner(folder: Path) -> None:
    """Raise BoxUnavailable unless this is a folder, not a link, and belongs to this user."""
    try:
        with opened(folder, os.O_DIRECTORY) as fd:
            owner = os.fstat(fd).st_uid
    except OSError as error:
        owner = folder.lstat().st_uid
        if owner == os.geteuid():
            raise BoxUnavailable(f"cannot use {folder}", error.strerror or str(error), _NEXT_STEP) from error
    if owner != os.geteuid():
        raise BoxUnavailable(
            f"cannot create a black box in {folder}",
            f"it belongs to uid {owner}, and this is uid {os.geteuid()}",
            f"Let that user or root remove it, or set {VARIABLE} to another one in memory; the job continues unwatched",
        )
