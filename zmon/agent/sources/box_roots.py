"""Find the directories of black boxes on this node: one for each user, or the one that the site has named.

A directory counts only if it belongs to the user whose number it bears. Anybody may create `/dev/shm/zmon-1000`, so a
directory with a foreign owner is reported and not read.

On Kubernetes two pods may have the same user, root for example, and yet be strangers. A pod has its boxes in a folder
of its own in `/run/zmon`, which the kubelet makes for it as root, or in a volume of its own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from zmon.box.roots import PLACES, POD_UID, Places

_MAX_NAMES = 20_000  # names that one search reads; only somebody who wants to slow the agent down creates more
_MAX_POD_NAMES = 64  # names that one search reads in the folder of one pod; a pod has one user, seldom more
_MAX_PROBLEMS = 16  # lines about directories of one kind that cannot be used
_UID = re.compile(r"0|[1-9][0-9]{0,9}")
_PREFIX = "zmon-"


class Root(NamedTuple):
    """A directory of boxes."""

    path: str
    owner: int | None  # the user to whom all in it must belong; None: several users may use it
    is_explicit: bool = False  # the site has named this directory; the source fails if it cannot be listed
    pod: str = ""  # the uid of the pod whose directory it is

    def tenant(self, owner: int) -> str:
        """Return the tenant of a box of this user: the pod, else the user. Each tenant has a share of the limits."""
        return f"the pod {self.pod}" if self.pod else f"uid {owner}"


class _Candidate(NamedTuple):
    """An entry that has the name of a user's directory of boxes."""

    path: Path
    uid: int  # of the user
    pod: str  # the uid of the pod that it is in, or empty


class BoxRoots:
    """The directories in which the agent looks for boxes. `explicit`: the only one; None: those of all users."""

    def __init__(self, explicit: Path | None, places: Places = PLACES) -> None:
        self._explicit, self._places = explicit, places
        self.may_be_links = explicit is not None  # a site may name a link; in other places a job may have put it there

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
        """Return the directories that exist, and a line for each directory that cannot be used. Raises OSError."""
        if self._explicit is not None:
            return [Root(str(self._explicit), None, is_explicit=True)], []
        roots: list[Root] = []
        private: set[int] = set()  # the users whose directories this process may not read
        problems: list[str] = []
        candidates, pod_problems = self._candidates()
        for path, uid, pod in candidates:
            if (status := _status(path)) is None:
                continue
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != uid:
                problems.append(_squatted_line(path, f"uid {uid}", status))
            elif _may_read(path):
                roots.append(Root(str(path), uid, pod=pod))
            else:
                private.add(uid)
        volumes, volume_problems = self._pod_volumes()
        lines = _limited(problems)
        if private:
            uids = ", ".join(map(str, sorted(private)[:_MAX_PROBLEMS]))
            this_uid = os.geteuid()
            lines.append(f"the boxes of uid {uids}: only that user and root may read them, and this is uid {this_uid}")
        return [*roots, *volumes], [*lines, *_limited(pod_problems), *_limited(volume_problems)]

    def _pod_volumes(self) -> tuple[list[Root], list[str]]:
        """Return the volumes of boxes of all pods, and a line for each volume that cannot be read."""
        pods = self._places.pods
        if pods is None:
            return [], []
        roots: list[Root] = []
        problems: list[str] = []
        try:
            candidates = [(pod.name, self._places.in_pod(pod.name)) for pod in islice(pods.iterdir(), _MAX_NAMES)]
        except OSError as error:
            return [], [f"the boxes of pods: cannot read {pods}: {error.strerror}"]
        for pod, volume in candidates:
            try:
                if volume is None or not volume.is_dir() or volume.is_symlink():
                    continue
            except OSError as error:  # one pod must not hide the others
                problems.append(f"the boxes of a pod: cannot read {volume}: {error.strerror}")
                continue
            if _may_read(volume):
                roots.append(Root(str(volume), None, pod=pod))
            else:
                problems.append(f"the boxes of a pod: uid {os.geteuid()} may not read {volume}")
        return roots, problems

    def _candidates(self) -> tuple[list[_Candidate], list[str]]:
        """Return each entry with the name of a user's directory, and a line for each folder of a pod that is unusable.

        The folder of a pod is used only if the kubelet has made it, as root.
        """
        places = self._places
        candidates = list(_user_entries(places.shm, _PREFIX))
        problems: list[str] = []
        if not places.run_is_shared():
            return candidates, problems
        candidates += _user_entries(places.run)
        for pod in filter(POD_UID.fullmatch, (entry.name for entry in entries_of(places.run, _MAX_NAMES))):
            folder = places.run / pod
            if (status := _status(folder)) is None:
                continue
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0:
                problems.append(_squatted_line(folder, f"the pod {pod}", status))
            elif _may_read(folder):  # one pod must not hide the others
                candidates += _user_entries(folder, pod=pod)
            else:
                problems.append(
                    f"the boxes of the pod {pod}: uid {os.geteuid()} may not read {folder}: run the agent as root"
                )
        return candidates, problems


def _user_entries(folder: Path, prefix: str = "", pod: str = "") -> Iterator[_Candidate]:
    """Yield the entries of a folder with the name of a user's directory: the prefix, then a uid."""
    for entry in entries_of(folder, _MAX_POD_NAMES if pod else _MAX_NAMES):
        uid = entry.name.removeprefix(prefix)
        if entry.name.startswith(prefix) and _UID.fullmatch(uid):
            yield _Candidate(folder / entry.name, int(uid), pod)


def entries_of(folder: str | Path, limit: int) -> list[os.DirEntry[str]]:
    """Return the first entries of a folder; none if it does not exist. Raises OSError."""
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, max(limit, 0)))
    except FileNotFoundError:
        return []


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None  # it was removed meanwhile


def _may_read(path: Path) -> bool:
    return os.access(path, os.R_OK | os.X_OK, effective_ids=True)


def _squatted_line(path: Path, expected: str, status: os.stat_result) -> str:
    kind = "" if stat.S_ISDIR(status.st_mode) else " and is no directory"
    return (
        f"{path} belongs to uid {status.st_uid}{kind}: ranks of {expected} run unwatched until "
        f"uid {status.st_uid} or root removes it"
    )


def _limited(problems: list[str]) -> list[str]:
    """Return the first lines, and a line with the number of the others."""
    num_others = len(problems) - _MAX_PROBLEMS
    more = [f"{num_others} more directories are unusable like these"] if num_others > 0 else []
    return [*problems[:_MAX_PROBLEMS], *more]
