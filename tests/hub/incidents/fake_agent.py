"""A fake agent that has the last steps of its ranks, and functions that wait for an incident."""

from __future__ import annotations

import time
from dataclasses import replace

import msgspec
from aiohttp import web

from tests.build import agent_report, step_record
from tests.hub.fakes import FakeAgent, poll
from zmon.schema.host import HostSample, KernelLog


class AgentWithSteps(FakeAgent):
    """A fake agent with the last steps of its ranks, and a clock of its own."""

    ahead = 0.0  # seconds by which its clock is ahead of the hub's
    events = ()  # of the kernel

    async def snapshot(self, request):
        """Answer a request for the last steps of a job with 300 steps of each of its ranks."""
        if "job_id" not in request.query:
            return await super().snapshot(request)
        self.check(request)
        job_id = request.query["job_id"]
        records = tuple(step_record(n, start=float(n)) for n in range(1, 301))
        ranks = [r for r in self.ranks if r.job_id == job_id]
        steps = {job_id: {r.run_uid: records for r in ranks}}
        report = agent_report(*ranks, host=self.host, records=steps, time=time.time() + self.ahead)
        report = replace(report, monotonic=400.0, sample=HostSample(kernel=KernelLog({}, tuple(self.events))))
        return web.json_response(body=msgspec.json.encode(report))

    def stderr_of(self, rank):
        """Return a line with the number of the rank."""
        return f"rank {rank} said"


async def incident(hub_client, number=1):
    """Wait until this number of incidents is written; return the newest."""

    async def written():
        return (await hub_client.get("/api/v1/incidents"))["incidents"]

    summaries = await poll(written, 15.0, until=lambda summaries: len(summaries) == number)
    assert len(summaries) == number
    return await hub_client.get(f"/api/v1/incidents/{summaries[0]['id']}")


async def resolved_incident(hub_client):
    """Wait until the only incident is resolved; return it."""
    capsule = await poll(lambda: incident(hub_client), 8.0, until=lambda capsule: capsule["finding"]["resolved"])
    assert capsule["finding"]["resolved"]
    return capsule


def texts_of(capsule):
    """Return the texts of a capsule's timeline."""
    return [moment["what"] for moment in capsule["timeline"]]
