"""Publishes findings about living ranks whose box cannot be read.

If no box of a job can be read, the job has no snapshot. So the detector gets the reports of the agents instead.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

from zmon.detectors.unread import UNREAD, Unread
from zmon.hub.agent_link import AgentLink
from zmon.hub.journal import Journal
from zmon.schema.api.agent import UnreadRank

log = logging.getLogger("zmon.hub")

MAX_JOBS = 256  # jobs with such a finding at a time: whoever may write to the folder of boxes can make such a job


def update(journal: Journal, links: Sequence[AgentLink], now: float) -> None:
    """Open, update and resolve the findings. The hub calls this in every pass.

    A finding is resolved once no agent reports an unreadable rank of its job. The last report of a silent agent counts
    until it is forgotten, because the agent may be restarting.
    """
    by_job: defaultdict[str, list[tuple[str, UnreadRank]]] = defaultdict(list)
    for report in filter(None, (link.report for link in links)):
        for rank in report.unread:
            by_job[rank.job_id].append((report.host, rank))
    with_finding = {finding.job_id for finding in journal.active() if finding.detector == UNREAD}
    for job_id in sorted(by_job, key=lambda job_id: (job_id not in with_finding, job_id))[:MAX_JOBS]:
        finding = Unread().detect(job_id, by_job[job_id], now)
        if finding is not None and journal.open_or_update(finding, now):
            log.warning("%s %s: %s", finding.severity, finding.cause, finding.summary)
    for job_id in sorted(with_finding - by_job.keys()):
        journal.resolve(job_id, UNREAD, now)
