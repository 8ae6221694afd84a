"""Ask the agents of a stage at a fixed interval, and store their answers."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from lab.recording.stage import RecordedHosts
from lab.stage import client
from lab.stage.cluster import agent_url
from zmon.schema.api import SnapshotRequest, SuspectsRequest, endpoints
from zmon.stack.replay import HostRecording, RecordedEvidence, RecordedReport

INTERVAL_SECONDS = 0.5
EVIDENCE_SECONDS = 10.0  # between two readings of the evidence about all ranks
EVIDENCE_AFTER_SECONDS = 0.6  # from the fault to the first reading: by then the other ranks wait
_AGENT_SECONDS = 4.0  # longer than a hub waits for an agent: the machine may be busy


class Recorder:
    """Records the agents of a job, from its start until `stop`."""

    def __init__(self, stage: RecordedHosts, job_id: str) -> None:
        self.began = time.time()
        self._stage, self._job_id = stage, job_id
        self._agents = {name: agent_url(host) for name, host in stage.hosts.items()}
        self._cursors = dict.fromkeys(self._agents, -1)
        self._reports: defaultdict[str, list[RecordedReport]] = defaultdict(list)
        self._evidence: defaultdict[str, list[RecordedEvidence]] = defaultdict(list)
        self._ranks: dict[str, tuple[int, ...]] = {}
        self._evidence_at: float | None = None  # the time of the next reading, unix seconds; None: not yet
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._record, args=(host,)) for host in self._agents]
        self._threads.append(threading.Thread(target=self._record_evidence))
        for thread in self._threads:
            thread.start()

    def read_evidence(self, fault: float) -> None:
        """Read the evidence from now on, because the fault has come (unix seconds)."""
        self._evidence_at = fault + EVIDENCE_AFTER_SECONDS

    def stop(self) -> tuple[HostRecording, ...]:
        """Stop, and return what was recorded."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        return tuple(
            HostRecording(host, without_gaps(self._reports[host]), self._evidence[host]) for host in self._agents
        )

    def _record(self, host: str) -> None:
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            due = max(due + INTERVAL_SECONDS, time.monotonic())  # a host that is cut off takes longer
            self._ask(host)

    def _ask(self, host: str) -> None:
        """Ask one agent for its suspects and its report, with all steps since the report before."""
        url = self._agents[host]
        seconds = time.time() - self.began
        request = SnapshotRequest(since=self._cursors[host], job_id=self._job_id)
        suspects = client.ask(url, endpoints.SUSPECTS, SuspectsRequest(), _AGENT_SECONDS)
        report = client.ask(url, endpoints.SNAPSHOT, request, _AGENT_SECONDS) if suspects is not None else None
        if report is not None:
            self._cursors[host] = report.cursor
            self._ranks[host] = tuple(rank.rank for rank in report.ranks)
        suspicions = () if suspects is None else tuple(suspects.suspects)
        self._reports[host].append(RecordedReport(seconds, report, suspicions))

    def _record_evidence(self) -> None:
        with ThreadPoolExecutor(len(self._agents)) as pool:
            while not self._stopped.wait(INTERVAL_SECONDS / 5):
                if self._evidence_at is not None and time.time() >= self._evidence_at:
                    self._evidence_at += EVIDENCE_SECONDS
                    list(pool.map(self._read_evidence, self._agents))

    def _read_evidence(self, host: str) -> None:
        for rank in self._ranks.get(host, ()):
            seconds = time.time() - self.began
            evidence = self._stage.evidence(host, self._job_id, rank)
            if evidence is not None:
                self._evidence[host].append(RecordedEvidence(seconds, evidence))


def without_gaps(reports: Sequence[RecordedReport]) -> list[RecordedReport]:
    """Return the reports without empty ones before the last answer: a busy machine causes them, and not a lost host."""
    last = max((index for index, report in enumerate(reports) if report.report is not None), default=-1)
    return [report for index, report in enumerate(reports) if report.report is not None or index > last]


def longest_pause(reports: Sequence[RecordedReport], until: float) -> float:
    """Return the longest time between two reports up to a time."""
    times = [0.0, *(report.at for report in reports if report.at < until), until]
    return max(later - earlier for earlier, later in pairwise(times))
