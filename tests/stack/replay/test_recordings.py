"""Tests that the hub finds the fault of every recording. A recording has reports of agents, and no finding."""

import time
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web

from tests.hub.fakes import hub_over, poll
from zmon.errors import UsageError
from zmon.stack.replay import FOLDER, LOOPBACK, SUFFIX, load, names
from zmon.stack.replay.agent import ReplayedAgent
from zmon.stack.replay.host import RecordedHost
from zmon.stack.replay.stack import HEALTHY_SECONDS

BEFORE_SECONDS = 3.0  # before the fault; the hub sees a job that trains
MAX_BYTES = 1 << 20  # of a recording, which is in the wheel
# The intervals of a hub. Its agents share its event loop here, so they have more time to answer on a busy machine.
PACE = {"interval_seconds": 1.0, "alert_interval_seconds": 0.25, "agent_timeout_seconds": 2.0}
# Name → cause, ranks and hosts of the finding, and the seconds from the fault within which it comes.
EXPECTED = {
    "frozen-rank": ("rank_frozen", [2], ["node-2"], 10.0),
    "dead-link": ("network_stall", [], ["node-2"], 25.0),
    "straggler": ("compute_straggler", [2], ["node-2"], 45.0),
    "lost-host": ("host_lost", [2], ["node-2"], 54.0),
}


class ServedAgent:
    """The agent of one host of a recording on a port of its own."""

    def __init__(self, agent):
        self._agent = agent
        self.url = ""

    @asynccontextmanager
    async def serve(self):
        """Serve HTTP at `url`."""
        runner = web.AppRunner(self._agent.app(), handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, 0).start()
        ((_, port),) = runner.addresses
        self.url = f"http://{LOOPBACK}:{port}"
        yield self
        await runner.cleanup()


def agents_of(name, before=BEFORE_SECONDS):
    """Return the agents of a recording whose fault comes in `before` seconds."""
    recording = load(name)
    begin = time.time() + before - recording.fault
    return [ServedAgent(ReplayedAgent(RecordedHost(recording, host), begin)) for host in recording.hosts]


def causes(findings):
    return {finding["cause"] for finding in findings}


def test_every_recording_is_expected_here():
    assert names() == sorted(EXPECTED)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "frozen-rank" else pytest.mark.slow) for name in EXPECTED]
)
async def test_hub_finds_cause_and_culprit(name, tmp_path):
    cause, ranks, hosts, seconds = EXPECTED[name]
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(agent.serve()) for agent in agents_of(name)]
        hub_client = await stack.enter_async_context(hub_over(tmp_path, *agents, **PACE))
        assert not await hub_client.findings()
        await poll(hub_client.findings, BEFORE_SECONDS + seconds, until=lambda findings: cause in causes(findings))
        findings = await hub_client.findings()
    (finding,) = (finding for finding in findings if finding["cause"] == cause)
    assert (finding["ranks"], finding["hosts"]) == (ranks, hosts)
    assert finding["job_id"] == f"recorded-{name}"
    assert causes(finding for finding in findings if finding["severity"] == "critical") <= {cause}


async def test_end_of_a_recording_that_is_repeated_gives_the_same_finding(tmp_path):
    """The end of the recording is played for the third time: the rank is frozen for longer than it was recorded."""
    recording = load("frozen-rank")
    seconds = 2.5 * (recording.ends - recording.repeats_from)
    async with AsyncExitStack() as stack:
        agents = agents_of("frozen-rank", recording.fault - recording.ends - seconds)
        agents = [await stack.enter_async_context(agent.serve()) for agent in agents]
        hub_client = await stack.enter_async_context(hub_over(tmp_path, *agents, **PACE))
        assert await poll(hub_client.findings, 10.0)
        (finding,) = await hub_client.findings()
    assert (finding["cause"], finding["ranks"], finding["severity"]) == ("rank_frozen", [2], "critical")
    assert finding["onset"] == pytest.approx(time.time() - seconds - recording.ends + recording.fault, abs=5)


@pytest.mark.parametrize("name", EXPECTED)
def test_recording_is_small_and_long_enough(name):
    assert (FOLDER / f"{name}{SUFFIX}").stat().st_size <= MAX_BYTES
    recording = load(name)
    assert recording.job_id == f"recorded-{name}"
    assert HEALTHY_SECONDS <= recording.fault < recording.repeats_from < recording.ends
    before_fault = [report for host in recording.hosts for report in host.reports if report.at < recording.fault]
    assert all(recorded.report is not None for recorded in before_fault)


@pytest.mark.parametrize("name", EXPECTED)
def test_recording_says_nothing_about_the_machine_that_made_it(name):
    text = repr(load(name))
    assert [folder for folder in ("/tmp/", "/root", "/home", "/process_api") if folder in text] == []


def test_unknown_name_is_refused_with_all_names():
    with pytest.raises(
        UsageError, match=f"there is no recording 'x'. The recordings are {', '.join(sorted(EXPECTED))}"
    ):
        load("x")
