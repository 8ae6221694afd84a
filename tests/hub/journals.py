"""Open and resolve findings, for the tests of the journal."""

from typing import Any

from tests.build import NOW, finding
from zmon.hub.journal import RESOLVE_AFTER_SECONDS, Journal


def resolve(journal: Journal, time: float, job_id: str = "job", detector: str = "stall") -> None:
    """Resolve the findings of a detector about a job: it is quiet for long enough from `time` on."""
    for seconds in (0.0, RESOLVE_AFTER_SECONDS):
        journal.resolve(job_id, detector, time + seconds)


def open_and_resolve(journal: Journal, number: int, begin: float = NOW, **changes: Any) -> None:
    """Open and resolve this number of findings, about a job each, one every ten seconds."""
    for index in range(number):
        time = begin + 10 * index
        journal.open_or_update(finding(id=f"f{index}", job_id=f"job-{index}", detected=time, **changes), time)
        resolve(journal, time + 5, f"job-{index}")
