"""The stage of a recording: four hosts whose agents also listen on loopback, where they give evidence.

Usage of the module: `python -m lab.recording.stage DIR WEBHOOK`, as `lab.stage.cluster`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec

from lab.stage.cluster import Cluster, run
from lab.stage.hosts import FourHosts
from lab.stage.network import Host
from zmon.errors import ZmonError
from zmon.schema.api import EvidenceRequest, RankEvidence, endpoints
from zmon.stack.part import Part
from zmon.web.addresses import AGENT_PORT

_TIMEOUT_SECONDS = 5.0  # of the command below, whose request may take 4 s
_ASK = "import sys, urllib.request; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1], timeout=4).read())"


class OpenCluster(Cluster):
    """The parts of `Cluster`, with agents that listen on all addresses of their host."""

    def _agent(self, host: Host) -> Part:
        part = super()._agent(host)
        part.command = ["0.0.0.0" if word == host.address else word for word in part.command]
        return part


class RecordedHosts(FourHosts):
    """A running stack with four hosts, whose evidence can be read on the hosts themselves."""

    module = "lab.recording.stage"

    def evidence(self, host: str, job_id: str, rank: int) -> RankEvidence | None:
        """Return the evidence about one rank, or None if the agent of its host gives none."""
        path = endpoints.EVIDENCE.path_of(EvidenceRequest(job_id, str(rank)))
        inside = ["nsenter", f"--target={self.part('agent', host).pid}", "--net", "--mount"]
        command = [*inside, sys.executable, "-S", "-c", _ASK, f"http://127.0.0.1:{AGENT_PORT}{path}"]
        try:
            answer = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=True)
            return msgspec.json.decode(answer.stdout, type=RankEvidence)
        except (subprocess.SubprocessError, msgspec.MsgspecError):
            return None


if __name__ == "__main__":
    try:
        asyncio.run(run(Path(sys.argv[1]), sys.argv[2], kind=OpenCluster))
    except ZmonError as error:
        sys.exit(str(error))
