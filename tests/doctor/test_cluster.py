"""The hub and whom it sees; each thing that would leave a job unwatched, by name."""

import asyncio
from dataclasses import replace

import aiohttp
import msgspec

import zmon
from tests.doctor.scene import inert, serving
from tests.metrics.scene import JOB_VIEW
from zmon.doctor.cluster import ClusterView, ask, checks
from zmon.errors import NotServed, Unreachable
from zmon.schema.agent import AgentStatus
from zmon.schema.api import DetectorList, DetectorState, HubHealth, JobList
from zmon.schema.host import SourceStatus

HUB = "http://hub:9781"
AGENT = AgentStatus("http://node-a:9780", "node-a", True, 0.0, version=zmon.__version__, leases=())
STALL = DetectorState("stall", {"job": None})


def seen(agents=(AGENT,), detectors=(STALL,), blind=False, version=zmon.__version__, unwritten=None):
    """What a hub says that is well."""
    return ClusterView(
        HUB,
        HubHealth(True, list(agents), unwritten, None, version, []),
        JobList([JOB_VIEW], blind),
        DetectorList(list(detectors)),
    )


def agent(**changes):
    """An agent that is well but for that."""
    return replace(AGENT, **changes)


def asked(answers):
    """What doctor reads of a hub that answers so."""

    async def main():
        async with serving(answers) as url, aiohttp.ClientSession() as session:
            return await ask(session, url)

    return asyncio.run(main())


def plain(value):
    return msgspec.json.decode(msgspec.json.encode(value))


ANSWERS = {
    "/healthz": plain(seen().health),
    "/api/v1/jobs": plain(seen().told),
    "/api/v1/detectors": plain(seen().detectors),
}


def test_hub_that_is_well_is_armed():
    found = checks(seen())
    assert all(check.armed for check in found)
    assert [check.name for check in found] == ["hub", "agents", "thresholds", "leases", "detector stall"]


def test_hub_that_does_not_answer_is_inert_and_asked_nothing_more():
    gone = Unreachable("cannot reach http://hub:9781")
    assert inert(checks(ClusterView(HUB, gone, gone, gone))) == {"hub": str(gone)}


def test_hub_that_reaches_no_agent_is_inert_and_its_agents_say_why():
    found = inert(checks(seen([agent(reachable=False, silent_seconds=12.4, error="refused")], blind=True)))
    assert found["hub"] == f"{HUB} reaches no agent"
    assert found["agent node-a"] == "has not answered the hub for 12 s: refused"


def test_agent_that_never_answered_goes_by_its_address():
    found = inert(checks(seen([AGENT, agent(url="http://node-b:9780", host=None, reachable=False, version=None)])))
    assert list(found) == ["agent http://node-b:9780"]


def test_agents_that_are_well_take_one_line():
    hundred = [agent(host=f"node-{number}") for number in range(100)]
    found = [check for check in checks(seen(hundred)) if check.name.startswith("agent")]
    assert [check.found for check in found] == [f"100 of 100 answer the hub, version {zmon.__version__}"]


def test_agent_of_another_version_is_inert():
    assert "is zmon 0.0.9, and this is" in inert(checks(seen([agent(version="0.0.9")])))["agent node-a"]


def test_hub_of_another_version_is_inert():
    assert "is zmon 0.0.9, and this is" in inert(checks(seen(version="0.0.9")))["hub version"]


def test_agent_and_hub_that_do_not_say_their_version_are_not_accused():
    assert inert(checks(seen([agent(version=None)], version=None))) == {}


def test_sources_that_are_down_on_a_node_are_named_and_absent_ones_are_not():
    nic = SourceStatus("nic", False, False, 5.0, 1.0, 3, "it hangs")
    gpu = SourceStatus("gpu", False, True, 0.1, None, 0, "no driver")
    assert inert(checks(seen([agent(sources=(nic, gpu))]))) == {"agent node-a": "1 source down: nic (it hangs)"}


def test_hub_that_cannot_write_its_findings_is_inert():
    assert "disk full" in inert(checks(seen(unwritten="disk full")))["hub state"]


def test_detector_that_lacks_its_input_says_of_which_job():
    straggler = DetectorState("straggler", {"a": "no step records", "b": None, "c": "no step records"})
    found = checks(seen(detectors=[STALL, straggler]))
    (told,) = [check for check in found if check.name == "detector straggler"]
    assert (told.armed, told.found) == (None, "no step records (job a, c)")


def test_detector_that_fails_is_inert():
    failing = DetectorState("straggler", {"a": None}, "ZeroDivisionError: division by zero")
    assert "ZeroDivisionError" in inert(checks(seen(detectors=[failing])))["detector straggler"]


def test_detector_without_a_job_is_neither():
    (check,) = (c for c in checks(seen(detectors=[DetectorState("stall", {})])) if c.name == "detector stall")
    assert check.armed is None


def test_hub_is_read():
    found = asked(ANSWERS)
    assert inert(checks(found)) == {}
    assert (found.jobs, found.hosts) == (["job"], ["node-a"])


def test_hub_that_does_badly_is_read_too():
    """It answers 503 with the same body; what ails it is in there."""
    ill = plain(seen([agent(reachable=False, error="refused")]).health)
    found = asked(ANSWERS | {"/healthz": (503, ill)})
    assert found.health.agents[0].error == "refused"


def test_hub_without_the_pages_of_this_version_is_read_as_far_as_it_goes():
    found = asked({path: answer for path, answer in ANSWERS.items() if path != "/api/v1/detectors"})
    assert isinstance(found.detectors, NotServed)
    (check,) = (c for c in checks(found) if c.name == "detectors")
    assert check.armed is None
    assert inert(checks(found)) == {}


def test_hub_whose_detectors_do_not_answer_is_inert():
    assert "500" in inert(checks(asked(ANSWERS | {"/api/v1/detectors": 500})))["detectors"]
