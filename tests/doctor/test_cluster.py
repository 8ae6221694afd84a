"""Tests of the checks of the hub and its agents. A fault makes the check of its part inert."""

import asyncio
from dataclasses import replace

import aiohttp
import msgspec

import zmon
from tests.doctor.scene import inert, serving
from tests.metrics.scene import JOB_VIEW
from zmon.doctor.cluster import ClusterView, ask, checks
from zmon.errors import NotServed, Unreachable
from zmon.schema.api import DetectorList, DetectorState, HubHealth, JobList
from zmon.schema.host import SourceStatus
from zmon.schema.job_snapshot import AgentStatus

HUB = "http://hub:9781"
AGENT = AgentStatus("http://node-a:9780", "node-a", True, 0.0, version=zmon.__version__, leases=())
STALL = DetectorState("stall", {"job": None})


def hub_view(agents=(AGENT,), detectors=(STALL,), blind=False, version=zmon.__version__, unwritten=None):
    """Return the answers of a healthy hub, with these changes."""
    return ClusterView(
        HUB,
        HubHealth(True, list(agents), unwritten, None, version, []),
        JobList([JOB_VIEW], blind),
        DetectorList(list(detectors)),
    )


def agent(**changes):
    """Return a healthy agent with these changes."""
    return replace(AGENT, **changes)


def read_hub(answers):
    """Return what doctor reads from a hub with these answers."""

    async def main():
        async with serving(answers) as url, aiohttp.ClientSession() as session:
            return await ask(session, url)

    return asyncio.run(main())


def plain(value):
    return msgspec.json.decode(msgspec.json.encode(value))


ANSWERS = {
    "/healthz": plain(hub_view().health),
    "/api/v1/jobs": plain(hub_view().job_list),
    "/api/v1/detectors": plain(hub_view().detectors),
}


def test_healthy_hub_is_armed():
    results = checks(hub_view())
    assert all(check.armed for check in results)
    assert [check.name for check in results] == ["hub", "agents", "thresholds", "leases", "detector stall"]


def test_hub_that_does_not_answer_is_the_only_inert_check():
    gone = Unreachable("cannot reach http://hub:9781")
    assert inert(checks(ClusterView(HUB, gone, gone, gone))) == {"hub": str(gone)}


def test_hub_that_reaches_no_agent_is_inert_with_the_reason_of_each():
    results = inert(checks(hub_view([agent(reachable=False, silent_seconds=12.4, error="refused")], blind=True)))
    assert results["hub"] == f"{HUB} reaches no agent"
    assert results["agent node-a"] == "has not answered the hub for 12 s: refused"


def test_agent_that_never_answered_is_named_by_its_url():
    results = inert(
        checks(hub_view([AGENT, agent(url="http://node-b:9780", host=None, reachable=False, version=None)]))
    )
    assert list(results) == ["agent http://node-b:9780"]


def test_healthy_agents_share_a_check():
    hundred = [agent(host=f"node-{number}") for number in range(100)]
    results = [check for check in checks(hub_view(hundred)) if check.name.startswith("agent")]
    assert [check.result for check in results] == [f"100 of 100 answer the hub, version {zmon.__version__}"]


def test_agent_of_another_version_is_inert():
    assert "runs zmon 0.0.9, but this is" in inert(checks(hub_view([agent(version="0.0.9")])))["agent node-a"]


def test_hub_of_another_version_is_inert():
    assert "runs zmon 0.0.9, but this is" in inert(checks(hub_view(version="0.0.9")))["hub version"]


def test_agent_and_hub_without_a_version_are_not_inert():
    assert inert(checks(hub_view([agent(version=None)], version=None))) == {}


def test_down_sources_are_inert_and_absent_ones_are_not():
    nic = SourceStatus("nic", False, False, 5.0, 1.0, 3, "it hangs")
    gpu = SourceStatus("gpu", False, True, 0.1, None, 0, "no driver")
    assert inert(checks(hub_view([agent(sources=(nic, gpu))]))) == {"agent node-a": "has 1 source down: nic (it hangs)"}


def test_hub_that_cannot_write_its_findings_is_inert():
    assert "disk full" in inert(checks(hub_view(unwritten="disk full")))["hub state"]


def test_detector_without_input_names_the_job_and_the_reason():
    straggler = DetectorState("straggler", {"a": "no step records", "b": None, "c": "no step records"})
    results = checks(hub_view(detectors=[STALL, straggler]))
    (straggler_check,) = [check for check in results if check.name == "detector straggler"]
    assert (straggler_check.armed, straggler_check.result) == (None, "no step records (job a, c)")


def test_detector_that_fails_is_inert():
    failing = DetectorState("straggler", {"a": None}, "ZeroDivisionError: division by zero")
    assert "ZeroDivisionError" in inert(checks(hub_view(detectors=[failing])))["detector straggler"]


def test_detector_without_a_job_is_absent():
    (check,) = (c for c in checks(hub_view(detectors=[DetectorState("stall", {})])) if c.name == "detector stall")
    assert check.armed is None


def test_answers_of_a_hub_are_read():
    view = read_hub(ANSWERS)
    assert inert(checks(view)) == {}
    assert (view.jobs, view.hosts) == (["job"], ["node-a"])


def test_answer_503_of_a_hub_is_read():
    """A 503 has the same body as a 200, including the reason."""
    ill = plain(hub_view([agent(reachable=False, error="refused")]).health)
    view = read_hub(ANSWERS | {"/healthz": (503, ill)})
    assert view.health.agents[0].error == "refused"


def test_older_hub_without_the_detectors_page_is_not_inert():
    view = read_hub({path: answer for path, answer in ANSWERS.items() if path != "/api/v1/detectors"})
    assert isinstance(view.detectors, NotServed)
    (check,) = (c for c in checks(view) if c.name == "detectors")
    assert check.armed is None
    assert inert(checks(view)) == {}


def test_hub_whose_detectors_do_not_answer_is_inert():
    assert "500" in inert(checks(read_hub(ANSWERS | {"/api/v1/detectors": 500})))["detectors"]
