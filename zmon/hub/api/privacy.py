"""Stacks and stderr in findings are private.

A server with roles shows them to whoever has the role `evidence`. A server without roles shows them to root, to the
user of the hub and to the user of the job, over loopback.
"""

from __future__ import annotations

import os
from dataclasses import replace

from msgspec import UNSET

from zmon.schema.ended_launch import EndedLaunch
from zmon.schema.finding import Finding
from zmon.web.asker import Asker


def may_read(asker: Asker, finding: Finding | None) -> bool:
    """Return True if the asker may read all of a finding; None: its file is damaged.

    The finding says who owned the ranks. The job id does not: after a job has ended, anybody may start one with its id.
    """
    if asker.roles:
        return asker.may_read_evidence
    if asker.uid in (0, os.geteuid()):
        return True
    if finding is None:
        return False
    evidence = finding.evidence
    is_public = evidence.stacks is UNSET and evidence.stderr_tail is UNSET
    return is_public or (asker.uid is not None and evidence.owners == (asker.uid,))


def may_read_end(asker: Asker, end: EndedLaunch) -> bool:
    """Return True if the asker may read the line of the job that shows why the launch ended."""
    if asker.roles:
        return asker.may_read_evidence
    return asker.uid is not None and asker.uid in (0, os.geteuid(), end.owner)


def without_output(finding: Finding) -> Finding:
    """Return a finding without what the job prints."""
    return replace(finding, evidence=finding.evidence.without("stacks", "stderr_tail"))
