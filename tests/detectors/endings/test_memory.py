"""Tests of ranks that the kernel killed for lack of memory: the finding names the source that shows the kill."""

from dataclasses import replace

import pytest

from tests.build import NOW, disconnected, killed, raised
from tests.detectors.stalls import detect, others
from zmon.schema.host import CgroupSample, HostLoad, HostSample, HostWindow, KernelEvent, KernelLog

GIB = 1 << 30
GROUP = CgroupSample(
    "/job", (("job", 2), ("job", 3)), memory_used_bytes=GIB, memory_limit_bytes=2 * GIB, cpu_limit_cores=None,
    throttled_seconds=None, oom_kills=0,
)  # fmt: skip
LOAD = HostLoad({}, memory_available_bytes=GIB, memory_total_bytes=8 * GIB, swap_used_bytes=0, oom_kills=4)
LOADER = "DataLoader worker (pid 77) is killed by signal: Killed."


def window(group_kills=0, host_kills=4, killed_pid=None, when=NOW - 2, host="node-a", group=GROUP):
    """Return a host after these numbers of kills (before: 0 and 4); the kernel's log has the kill of `killed_pid`."""
    text = f"Memory cgroup out of memory: Killed process {killed_pid} (python) total-vm:9kB, anon-rss:8kB"
    events = (KernelEvent(when, "oom", None, text),) if killed_pid else ()
    before = HostSample(cgroups=(group,), load=LOAD)
    now = HostSample(
        cgroups=(replace(group, oom_kills=group_kills),),
        load=replace(LOAD, oom_kills=host_kills),
        kernel=KernelLog({"oom": len(events)}, events),
    )
    return HostWindow(host, 60.0, before, now)


@pytest.mark.parametrize(
    ("victim", "hardware", "text"),
    [
        pytest.param(
            killed(2), window(killed_pid=1002, group_kills=1),
            "signal SIGKILL (out of memory, by the kernel's log: Memory cgroup out of memory: Killed process 1002",
            id="the log of the kernel"),
        pytest.param(
            killed(2), window(group_kills=1),
            "out of memory: the kernel killed 1 process in its control group /job (limit 2.00 GiB)",
            id="the counter of its group"),
        pytest.param(
            raised(2, message=LOADER), window(group_kills=1), f"{LOADER} (out of memory: the kernel killed 1 process",
            id="the counter of its group, after a loader was killed"),
        pytest.param(killed(2), window(host_kills=5), "probably out of memory", id="the counter of the host"),
    ],
)  # fmt: skip
def test_kill_is_out_of_memory_by_the_most_certain_source(victim, hardware, text):
    finding = detect(victim, *others(2, disconnected), hardware=[hardware])
    assert (finding.cause, finding.ranks) == ("rank_exited", (2,))
    assert text in finding.summary
    assert "more memory" in finding.detail
    assert "out of memory" in finding.evidence.out_of_memory


QUIET = {
    "nothing": (killed(2), None),
    "no kill": (killed(2), window()),
    "another host": (killed(2), window(host="node-b", group_kills=1, killed_pid=1002)),
    "another process": (killed(2), window(killed_pid=999)),
    "before this start": (killed(2), window(killed_pid=1002, when=NOW - 3600)),
    "another job": (killed(2), window(group_kills=1, group=replace(GROUP, ranks=(("other", 2),)))),
    "blind": (killed(2), HostWindow("node-a", 60.0, HostSample(), HostSample())),
    "just seen, so it may be from last week": (
        killed(2), HostWindow("node-a", 1.0, HostSample(), window(group_kills=7).now)),
    "the host counts a kill, and the rank raised": (raised(2), window(host_kills=5)),
}  # fmt: skip


@pytest.mark.parametrize(("victim", "hardware"), QUIET.values(), ids=QUIET)
def test_memory_is_not_mentioned_without_a_source(victim, hardware):
    finding = detect(victim, *others(2, disconnected), hardware=[hardware] if hardware else [])
    assert finding.evidence.out_of_memory is None
    assert "memory" not in finding.summary
