"""Tests of the link to one agent: its last report, its silence, and the hardware samples that are compared."""

from types import SimpleNamespace

import pytest

from tests.build import agent_report, dead, killed, rank_state
from zmon.hub.agent_link import FORGET_SECONDS, RESTART_SECONDS, AgentLink, links_of, working_devices
from zmon.job.restarts import seconds_since_start
from zmon.schema.host import CgroupSample, GpuSample, HostSample, NicSample, TcpSample


def answering(*ranks, name="node-a", **changes):
    """Return a link whose agent has just answered with these ranks."""
    link = AgentLink(f"http://{name}:9780")
    link.record_report(agent_report(*ranks, **changes))
    return link


def silent(seconds):
    """Return a link whose agent answered once and has been silent for `seconds`."""
    link = answering(rank_state(0), cursor=7)
    link._answered_at -= seconds
    link.record_failure("Connection refused")
    return link


def test_agent_that_never_answered_has_no_host():
    status = AgentLink("http://node-a:9780").status()
    assert (status.host, status.reachable, status.sources) == (None, False, ())
    assert status.error


def test_silent_seconds_are_zero_after_an_answer():
    link = silent(30)
    link.record_report(agent_report(rank_state(0), cursor=9))
    status = link.status()
    assert (status.host, status.reachable, status.silent_seconds, status.error) == ("node-a", True, 0.0, None)
    assert link.cursor == 9


def test_report_and_cursor_stay_after_a_failure():
    link = silent(30)
    status = link.status()
    assert (status.host, status.reachable, status.error) == ("node-a", False, "Connection refused")
    assert 30 <= status.silent_seconds < 40
    assert [r.rank for r in link.report.ranks] == [0]
    assert link.cursor == 7


def test_ranks_of_a_silent_agent_grow_older():
    """A launch that began meanwhile on other hosts is younger, and so the newest."""
    link = silent(30)
    assert 30 <= seconds_since_start(link.silent_report().ranks[0]) - seconds_since_start(rank_state(0)) < 40
    link.record_report(agent_report(rank_state(0)))
    assert link.silent_report() is None


def test_host_that_refuses_the_connection_is_up_until_the_agent_answers_or_the_host_is_silent():
    link = silent(30)
    assert not link.status().host_is_up
    link.record_failure("Connection refused", host_is_up=True)
    assert link.status().host_is_up
    link.record_failure("no answer within 2 s")
    assert not link.status().host_is_up
    link.record_failure("Connection refused", host_is_up=True)
    link.record_report(agent_report(rank_state(0), cursor=9))
    assert not link.status().host_is_up


def test_agent_that_said_that_it_ends_restarts_for_two_minutes():
    link = answering(rank_state(0))
    link.record_suspects((), leaving=True)
    assert not link.status().is_restarting  # it still answers
    link.record_failure("Connection refused")
    assert link.status().is_restarting
    link._restarts_until -= RESTART_SECONDS
    assert not link.status().is_restarting
    for leaving in (True, False):
        link.record_suspects((), leaving=leaving)
    link.record_failure("no answer within 2 s")
    assert not link.status().is_restarting  # the silence comes after the restart


def test_agent_that_is_no_target_is_forgotten_once_none_of_its_ranks_may_live():
    living, ended = answering(rank_state(0), killed(1)), answering(killed(0), name="node-b")
    links = (living, ended, AgentLink("http://node-c:9780"))  # the last one has never answered
    assert [link.may_be_forgotten for link in links] == [False, False, False]
    for link in links:
        link.withdraw()
    assert [link.may_be_forgotten for link in links] == [False, True, True]
    living._answered_at -= FORGET_SECONDS + 1
    assert living.may_be_forgotten
    living.restore()
    assert not living.may_be_forgotten


def test_nothing_of_the_present_is_known_while_an_agent_does_not_answer():
    link = silent(3)
    link.suspects = ({"rank": 0},)
    link.record_failure("Connection refused")
    assert (link.suspects, link.present_report(), link.window()) == ((), None, None)
    assert not link.status().is_restarting  # it did not say so
    assert AgentLink("http://node-a:9780").window() is None


def test_report_is_forgotten_after_an_hour_without_answers():
    assert silent(FORGET_SECONDS - 60).report is not None
    assert silent(FORGET_SECONDS + 1).report is None


