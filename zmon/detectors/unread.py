"""Report living ranks whose state nobody can read. Without this finding, zmon might show nothing of their job.

It is no detector of the table ALL, because there may be no snapshot of such a job. The hub calls it with what all
agents report about the job. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zmon.detectors.wording import ranks_text, verb
from zmon.format import counted, listed
from zmon.schema.api.agent import UnreadRank
from zmon.schema.evidence import UnreadEvidence
from zmon.schema.finding import Finding
from zmon.schema.names import LOCK
from zmon.schema.thresholds import Thresholds

UNREAD = "unread"  # the name of the detector
_MAX_LINES = 8  # reasons in the evidence
_MAX_HOSTS = 8


class _Cause(NamedTuple):
    """The meaning of a kind of unread rank: the cause, the summary's last part, and what to do next."""

    cause: str
    means: str
    next_step: str


# The kinds of UnreadRank, the most certain first. A kind that only a newer agent knows counts as damage.
_CAUSES = {
    "version": _Cause(
        "box_version",
        "the black box has a layout that this agent does not know",
        "The job and the agent run different versions of zmon. On the host, `zmon --version` shows the agent's; the "
        "agent's log names both layouts. Install the job's version, or a newer one, for the agent. A job that cannot "
        "be restarted goes on unwatched.",
    ),
    "refused": _Cause(
        "box_refused",
        "the black box claims what no job has",
        "Look at RANK and WORLD_SIZE in the job's launch, correct them and start the job again; until then it is "
        "unwatched.",
    ),
    "damaged": _Cause(
        "box_damaged",
        "the black box is damaged or cannot be opened",
        "The agent's log names the file. Did something write into it, or take away the right to read it? The rank "
        "writes a new box at its next start.",
    ),
    "report": _Cause(
        "report_unreadable",
        "the hub cannot decode what the agent says about it",
        "The hub and the agent run different versions of zmon: `zmon doctor` shows both. Update the older one.",
    ),
}


@dataclass(frozen=True)
class Unread(Thresholds):
    """The detector `unread`; the threshold in seconds."""

    # A box that cannot be read for this long is reported. The agent tries it again after 5 s, so it has failed twice.
    after_seconds: float = 5.0
    name = UNREAD
    causes = tuple(cause.cause for cause in _CAUSES.values())

    def detect(self, job_id: str, unread: Sequence[tuple[str, UnreadRank]], time: float) -> Finding | None:
        """Return a finding about the job's ranks that cannot be read, each with its host; None if there is none yet.

        `time` is the hub's unix time.
        """
        lasting = [(host, rank) for host, rank in unread if rank.seconds >= self.after_seconds or rank.kind == "report"]
        if not lasting:
            return None
        ranks = [rank for _, rank in lasting]
        kinds = {rank.kind for rank in ranks}
        cause = next((cause for kind, cause in _CAUSES.items() if kind in kinds), _CAUSES["damaged"])
        hosts = sorted({host for host, _ in lasting})
        numbers = sorted({rank.rank for rank in ranks if rank.rank is not None})
        who = ranks_text(numbers) if numbers else counted(len(ranks), "rank")
        seconds = max(rank.seconds for rank in ranks)
        return Finding(
            id=hashlib.blake2b(f"{job_id}|{UNREAD}|{cause.cause}".encode(), digest_size=8).hexdigest(),
            job_id=job_id,
            detector=UNREAD,
            cause=cause.cause,
            severity="warning",
            ranks=(),
            hosts=tuple(hosts),
            step=None,
            onset=time - seconds,
            detected=time,
            confidence=1.0,
            summary=f"{who} of job {job_id} on {listed(hosts, _MAX_HOSTS)} {verb(ranks, 'lives', 'live')} and cannot "
            f"be watched: {cause.means}: {ranks[0].reason}",
            detail=cause.next_step,
            runbook=f"docs/runbooks.md#{cause.cause}",
            evidence=UnreadEvidence(unread=tuple(rank.reason for rank in ranks[:_MAX_LINES])),
            as_of=time,
            proof=LOCK,
        )
