"""Stacks and stderr in findings are private: they are for root, the user of the hub, and the user of the job.

A request from another machine, which only a hub with `--public` gets, is answered in full: who asks is not known yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.web.asker import Asker


def may_read(asker: Asker, job_id: str, snapshots: Iterable[Snapshot]) -> bool:
    """Return True if the asker may read what this job prints."""
    if not asker.is_local or asker.uid in (0, os.geteuid()):
        return True
    owners = {r.owner for snapshot in snapshots if snapshot.job_id == job_id for r in snapshot.reported_ranks}
    return asker.uid is not None and owners == {asker.uid}


def without_output(finding: Finding) -> Finding:
    """Return a finding without what the job prints."""
    return replace(finding, evidence=finding.evidence.without("stacks", "stderr_tail"))
