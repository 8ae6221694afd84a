"""Read from the hub's journal every state in which a finding about a job was published.

The API has only the last state. A finding that first named an innocent and was corrected looks right there.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import msgspec

from lab.stage import Shown
from zmon.schema.finding import Finding, decode_finding


def published(journal: Path, job_id: str) -> tuple[Shown, ...]:
    """Return all states of all findings about a job, oldest first; states from before a restart are lost."""
    lines = journal.read_bytes().splitlines() if journal.exists() else []
    states = (state_of(finding) for line in lines if (finding := _finding(line)) and finding.job_id == job_id)
    return tuple(state for state, _ in groupby(states))


def _finding(line: bytes) -> Finding | None:
    try:
        return decode_finding(line)
    except msgspec.DecodeError:  # a line that is being written
        return None


def state_of(finding: Finding) -> Shown:
    """Return the fields of a finding that count for the result."""
    return msgspec.convert(finding, Shown, from_attributes=True)
