"""An agent that has the last steps of its ranks, and how a test waits for what the hub makes of it."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import msgspec
from aiohttp import web

from tests.build import agent_report, step_record
from tests.hub.fakes import FakeAgent, until
from zmon.schema.host import HostSample, KernelLog


class Agent(FakeAgent):
    """An agent that has the last steps of its ranks, and a clock of its own."""

    def __init__(self, *ranks, host="node-a"):
        super().__init__(*ranks, host=host)
        self.ahead, self.events = 0.0, ()

    async def snapshot(self, request):
        if "job_id" not in request.query:
            return await super().snapshot(request)
        self.check(request)
        job_id, records = request.query["job_id"], tuple(step_record(n, start=float(n)) for n in range(1, 301))
        ranks = [r for r in self.ranks if r.job_id == job_id]
        steps = {job_id: {r.run_uid: records for r in ranks}}
        report = agent_report(*ranks, host=self.host, records=steps, time=time.time() + self.ahead)
        report = replace(report, monotonic=400.0, sample=HostSample(kernel=KernelLog({}, tuple(self.events))))
        return web.json_response(body=msgspec.json.encode(report))

    async def evidence(self, request):
        answer = await super().evidence(request)
        told = json.loads(answer.body)
        told |= {
            "stderr_tail": f"rank {request.match_info['rank']} said",
            "stderr_path": "/err",
            "stderr_shared": False,
        }
        return web.json_response(told)


async def incident(door, number=1):
    """The newest incident, once there are so many and it is written."""

    async def there():
        told = (await door.get("/api/v1/incidents"))["incidents"]
        return told[0] if len(told) == number else None

    brief = await until(there, 15.0)
    return await door.get(f"/api/v1/incidents/{brief['id']}")


def whats(told):
    return [moment["what"] for moment in told["timeline"]]


async def resolved(door):
    """Whether nothing is wrong any more."""
    return not await door.findings()
