"""The hub's end of the line to one agent: what it said last, and since when it is silent."""

from tests.build import agent_report, rank_state
from zmon.hub.agent_link import FORGET_SECONDS, AgentLink, working
from zmon.schema.host import CgroupSample, GpuSample, HostSample, NicSample, TcpSample


def silent(seconds):
    """A link whose agent answered once, and then not for so long."""
    link = AgentLink("http://node-a:9780")
    link.heard(agent_report(rank_state(0), cursor=7))
    link._heard -= seconds
    link.failed("Connection refused")
    return link


def test_agent_that_never_answered_is_nobody():
    status = AgentLink("http://node-a:9780").status()
    assert (status.host, status.reachable, status.sources) == (None, False, ())
    assert status.error


def test_agent_that_answers_is_not_silent():
    link = silent(30)
    link.heard(agent_report(rank_state(0), cursor=9))
    status = link.status()
    assert (status.host, status.reachable, status.silent_seconds, status.error) == ("node-a", True, 0.0, None)
    assert link.cursor == 9


def test_agent_that_falls_silent_is_remembered_with_its_ranks_and_its_cursor():
    link = silent(30)
    status = link.status()
    assert (status.host, status.reachable, status.error) == ("node-a", False, "Connection refused")
    assert 30 <= status.silent_seconds < 40
    assert [r.rank for r in link.report.ranks] == [0]
    assert link.cursor == 7


def test_suspicions_of_an_agent_that_falls_silent_do_not_keep_the_hub_awake():
    link = silent(0)
    link.suspects = ({"rank": 0},)
    link.failed("Connection refused")
    assert link.suspects == ()


def test_agent_that_is_silent_for_an_hour_is_forgotten():
    assert silent(FORGET_SECONDS - 60).report is not None
    assert silent(FORGET_SECONDS + 1).report is None


def seen(monkeypatch, *seconds):
    """A link whose agent answered at these moments, each time with another count of the eth0 of its host."""
    link = AgentLink("http://node-a:9780")
    for second in seconds:
        monkeypatch.setattr("zmon.hub.agent_link.time.monotonic", lambda second=second: float(second))
        nic = NicSample("eth0", "tcp", True, None, second, 0, {})
        link.heard(agent_report(rank_state(0), sample=HostSample(nics=(nic,))))
    return link


def test_hardware_is_compared_with_what_it_was_about_a_minute_ago(monkeypatch):
    window = seen(monkeypatch, *range(0, 202, 2)).window()
    assert (window.host, window.now.nics[0].received_bytes) == ("node-a", 200)
    assert 60 <= window.seconds <= 70
    assert window.before.nics[0].received_bytes == 200 - window.seconds


def test_connections_are_compared_also_with_what_they_were_some_seconds_ago(monkeypatch):
    link = AgentLink("http://node-a:9780")
    for tenth in range(0, 101, 3):
        monkeypatch.setattr("zmon.hub.agent_link.time.monotonic", lambda tenth=tenth: tenth / 10)
        link.heard(agent_report(rank_state(0), sample=HostSample(tcp=TcpSample(tenth, ()))))
    assert 40 <= 99 - link.window().recent.retransmitted_segments <= 50


def test_hardware_just_seen_for_the_first_time_has_done_nothing_yet(monkeypatch):
    window = seen(monkeypatch, 5).window()
    assert (window.seconds, window.before) == (0.0, window.now)


def test_control_group_is_compared_with_when_it_was_first_seen(monkeypatch):
    """A rank that runs out of memory soon after its start: its group was not there a minute ago."""
    link = AgentLink("http://node-a:9780")
    for second in range(0, 40, 5):
        monkeypatch.setattr("zmon.hub.agent_link.time.monotonic", lambda second=second: float(second))
        group = CgroupSample("/job", (), None, None, None, None, second)
        link.heard(agent_report(sample=HostSample(cgroups=(group,) if second >= 20 else ())))
    assert [group.oom_kills for group in link.window().before.cgroups] == [20]


def test_hardware_of_a_silent_agent_is_not_known():
    assert silent(3).window() is None
    assert AgentLink("http://node-a:9780").window() is None


def test_hardware_is_not_compared_across_a_long_silence_or_with_another_host(monkeypatch):
    """It may have been started again meanwhile, with links that flap and counters that begin anew."""
    window = seen(monkeypatch, 0, 10, 200).window()
    assert (window.seconds, window.before.nics) == (0.0, window.now.nics)
    link = seen(monkeypatch, 0, 10)
    link.heard(agent_report(rank_state(0), host="node-b", sample=HostSample()))
    assert (link.window().host, link.window().before) == ("node-b", HostSample())


def test_devices_that_worked_are_remembered(monkeypatch):
    link = seen(monkeypatch, *range(0, 300, 10))
    down = HostSample(
        nics=(NicSample("eth0", "tcp", False, None, 0, 0, {}),), gpus=(GpuSample("0", "GPU-a", lost=True),)
    )
    link.heard(agent_report(rank_state(0), sample=down))
    assert link.window().worked == {"eth0"}
    assert working(HostSample(gpus=(GpuSample("0", "GPU-a"),))) == {"GPU-a"}