@pytest.fixture
def clock(monkeypatch):
    """The hub's monotonic clock, whose `now` a test sets."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("zmon.hub.agent_link.time.monotonic", lambda: clock.now)
    return clock


def test_ages_in_a_late_report_are_as_of_the_present(clock):
    """An agent that reports 0.8 s late sees the same death as long ago as an agent in time."""
    link = answering(rank_state(0), monotonic=5000.0)
    clock.now = 102.8
    link.record_report(agent_report(dead(0, 1.0), monotonic=5002.0))
    clock.now = 103.0
    (state,) = link.present_report().ranks
    assert state.gone_seconds == pytest.approx(2.0)


def eth0(received_bytes=0, up=True):
    """Return the sample of an interface."""
    return NicSample(
        "eth0", "tcp", up, speed_bytes_per_second=None, received_bytes=received_bytes, transmitted_bytes=0, errors={}
    )  # fmt: skip


def link_after(clock, *seconds, sample=None):
    """Return a link whose agent answered at these times, by default each time with another counter of eth0."""
    link = AgentLink("http://node-a:9780")
    for second in seconds:
        clock.now = float(second)
        host = sample(second) if sample else HostSample(nics=(eth0(received_bytes=second),))
        link.record_report(agent_report(rank_state(0), sample=host))
    return link


def test_hardware_is_compared_with_a_minute_ago(clock):
    window = link_after(clock, *range(0, 202, 2)).window()
    assert (window.host, window.now.nics[0].received_bytes) == ("node-a", 200)
    assert 60 <= window.seconds <= 70
    assert window.before.nics[0].received_bytes == 200 - window.seconds
    first = link_after(clock, 5).window()
    assert (first.seconds, first.before) == (0.0, first.now)


def test_connections_are_also_compared_with_some_seconds_ago(clock):
    tenths = (tenth / 10 for tenth in range(0, 101, 3))  # of a second; ten more segments are retransmitted each second
    link = link_after(clock, *tenths, sample=lambda second: HostSample(tcp=TcpSample(round(10 * second), ())))
    assert 40 <= 99 - link.window().recent.retransmitted_segments <= 50


def test_cgroup_is_compared_with_its_first_sample(clock):
    """A rank may run out of memory soon after its start, when its cgroup is less than a minute old."""

    def sample(second):
        group = CgroupSample(
            "/job", ranks=(), memory_used_bytes=None, memory_limit_bytes=None, cpu_limit_cores=None,
            throttled_seconds=None, oom_kills=second,
        )  # fmt: skip
        return HostSample(cgroups=(group,) if second >= 20 else ())

    link = link_after(clock, *range(0, 40, 5), sample=sample)
    assert [group.oom_kills for group in link.window().before.cgroups] == [20]


def test_hardware_is_not_compared_after_a_gap_or_with_another_host(clock):
    """The host may have rebooted in between, which resets counters and takes links down and up."""
    window = link_after(clock, 0, 10, 200).window()
    assert (window.seconds, window.before.nics) == (0.0, window.now.nics)
    link = link_after(clock, 0, 10)
    link.record_report(agent_report(rank_state(0), host="node-b", sample=HostSample()))
    assert (link.window().host, link.window().before) == ("node-b", HostSample())


def test_devices_that_were_up_are_remembered(clock):
    link = link_after(clock, *range(0, 300, 10))
    lost = HostSample(nics=(eth0(up=False),), gpus=(GpuSample("0", "GPU-a", lost=True),))
    link.record_report(agent_report(rank_state(0), sample=lost))
    assert link.window().worked == {"eth0"}
    assert working_devices(HostSample(gpus=(GpuSample("0", "GPU-a"),))) == {"GPU-a"}


def test_end_of_a_rank_stays_known_after_its_agent_was_restarted(clock):
    link = answering(killed(0, 1.0))
    link.record_failure("Connection refused")
    clock.now = 110.0
    link.record_report(agent_report(dead(0, 60.0, watched=False)))
    (state,) = link.report.ranks
    assert (state.exit_status, state.gone_seconds) == ("signal SIGKILL", 11.0)


def test_end_of_a_rank_is_not_taken_from_another_host():
    link = answering(killed(0, 1.0))
    link.record_report(agent_report(dead(0, 60.0, watched=False), host="node-b"))
    assert link.report.ranks[0].exit_status is None


def test_ranks_are_looked_up_by_what_identifies_them():
    """Two agents may have one host name, and the hub may show a job under another id than its agent."""
    gone, first, other = silent(30), answering(rank_state(0), rank_state(1)), answering(rank_state(2, job_id="ads"))
    shown = [rank_state(rank, job_id="shown") for rank in (0, 2, 3)]
    assert links_of([first, other, gone], shown) == {"uid-0": (first, "job"), "uid-2": (other, "ads")}
