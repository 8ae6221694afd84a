"""The verdict of `zmon watch`: what is known about a command and its jobs when it has ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET

from zmon.cli.render.time_advice import Advice
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding, worst_first
from zmon.schema.job import JobView
from zmon.schema.names import severity_order


@dataclass(frozen=True, slots=True)
class WatchedJob:
    """A job as it was seen last."""

    view: JobView
    findings: tuple[Finding, ...]  # all that opened, the newest first
    began: float  # unix seconds at which its first rank started
    steps: int  # finished by the rank that is ahead
    num_living: int  # ranks that were alive when watch ended
    edges: tuple[str, ...] = ()  # implementations of the hot path in its ranks
    finished: bool = False  # every rank has said that it was done
    cancelled: str = ""  # how a signal to its ranks ended it; "": none did
    superseded: bool = False  # its process started the ranks of another job, and has only waited since then
    of_rank: int | None = None  # step time and time categories are those of this rank alone; None: of all ranks


@dataclass(frozen=True, slots=True)
class VerdictCard:
    """Everything that the card says."""

    command: str
    ending: str  # of the command: `exit code 1`, `signal SIGKILL`
    seconds: float  # from its start to its end
    failed: bool = False  # it did not succeed, and no signal that watch received ended it
    signals: tuple[str, ...] = ()  # received for it: `SIGTERM by process 812 (timeout)`
    signalled: float | None = None  # unix seconds of the first one
    jobs: tuple[WatchedJob, ...] = ()  # by their start
    unwatched: Advice | None = None  # why no rank was seen
    failure: str = ""  # the exit code of watch, if it is not that of the command, and why
    errors: tuple[str, ...] = ()  # what zmon could not do
    folder: str = ""  # of the report and the step log; "": none was written
    output: str = ""  # the file that the command wrote to; "": it had the terminal

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, the worst first."""
        return tuple(worst_first(finding for job in self.jobs for finding in job.findings))


def main_job(jobs: Sequence[WatchedJob]) -> WatchedJob | None:
    """Return the job that the card is about: the one with the worst finding, else the one with the most steps.

    A job whose script has only tried its model, and then started the ranks of another job, comes after the others
    with findings as severe.
    """

    def importance(job: WatchedJob) -> tuple[int, bool, int, float]:
        worst = max((severity_order(finding.severity) for finding in job.findings), default=0)
        return worst, not job.superseded, job.steps, job.began

    return max(jobs, key=importance, default=None)


def fault_of(job: WatchedJob, signalled: float | None = None) -> Finding | None:
    """Return the finding about the end of the job, or about its stall; None if there is none.

    A stall counts while it is open. But mere silence does not count once every rank has said that it is done: the ranks
    clean up or upload. A stall also counts if it lasted until the first signal, and no step finished after it began: it
    was the reason for the signal. `signalled`: unix seconds of the first signal; None: there was none.
    """

    def caused_end(finding: Finding) -> bool:
        is_silence = finding.evidence_of(StallEvidence).silence is not UNSET
        ended_by_signal = signalled is not None and finding.onset < signalled <= (finding.resolved or signalled)
        is_open = finding.resolved is None and not (is_silence and job.finished)
        return is_open or (ended_by_signal and (finding.step or 0) > job.steps)

    faults = [finding for finding in job.findings if finding.is_stall and finding.severity != "info"]
    return next((finding for finding in faults if caused_end(finding)), None)


def watched_part(view: JobView) -> str:
    """Return which part of a job is watched; "" if all its ranks are."""
    if view.ranks_seen >= view.world_size:
        return ""
    return f"{view.ranks_seen} of {view.world_size} ranks, this node only"
