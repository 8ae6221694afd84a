"""Creates the box of this rank, beside those of the other launches and ranks of its host."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import asdict, replace
from pathlib import Path

from zmon.box import BoxWriter, box_path
from zmon.box.identity import Identity
from zmon.box.living_launch import creation_lock, living_ranks
from zmon.box.roots import check_share, prepare_root
from zmon.probe import edge
from zmon.probe.autoload.sitecustomize import PARENT_PID
from zmon.probe.complaints import complain
from zmon.probe.interface import job_interface
from zmon.probe.labels import storable_labels
from zmon.probe.launch import LaunchEnvironment
from zmon.probe.leftovers import sweep
from zmon.probe.rank import RankTimeline
from zmon.probe.run_page import with_run_page
from zmon.schema.names import second_job_id


def create_box(launch: LaunchEnvironment, labels: dict[str, str]) -> tuple[RankTimeline, Identity]:
    """Create and publish the box of this rank; return its timeline and identity. Raises BoxUnavailable or OSError."""
    root = prepare_root(os.environ)
    sweep(root)
    check_share(root, launch.local_world_size or 1)
    with creation_lock(root):
        launch = _with_free_job_id(root, launch)
        box = BoxWriter(box_path(root, launch.job_id, launch.attempt, launch.rank))
        try:
            identity = _identity_of(launch, labels)
            box.identity(identity)
            interface = job_interface(os.environ, launch.one_host) if launch.local_rank == 0 else None
            timeline = edge.CHOSEN.make_timeline(box, interface, start=identity.start_ns)
            box.publish()
        except BaseException:
            box.discard()
            raise
    return timeline, identity


def _with_free_job_id(root: Path, launch: LaunchEnvironment) -> LaunchEnvironment:
    """Return the launch, with another job id if a different launch with the same id runs on this host.

    A process that trained alone may start the ranks of this launch. That process is not another launch. It is the
    attempt before this one.
    """
    if not launch.launch_id:
        return launch
    other_id = second_job_id(launch.job_id, launch.launch_id)
    if not (root / other_id).is_dir():  # else other ranks of this launch have it, or had it before a restart
        living = [*living_ranks(root / launch.job_id)]
        parent = next((rank for rank in living if str(rank.pid) == os.environ.get(PARENT_PID)), None)
        other = next((rank for rank in living if rank is not parent), None)
        if other is None or other.launch_id in ("", launch.launch_id) or launch.is_restart_of(other):
            return replace(launch, attempt=launch.attempt + parent.attempt + 1) if parent else launch
    complain(
        f"another launch with the job id {launch.job_id} runs on this host: this one is watched as the job {other_id}. "
        "Give each its own id with --job-id or ZMON_JOB_ID"
    )
    return replace(launch, job_id=other_id)


def _identity_of(launch: LaunchEnvironment, labels: dict[str, str]) -> Identity:
    """Return the identity of this rank when it attaches; its device and its process group become known later."""
    return Identity(
        **asdict(launch),
        pid=os.getpid(),
        run_uid=uuid.uuid4().hex,
        start_ns=time.monotonic_ns(),
        start_unix=time.time(),
        device="cpu",
        backend=None,
        socket="",
        labels=with_run_page(storable_labels(labels), os.environ),
        edge=edge.CHOSEN.name,
    )
