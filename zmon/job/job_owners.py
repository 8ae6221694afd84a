"""The names of jobs on a node where several users chose the same job id: two users never share a job.

The first user of a job id keeps it. The job of another user gets a name with the number of that user, for as long as it
lives. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from zmon.schema.names import MAX_JOB_ID_LETTERS


class JobOwners:
    """The name of each job, by its id and its user."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, int], str] = {}

    def update(self, jobs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """Return the names, given the id and the user of each job that exists, the oldest one first."""
        present = dict.fromkeys(jobs)
        self._names = {job: name for job, name in self._names.items() if job in present}
        names = set(self._names.values())
        for job in present:
            if job not in self._names:
                self._names[job] = next(name for name in _candidates(*job) if name not in names)
                names.add(self._names[job])
        return self._names


def _candidates(job_id: str, owner: int) -> Iterable[str]:
    yield job_id
    for number in count(1):
        suffix = f".uid{owner}" if number == 1 else f".uid{owner}-{number}"
        yield job_id[: MAX_JOB_ID_LETTERS - len(suffix)] + suffix
