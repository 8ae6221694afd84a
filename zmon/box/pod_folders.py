"""Delete the folders of pods that are gone from the directory of all boxes of a Kubernetes node (`/run/zmon`).

The kubelet makes such a folder for each pod, and never deletes it. The boxes in it belong to the pod's users, so only a
process that may write the files of all users can delete them. The agent answers the network, so it does not get that
right. This module runs as a process of its own without a port, in the chart's DaemonSet. It needs to see the processes
of the host (hostPID).
"""

from __future__ import annotations

import logging
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

from zmon.box.mounts import read_mounts
from zmon.box.rank_files import GRACE_SECONDS
from zmon.box.roots import PLACES, POD_UID

log = logging.getLogger("zmon.pod_folders")

HOST_MOUNTS = Path("/proc/1/mountinfo")
INTERVAL_SECONDS = 60.0  # time between two searches


def pods_with_mounts(mounts: Path) -> frozenset[str]:
    """Return the uids of the pods that have a mount on the host: a container with a volume of boxes has one.

    The kubelet's mounts are in folders with the uid of the pod (`…/pods/<uid>/volume-subpaths/…`). Raises OSError.
    """
    parts = (part for mount in read_mounts(mounts) for part in mount.point.parts)
    return frozenset(filter(POD_UID.fullmatch, parts))


class PodFolders:
    """The folders of pods in the directory of all boxes, and since when their pods are gone."""

    def __init__(
        self, run: Path = PLACES.run, mounts: Path = HOST_MOUNTS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._mounts, self._clock = run, mounts, clock
        self._gone_since: dict[str, float] = {}

    def remove(self) -> list[str]:
        """Delete the folders of pods that have been gone for GRACE_SECONDS, and return their names. Raises OSError.

        If no pod has a mount, nothing is deleted: then this process may not see the mounts of the host.
        """
        present = pods_with_mounts(self._mounts)
        if not present:
            return []
        now = self._clock()
        names = {path.name for path in self._run.iterdir() if POD_UID.fullmatch(path.name)} - present
        self._gone_since = {name: self._gone_since.get(name, now) for name in names}
        old = [name for name, since in self._gone_since.items() if now - since > GRACE_SECONDS]
        return [name for name in sorted(old) if _remove(self._run / name)]


def _remove(folder: Path) -> bool:
    """Delete a folder of root with its contents; links are deleted, and not followed. Return True if it is gone."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0:
        return False  # the kubelet did not make it
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "its folders are nested too deep for this process"
        log.warning("cannot delete %s: %s. In this container run `rm -rf %s`", folder, why, folder)
        return False
    return True


def main() -> None:
    """Delete such folders every minute, until a signal ends this process."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    folders = PodFolders()
    while True:
        try:
            for name in folders.remove():
                log.info("deleted the folder of the pod %s, which is gone", name)
        except OSError as error:
            log.warning("cannot look for folders of pods: %s", error)
        time.sleep(INTERVAL_SECONDS)


if __name__ == "__main__":
    main()
