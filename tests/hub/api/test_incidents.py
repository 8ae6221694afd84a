"""Tests of the report page of an incident: it is a large answer, and it is private."""

import asyncio

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.hostile.users import BOB
from tests.hub.incidents.build import made
from zmon.hub.api import incidents
from zmon.hub.api.incidents import IncidentAnswers
from zmon.hub.incidents import CapsuleStore
from zmon.hub.incidents.capsule_store import REPORT
from zmon.web.asker import Asker
from zmon.web.server import application
from zmon.web.work_queue import WorkQueue

PAGE = "/api/v1/incidents/f1/report.html"


def with_incident(folder, scenario):
    """Run a scenario with a client of a hub with the incident f1, whose report is larger than a socket's buffers."""

    async def main():
        store = CapsuleStore(folder)
        (store.write(*made()) / REPORT).write_bytes(bytes(32 << 20))
        app = application()
        app.add_routes(IncidentAnswers(store, WorkQueue(wait_seconds=0.3)).routes())
        async with TestClient(TestServer(app)) as client:
            return await asyncio.wait_for(scenario(client), 20)

    return asyncio.run(main())


def test_report_keeps_its_turn_until_the_client_has_taken_it(tmp_path):
    async def scenario(client):
        taking = await client.get(PAGE)
        async with client.get("/api/v1/incidents") as refused:
            assert refused.status == 503
        taking.close()
        async with client.get("/api/v1/incidents") as answer:
            assert answer.status == 200

    with_incident(tmp_path, scenario)


@pytest.mark.parametrize(
    ("asker", "who"),
    [(Asker(BOB), f"uid {BOB} may not"), (Asker(None, "the port is closed"), "an unknown user (the port is closed)")],
    ids=["other", "unknown"],
)
def test_refused_report_says_who_asks(tmp_path, monkeypatch, asker, who):
    async def asker_of(request):
        return asker

    async def scenario(client):
        async with client.get(PAGE) as answer:
            return answer.status, (await answer.json())["error"]

    monkeypatch.setattr(incidents, "asker_of", asker_of)
    status, error = with_incident(tmp_path, scenario)
    assert status == 403
    assert error.startswith(who)
