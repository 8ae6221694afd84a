"""List who holds GPUs of this node: the jobs of a scheduler, control groups of v1, and pods of Kubernetes.

A scheduler's prolog writes a file for each job, and its epilog removes it (docs/deploy/slurm.md). The source `pods`
lists pods if it is switched on. Of a pod only the number of its GPUs is known, and not which they are.

A group of v1 holds a GPU if its `devices.list` names that device and no group above it names any. `a *:* rwm` is no
restriction, and `c 195:* rw` allows all GPUs, so a group with such a line holds none. Layout:
Documentation/admin-guide/cgroup-v1/devices.rst. In v2 a BPF program decides about devices, and nothing lists them:
without files and pods, the holders are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from zmon.agent.sources.reading import take_first, text_of
from zmon.errors import SourceUnavailable
from zmon.format import plain

MAX_HOLDERS = 64
FOLDER = Path("/run/zmon-held")  # only root may write in /run, so nobody can claim to hold GPUs, or take the name
# A device of the driver by its number: 254 and 255 are no GPUs, but nvidia-modeset and nvidiactl (linux devices.txt).
_GPU = re.compile(r"^c 195:(\d+) \w+$", re.M)
_FIRST_CONTROL = 254  # the lowest number of a device that is no GPU


class Holder(NamedTuple):
    """A job, a pod or a control group that holds GPUs."""

    name: str  # of the file, such as slurm-123; NAMESPACE/POD; or the path of the control group
    num_gpus: int
    gpus: frozenset[int] = frozenset()  # numbers of the devices: 0 for /dev/nvidia0; empty: it is unknown which
    user: str = ""
    groups: tuple[str, ...] = ()  # ends of the paths that its control group may have, such as /job_123; (): unknown
    is_allocation: bool = True  # False: a control group, which may also be that of a monitor that may look at all GPUs

    def has(self, path: str) -> bool:
        """Return True if a control group is that of this holder, or below it."""
        return any(f"{end}/" in f"{path}/" for end in self.groups)


class _HeldFile(msgspec.Struct, frozen=True):
    """The file of a job. Its fields are those of `Holder`."""

    gpus: frozenset[int]
    user: str = ""
    group: str = ""


def holders(cgroup: Path, folder: Path, dropped: list[str], pods: Sequence[Holder] | None) -> tuple[Holder, ...]:
    """Return the holders without duplicates; `dropped` gets a line for each file that cannot be read.

    `pods`: None if they are unknown. Raises SourceUnavailable if nothing tells who holds GPUs.
    """
    devices = cgroup / "devices"
    if pods is None and not (folder.is_dir() or devices.is_dir()):
        raise SourceUnavailable(
            "cannot tell who holds GPUs",
            f"control groups of v2 do not list devices, there is no {folder}, and no list of the pods of this node",
            "see docs/deploy/slurm.md and docs/deploy/kubernetes.md",
        )
    jobs = tuple(_jobs(folder, dropped))
    gpus_of_jobs = frozenset(gpu for job in jobs for gpu in job.gpus)
    groups = (
        group
        for group in _groups(devices, devices)
        if not group.gpus <= gpus_of_jobs and not any(pod.has(group.name) for pod in pods or ())
    )
    return tuple(take_first(MAX_HOLDERS, (*jobs, *(pods or ()), *groups), "holders of GPUs", dropped))


def _jobs(folder: Path, dropped: list[str]) -> Iterator[Holder]:
    """Yield the jobs whose files the scheduler's prolog has written."""
    for path in sorted(folder.glob("*.json")):
        try:
            file = msgspec.json.decode(path.read_bytes(), type=_HeldFile)
        except FileNotFoundError:  # its job has just ended
            continue
        except (OSError, msgspec.MsgspecError) as error:
            dropped.append(f"{path}: {error}")
            continue
        if file.gpus:
            groups = (file.group,) if file.group else ()
            yield Holder(plain(path.stem), len(file.gpus), file.gpus, plain(file.user), groups)


def _groups(folder: Path, root: Path) -> Iterator[Holder]:
    """Yield the groups below a folder that hold GPUs, but not the groups below such a group."""
    try:
        children = sorted(path for path in folder.glob("*/") if (path / "devices.list").exists())
    except FileNotFoundError:  # the group has just been removed
        return
    for child in children:
        numbers = map(int, _GPU.findall(text_of(child / "devices.list")))
        gpus = frozenset(number for number in numbers if number < _FIRST_CONTROL)
        path = f"/{child.relative_to(root)}"
        if gpus:
            yield Holder(plain(path), len(gpus), gpus, groups=(path,), is_allocation=False)
        else:
            yield from _groups(child, root)
