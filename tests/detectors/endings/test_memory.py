"""Tests of ranks that the kernel killed for lack of memory: the finding names the source that shows the kill."""

from dataclasses import replace

import pytest

from tests.build import NOW, disconnected, killed, raised, snapshot
from zmon.detectors.stall import Stall
from zmon.schema.host import CgroupSample, HostLoad, HostSample, HostWindow, KernelEvent, KernelLog

GROUP = CgroupSample("/job", (("job", 2), ("job", 3)), 1 << 30, 2 << 30, None, None, 0)
LOAD = HostLoad({}, 1 << 30, 8 << 30, 0, oom_kills=4)


def window(group_kills=0, host_kills=4, killed_pid=None, when=NOW - 2, host="node-a", group=GROUP):
    text = f"Memory cgroup out of memory: Killed process {killed_pid} (python) total-vm:9kB, anon-rss:8kB"
    events = (KernelEvent(when, "oom", None, text),) if killed_pid else ()
    before = HostSample(cgroups=(group,), load=LOAD)
    now = HostSample(
        cgroups=(replace(group, oom_kills=group_kills),),
        load=replace(LOAD, oom_kills=host_kills),
        kernel=KernelLog({"oom": len(events)}, events),
    )
    return HostWindow(host, 60.0, before, now)


def detect(victim, *windows):
    ranks = [victim, *(disconnected(rank) for rank in range(4) if rank != victim.rank)]
    (finding,) = Stall().detect(snapshot(*ranks, hardware=windows))
    assert (finding.cause, finding.ranks) == ("rank_exited", (victim.rank,))
    return finding


def test_kill_in_the_kernel_log_is_reported_as_out_of_memory():
    finding = detect(killed(2), window(killed_pid=1002, group_kills=1))
    assert "signal SIGKILL (out of memory, by the kernel's log: Memory cgroup out of memory: Killed" in finding.summary
    assert "more memory" in finding.detail
    assert finding.evidence.out_of_memory.startswith("out of memory, by the kernel's log")


def test_kill_that_the_control_group_counts_is_out_of_memory():
    assert "the kernel killed 1 processes in its control group /job (limit 2.00 GiB)" in (
        detect(killed(2), window(group_kills=1)).summary
    )


def test_exception_of_a_killed_loader_is_reported_as_out_of_memory():
    finding = detect(
        raised(2, message="DataLoader worker (pid 77) is killed by signal: Killed."), window(group_kills=1)
    )
    assert "DataLoader worker" in finding.summary
    assert "out of memory: the kernel killed 1 processes" in finding.summary


def test_kill_that_only_the_host_counts_is_probably_out_of_memory():
    assert "probably out of memory" in detect(killed(2), window(host_kills=5)).summary


@pytest.mark.parametrize(
    "windows",
    [
        (),
        (window(),),
        (window(host="node-b", group_kills=1, killed_pid=1002),),
        (window(killed_pid=999),),
        (window(killed_pid=1002, when=NOW - 3600),),  # a PID from before this start
        (window(group_kills=1, group=replace(GROUP, ranks=(("other", 2),))),),
        (HostWindow("node-a", 60.0, HostSample(), HostSample()),),
        (HostWindow("node-a", 1.0, HostSample(), window(group_kills=7).now),),  # it may be from last week
    ],
    ids=["nothing", "no kill", "another host", "another process", "long ago", "another job", "blind", "just seen"],
)
def test_memory_is_not_mentioned_without_a_source(windows):
    finding = detect(killed(2), *windows)
    assert finding.evidence.out_of_memory is None
    assert "memory" not in finding.summary


def test_kill_count_of_the_host_does_not_explain_an_exception():
    assert "memory" not in detect(raised(2), window(host_kills=5)).summary
