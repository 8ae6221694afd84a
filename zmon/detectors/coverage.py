"""Report the ranks of a job that no agent watches, and a job id that two users or two launches have.

Without this finding, the job would look healthy.
"""

from __future__ import annotations

from dataclasses import dataclass

from zmon.detectors.new_finding import new_finding
from zmon.detectors.wording import rank_numbers
from zmon.schema.evidence import CoverageEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import LOCK, SILENCE
from zmon.schema.thresholds import Thresholds


@dataclass(frozen=True)
class Coverage(Thresholds):
    """The detector `coverage`; thresholds in seconds."""

    # An agent that is silent for this long is reported, because its ranks are unwatched. One that systemd restarts is
    # back sooner: RestartSec is 1 s, and it starts in 1.5 to 2.1 s (three starts, 2026-11-29). An agent that a signal
    # ends announces it, and is not reported for two minutes (zmon/hub/agent_link.py).
    silent_seconds: float = 10.0
    # Ranks that no agent reports are missing once the job has trained for this long. The ranks of one launch appear
    # within seconds of each other.
    missing_seconds: float = 20.0
    # They are also missing once all others have initialized for this long, because these may wait for them. A cluster
    # that pulls images may start the ranks of one launch minutes apart.
    start_seconds: float = 300.0
    name = "coverage"
    separate = False
    causes = ("agent_unreachable", "ranks_missing", "job_id_shared")

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True, also while ranks are unwatched: they are what this detector reports."""
        return True

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return None, because it can judge every job."""
        return None

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return the first finding that applies: a silent agent, a shared id, missing ranks, or a second launch."""
        rules = (self._silent_agent, self._shared_id, self._missing_ranks, self._two_launches)
        finding = next((finding for rule in rules if (finding := rule(snapshot))), None)
        return (finding,) if finding else ()

    def _silent_agent(self, snapshot: Snapshot) -> Finding | None:
        """Return a finding about unwatched ranks, whose agents have been silent for `silent_seconds`."""
        hosts = {r.host for r in snapshot.unwatched}
        silent = [
            agent
            for agent in snapshot.agents
            if agent.host in hosts and agent.silent_seconds >= self.silent_seconds and not agent.is_restarting
        ]
        if not silent:
            return None
        first = silent[0]
        ranks = [r.rank for r in snapshot.unwatched]
        return new_finding(
            snapshot,
            detector=self.name,
            cause="agent_unreachable",
            severity="warning",
            proof=SILENCE,
            hosts=[agent.host or agent.url for agent in silent],
            seconds_ago=first.silent_seconds,
            confidence=1.0,
            summary=f"the agent on {first.host or first.url} has not answered for {first.silent_seconds:.0f} s "
            f"(threshold {self.silent_seconds:.0f} s); ranks {rank_numbers(ranks)} are not watched: {first.error}",
            detail=f"Is the host up (`ping {first.host}`)? Does the agent run (`curl {first.url}/healthz`)? "
            "If not, start it again.",
            evidence=CoverageEvidence(agents=tuple(agent.url for agent in silent)),
        )

    def _missing_ranks(self, snapshot: Snapshot) -> Finding | None:
        """Return a finding about ranks that no agent has reported, although the job trains or has started long ago."""
        alive = [r for r in snapshot.ranks if r.alive]
        training = [r.activity_seconds for r in alive if r.activity == "train"]
        starting = [r.activity_seconds for r in alive if r.activity == "init"]
        if training:
            seconds, threshold, doing, waits = min(training), self.missing_seconds, "been training", ""
        elif starting and len(starting) == len(alive):
            waits = ": the others may wait for them"
            seconds, threshold, doing = min(starting), self.start_seconds, "initialized"
        else:
            return None
        if not snapshot.missing or seconds < threshold:
            return None
        return new_finding(
            snapshot,
            detector=self.name,
            cause="ranks_missing",
            severity="warning",
            proof=SILENCE,
            seconds_ago=seconds,
            confidence=1.0,
            summary=f"no agent reports ranks {rank_numbers(snapshot.missing, snapshot.num_missing)} of "
            f"{snapshot.world_size}, although the job has {doing} for {seconds:.0f} s "
            f"(threshold {threshold:.0f} s){waits}",
            detail=f"{'Did the launcher start them? If so, start' if waits else 'Start'} a zmon agent on every host of "
            "the job, with the job's ZMON_BOX_DIR, and add it to the hub's --agents. On the host, "
            "`ls $ZMON_BOX_DIR/<job>/*` shows which ranks have a box; the agent's log names each damaged box.",
            evidence=CoverageEvidence(missing=snapshot.missing, num_missing=snapshot.num_missing),
        )

    def _shared_id(self, snapshot: Snapshot) -> Finding | None:
        """Return a finding about a job whose id another user's job has, so that zmon has given it another name."""
        renamed = [r for r in snapshot.ranks if r.alive and r.wanted_job_id and not r.has_second_id]
        if not renamed:
            return None
        hosts = list(dict.fromkeys(r.host for r in renamed))
        first = renamed[0]
        return new_finding(
            snapshot,
            detector=self.name,
            cause="job_id_shared",
            severity="warning",
            proof=LOCK,
            hosts=hosts,
            seconds_ago=0.0,
            confidence=1.0,
            summary=f"uid {first.owner} started ranks of a job {first.wanted_job_id} on {', '.join(hosts[:4])}, where "
            f"another user has a job with this id; they are watched as {snapshot.job_id}",
            detail="Start it with another id (`zmon run --job-id` or ZMON_JOB_ID). On its other hosts the metrics and "
            f"step log of the agent may have it as {first.wanted_job_id}.",
            evidence=CoverageEvidence(),
        )

    def _two_launches(self, snapshot: Snapshot) -> Finding | None:
        """Return a finding of severity info about two launches that one user has started with one id."""
        second = next((r for r in snapshot.ranks if r.alive and r.has_second_id), None)
        if second is not None:
            wanted_id = second.wanted_job_id
            summary = f"another launch with the job id {wanted_id} lives: this one is watched as {snapshot.job_id}"
        elif snapshot.second_jobs:
            summary = f"another launch with this job id lives, and is watched as {', '.join(snapshot.second_jobs[:4])}"
        else:
            return None
        return new_finding(
            snapshot,
            detector=self.name,
            cause="job_id_shared",
            severity="info",
            proof=LOCK,
            seconds_ago=0.0,
            confidence=1.0,
            summary=summary,
            detail="Give each launch its own id (`zmon run --job-id` or ZMON_JOB_ID), or none: zmon then finds one.",
            evidence=CoverageEvidence(),
        )
