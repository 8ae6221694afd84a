"""Tests of the checks of the hub and its agents. A fault makes the check of its part inert."""

from dataclasses import replace

import aiohttp
import pytest
from msgspec import to_builtins

import zmon
from tests.doctor.scene import inert, serving, source
from tests.metrics.scene import JOB_VIEW
from zmon.doctor.cluster import ClusterView, ask, checks
from zmon.errors import NotServed, Unreachable
from zmon.schema.api import DetectorList, DetectorState, HubHealth, JobList
from zmon.schema.job_snapshot import AgentStatus

HUB = "http://hub:9781"
AGENT = AgentStatus(
    "http://node-a:9780", host="node-a", reachable=True, silent_seconds=0.0, version=zmon.__version__, leases=()
)
STALL = DetectorState("stall", {"job": None})


def hub_view(
    agents=(AGENT,), detectors=(STALL,), blind=False, version=zmon.__version__, unwritten=None, incidents=None, **more
):
    """Return the answers of a healthy hub, with these changes."""
    health = HubHealth(True, list(agents), unwritten, incidents, version, [], **more)
    return ClusterView(HUB, health, JobList([JOB_VIEW], blind), DetectorList(list(detectors)))


def agent(**changes):
    """Return a healthy agent with these changes."""
    return replace(AGENT, **changes)


async def read_hub(answers):
    """Return what doctor reads from a hub with these answers."""
    async with serving(answers) as url, aiohttp.ClientSession() as session:
        return await ask(session, url)


ANSWERS = {
    "/healthz": to_builtins(hub_view().health),
    "/api/v1/jobs": to_builtins(hub_view().job_list),
    "/api/v1/detectors": to_builtins(hub_view().detectors),
}


def test_healthy_hub_is_armed():
    results = checks(hub_view())
    assert all(check.armed for check in results)
    assert [check.name for check in results] == ["hub", "agents", "thresholds", "leases", "detector stall"]


def test_hub_that_reaches_no_agent_is_inert_with_the_reason_of_each():
    results = inert(checks(hub_view([agent(reachable=False, silent_seconds=12.4, error="refused")], blind=True)))
    assert results["hub"] == f"{HUB} reaches no agent"
    assert results["agent node-a"] == "has not answered the hub for 12 s: refused"


FAILING = DetectorState("straggler", {"a": None}, "ZeroDivisionError: division by zero")
NEVER = agent(url="http://node-b:9780", host=None, reachable=False, version=None)
GONE = Unreachable("cannot reach http://hub:9781")
FAULTS = {  # what the hub answers, the only check that is inert, and a part of its result
    "agent of another version": (hub_view([agent(version="0.0.9")]), "agent node-a", "runs zmon 0.0.9, but this is"),
    "agent that never answered": (hub_view([AGENT, NEVER]), "agent http://node-b:9780", "has not answered"),
    "hub of another version": (hub_view(version="0.0.9"), "hub version", "runs zmon 0.0.9, but this is"),
    "hub that does not answer": (ClusterView(HUB, GONE, GONE, GONE), "hub", str(GONE)),
    "hub that cannot write": (hub_view(unwritten="disk full"), "hub state", "disk full"),
    "hub without incidents": (hub_view(incidents="disk full"), "hub state, incidents", "disk full"),
    "part of the hub that fails": (hub_view(failed={"acts": "KeyError: 7"}), "hub, acts", "fails: KeyError: 7"),
    "detector that fails": (hub_view(detectors=[FAILING]), "detector straggler", "ZeroDivisionError"),
}


@pytest.mark.parametrize(("view", "name", "part"), FAULTS.values(), ids=FAULTS)
def test_fault_of_a_part_is_inert(view, name, part):
    results = inert(checks(view))
    assert list(results) == [name]
    assert part in results[name]


def test_agent_and_hub_without_a_version_are_not_inert():
    assert inert(checks(hub_view([agent(version=None)], version=None))) == {}


def test_healthy_agents_share_a_check():
    hundred = [agent(host=f"node-{number}") for number in range(100)]
    results = [check for check in checks(hub_view(hundred)) if check.name.startswith("agent")]
    assert [check.result for check in results] == [f"100 of 100 answer the hub, version {zmon.__version__}"]


def test_only_sources_that_are_down_are_inert():
    nic, gpu = source("nic", up=False, error="it hangs"), source("gpu", up=False, absent=True, error="no driver")
    assert inert(checks(hub_view([agent(sources=(nic, gpu))]))) == {"agent node-a": "has 1 source down: nic (it hangs)"}


def test_detector_without_input_names_its_jobs():
    straggler = DetectorState("straggler", {"a": "no step records", "b": None, "c": "no step records"})
    results = {c.name: c for c in checks(hub_view(detectors=[DetectorState("stall", {}), straggler]))}
    of_straggler = results["detector straggler"]
    assert (of_straggler.armed, of_straggler.result) == (None, "no step records (job a, c)")
    assert results["detector stall"].armed is None  # there is no job


async def test_answers_of_a_hub_are_read():
    view = await read_hub(ANSWERS)
    assert inert(checks(view)) == {}
    assert (view.jobs, view.hosts) == (["job"], ["node-a"])


async def test_unhealthy_hub_is_read_although_it_answers_503():
    health = to_builtins(hub_view([agent(reachable=False, error="refused")]).health)
    view = await read_hub(ANSWERS | {"/healthz": (503, health)})
    assert view.health.agents[0].error == "refused"


async def test_page_of_detectors_that_fails_is_inert_with_its_status():
    view = await read_hub(ANSWERS | {"/api/v1/detectors": 500})
    assert "500" in inert(checks(view))["detectors"]


async def test_older_hub_without_the_detectors_page_is_not_inert():
    view = await read_hub({path: answer for path, answer in ANSWERS.items() if path != "/api/v1/detectors"})
    assert isinstance(view.detectors, NotServed)
    (check,) = (c for c in checks(view) if c.name == "detectors")
    assert check.armed is None
    assert inert(checks(view)) == {}
