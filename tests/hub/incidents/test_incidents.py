"""Tests of a hub's incidents with fake agents, from the first sign to the end."""

import time

import pytest

from tests.build import JOB, finding, killed, waiting
from tests.hub.fakes import FakeAgent, frozen, healthy, poll, stopped
from tests.hub.incidents.fake_agent import AgentWithSteps, incident, texts_of
from zmon.hub.incidents.collector import needs_capsule
from zmon.schema.host import KernelEvent


async def test_capsule_of_a_stall_is_complete(start_hub, tmp_path):
    suspects = [{"job_id": JOB, "rank": 2, "reason": "stopped"}]
    hub_client = await start_hub(AgentWithSteps(*frozen(), suspects=suspects, version=1))
    capsule = await incident(hub_client)
    folder = tmp_path / "incidents" / capsule["finding"]["id"]
    assert {path.name for path in folder.iterdir()} == {"finding.json", "capsule.json", "steps.jsonl", "report.html"}
    assert (capsule["schema"], capsule["finding"]["cause"], capsule["stepped"]) == (1, "rank_frozen", [0, 1, 2, 3])
    assert capsule["finding"]["evidence"]["stacks"]["2"]["stack"] == "stack of rank 2"
    assert capsule["finding"]["evidence"]["stderr_tail"] == {
        "2": {"text": "rank 2 said", "error": None, "path": "/err", "shared": False}
    }
    assert [row["num_steps"] for row in capsule["ranks"]] == [200] * 4
    assert len((folder / "steps.jsonl").read_bytes().splitlines()) == 800
    texts = texts_of(capsule)
    assert texts[0].startswith("first sign")
    assert {"finding opened: rank_frozen, critical", "suspected: stopped"} <= set(texts)
    assert texts[-1] == "evidence gathered: stacks, flight records, last lines, steps"
    (active,) = await poll(hub_client.findings, until=lambda findings: findings[0]["capsule"])
    assert active["capsule"] == str(folder)


async def test_stderr_of_a_dead_culprit_is_collected(start_hub):
    agent = AgentWithSteps(killed(2), *(waiting(rank, 1.0) for rank in (0, 1, 3)))
    hub_client = await start_hub(agent)
    capsule = await incident(hub_client)
    assert capsule["finding"]["cause"] == "rank_exited"
    assert capsule["finding"]["evidence"]["stderr_tail"]["2"]["text"] == "rank 2 said"
    assert capsule["finding"]["evidence"]["in_flight"]["2"] == {"error": "its process is gone"}
    assert any("evidence/job/2" in path and "run=uid-2" in path for path in agent.requests)


async def test_kernel_events_of_another_host_have_corrected_times(start_hub):
    event = KernelEvent(time.time() + 25.0, "xid", "0000:3b:00.0", "NVRM: Xid (PCI:0000:3b:00): 79", 79)
    hub_client = await start_hub(AgentWithSteps(*frozen(), ahead=30.0, events=(event,)))
    capsule = await incident(hub_client)
    (event,) = [moment for moment in capsule["timeline"] if "Xid" in moment["what"]]
    ahead, _, what = event["clock"].removeprefix("node-a's clock is ").partition(" s ")
    assert (float(ahead), what) == (pytest.approx(30.0, abs=3.0), "ahead: corrected")  # the request takes some time
    assert abs(event["time"] - time.time() + 5.0) < 10.0


async def test_rank_without_steps_is_listed_as_left_out(start_hub):
    hub_client = await start_hub(FakeAgent(*frozen()))
    capsule = await incident(hub_client)
    assert capsule["stepped"] == []
    assert any("the steps of rank 0, 1, 2, 3" in line for line in capsule["left_out"])


@pytest.mark.usefixtures("resolves_soon")
async def test_finding_is_published_although_no_capsule_can_be_written(start_hub, tmp_path, caplog):
    (tmp_path / "incidents").write_text("a file in its place")
    agent = AgentWithSteps(*frozen())
    hub_client = await start_hub(agent)
    await hub_client.passes(1)
    assert await poll(lambda: hub_client.health("incidents_unwritten"))
    await hub_client.passes(5)
    (active,) = await hub_client.findings()
    assert (active["cause"], active["capsule"]) == ("rank_frozen", None)
    agent.ranks = healthy()
    assert await poll(hub_client.no_findings, 8.0)
    assert sum("cannot write the capsule" in line for line in caplog.messages) == 1


async def test_quiet_hub_has_no_incident(start_hub):
    hub_client = await start_hub(AgentWithSteps(*healthy()))
    await hub_client.passes(5)
    assert (await hub_client.get("/api/v1/incidents"))["incidents"] == []


@pytest.mark.parametrize(
    ("severity", "detector", "expected"),
    [("critical", "coverage", True), ("warning", "straggler", True), ("warning", "hardware", True),
     ("warning", "stall", True), ("warning", "coverage", False), ("info", "stall", False)],
)  # fmt: skip
def test_criticals_and_some_warnings_get_a_capsule(severity, detector, expected):
    assert needs_capsule(finding(severity=severity, detector=detector)) is expected


async def test_many_jobs_that_stall_together_get_a_capsule_each(start_hub):
    ranks = [stopped(0, job_id=f"job-{n}", world_size=1, run_uid=f"u-{n}") for n in range(12)]
    hub_client = await start_hub(AgentWithSteps(*ranks))
    await incident(hub_client, 12)
