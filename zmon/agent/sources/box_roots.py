"""Find the directories of black boxes on this node: one for each user, or the one that the site has named.

A directory counts only if it belongs to the user whose number it bears. Anybody may create `/dev/shm/zmon-1000`, so a
directory with a foreign owner is reported and not read. On Kubernetes, a pod may have its boxes in a volume of its own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from zmon.box.roots import PLACES, Places

# Names that one search looks at. Only somebody who wants to slow the agent down creates more of them.
_MAX_NAMES = 20_000
_MAX_PROBLEMS = 16  # lines about directories that cannot be read
_UID = re.compile(r"0|[1-9][0-9]{0,9}")
_PREFIX = "zmon-"


class Root(NamedTuple):
    """A directory of boxes."""

    path: str
    owner: int | None  # the user to whom all in it must belong; None: several users may use it
    explicit: bool = False  # the site has named it, so all of the source depends on it


class BoxRoots:
    """The directories in which the agent looks for boxes. `explicit`: the only one; None: those of all users."""

    def __init__(self, explicit: Path | None, places: Places = PLACES) -> None:
        self._explicit, self._places = explicit, places

    @property
    def patterns(self) -> tuple[str, ...]:
        """The directories, with `*` for the number of a user."""
        if self._explicit is not None:
            return (str(self._explicit),)
        places = self._places
        paths = (places.in_run("*"), places.in_shm("*"), places.in_pod("*"))
        return tuple(str(path) for path in paths if path is not None)

    def __str__(self) -> str:
        return " and ".join(self.patterns)

    def find(self) -> tuple[list[Root], list[str]]:
        """Return the directories that exist, and a line for each one that cannot be used. Raises OSError."""
        if self._explicit is not None:
            return [Root(str(self._explicit), None, explicit=True)], []
        roots: list[Root] = []
        squatted: list[str] = []
        private: set[int] = set()
        for path, uid in self._candidates():
            try:
                status = path.lstat()
            except OSError:
                continue  # it was removed meanwhile
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != uid:
                squatted.append(_squatted(path, uid, status))
            elif _may_read(path):
                roots.append(Root(str(path), uid))
            else:
                private.add(uid)
        of_pods, unreadable = self._of_pods()
        return [*roots, *of_pods], [*_lines(squatted, private), *unreadable]

    def _of_pods(self) -> tuple[list[Root], list[str]]:
        """Return the volumes of boxes of all pods, and a line if they cannot be read."""
        pods = self._places.pods
        if pods is None:
            return [], []
        roots: list[Root] = []
        problems: list[str] = []
        try:
            candidates = [self._places.in_pod(pod.name) for pod in islice(pods.iterdir(), _MAX_NAMES)]
        except OSError as error:
            return [], [f"the boxes of pods: cannot read {pods}: {error.strerror}"]
        for volume in filter(None, candidates):
            try:
                if not _is_real(volume):
                    continue
            except OSError as error:  # one pod must not hide the others
                problems.append(f"the boxes of a pod: cannot read {volume}: {error.strerror}")
                continue
            if _may_read(volume):
                roots.append(Root(str(volume), None))
            else:
                problems.append(f"the boxes of a pod: uid {os.geteuid()} may not read {volume}")
        return roots, problems[:_MAX_PROBLEMS]

    def _candidates(self) -> Iterator[tuple[Path, int]]:
        """Yield each entry whose name is that of a user's directory, with the user."""
        places = self._places
        shared = (places.run, "") if places.run_is_shared() else None
        for folder, prefix in filter(None, (shared, (places.shm, _PREFIX))):
            try:
                with os.scandir(folder) as entries:
                    names = [entry.name for entry in islice(entries, _MAX_NAMES)]
            except FileNotFoundError:
                continue
            for name in names:
                uid = name.removeprefix(prefix)
                if name.startswith(prefix) and _UID.fullmatch(uid):
                    yield folder / name, int(uid)


def _is_real(folder: Path) -> bool:
    """Return True for a directory that is no symbolic link. Raises OSError."""
    return folder.is_dir() and not folder.is_symlink()


def _may_read(path: Path) -> bool:
    return os.access(path, os.R_OK | os.X_OK, effective_ids=True)


def _squatted(path: Path, uid: int, status: os.stat_result) -> str:
    kind = "" if stat.S_ISDIR(status.st_mode) else " and is no directory"
    return (
        f"{path} belongs to uid {status.st_uid}{kind}: ranks of uid {uid} run unwatched until "
        f"uid {status.st_uid} or root removes it"
    )


def _lines(squatted: list[str], private: set[int]) -> list[str]:
    lines = squatted[:_MAX_PROBLEMS]
    if len(squatted) > _MAX_PROBLEMS:
        lines.append(f"{len(squatted) - _MAX_PROBLEMS} more box directories belong to other users than their names say")
    if private:
        uids = ", ".join(map(str, sorted(private)[:_MAX_PROBLEMS]))
        lines.append(f"the boxes of uid {uids}: only that user and root may read them, and this is uid {os.geteuid()}")
    return lines
