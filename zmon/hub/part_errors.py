"""The errors of the hub's parts. A part that fails on one job stops neither other parts nor its work on other jobs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator

log = logging.getLogger("zmon.hub")

ALL_JOBS = "all jobs"  # in place of a job id, for a part that works on all jobs at once; no job id has a space


class PartErrors:
    """The last error of each part on each job; `zmon doctor` shows them."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], str] = {}  # by part, such as the name of a detector, and job id

    @contextlib.contextmanager
    def isolated(self, part: str, job_id: str = ALL_JOBS) -> Iterator[None]:
        """Record an error of the block, or its success. The error ends the block only, and is logged once."""
        try:
            yield
        except Exception as error:  # a defect may raise anything
            text = f"{type(error).__name__}: {error}"
            if self.texts.get((part, job_id)) != text:
                log.exception("%s failed on %s", part, job_id if job_id == ALL_JOBS else f"job {job_id}")
            self.texts[part, job_id] = text
        else:
            self.texts.pop((part, job_id), None)

    def retain(self, job_ids: Collection[str]) -> None:
        """Forget the errors on jobs that are not among these."""
        self.texts = {key: text for key, text in self.texts.items() if key[1] in job_ids or key[1] == ALL_JOBS}
