"""Tests of the tables of a capsule: ranks, hardware, and what is missing."""

from dataclasses import replace

from tests.build import finding, rank_state, words
from tests.hub.incidents.build import made, stalled
from zmon.schema.host import GpuSample, HostSample, HostWindow, NicSample, TcpSample


def nic(device="eth0", received=0, sent=0, errors=None):
    """Return the sample of an interface of 10 Gbit/s with these counters of bytes."""
    return NicSample(
        device, "tcp", up=True, speed_bytes_per_second=1.25e9, received_bytes=received, transmitted_bytes=sent,
        errors=errors or {},
    )  # fmt: skip


def gpu(**changes):
    """Return the sample of a busy GPU."""
    return replace(GpuSample("0", "GPU-1", utilization_ratio=1.0), **changes)


def window(before, now, host="node-a"):
    """Return the window of a host over a minute, from the fields of its first and its last sample."""
    return HostWindow(host, 60.0, HostSample(**before), HostSample(**now))


def test_row_of_a_rank_has_its_step_times():
    capsule, _ = made()
    culprit, waiting = capsule.ranks[2], capsule.ranks[0]
    assert (culprit.culprit, culprit.op, culprit.wait_seconds, culprit.process_state) == (True, None, None, "T")
    assert (waiting.culprit, waiting.op, waiting.sequence, waiting.wait_seconds) == (False, "all_to_all", 301, 1.0)
    assert (culprit.self_seconds, waiting.self_seconds, culprit.num_steps) == (0.02, 0.01, 3)


def test_long_last_words_are_cut():
    long = words("exception", "builtins.ValueError", "x" * 500)
    job = stalled()
    job = replace(job, ranks=tuple(replace(rank, last_words=long) if rank.rank == 2 else rank for rank in job.ranks))
    capsule, _ = made(job=job)
    assert capsule.ranks[2].last_words == f"builtins.ValueError: {'x' * 400}"
    assert capsule.ranks[0].last_words is None


def test_rank_is_unwatched_while_its_agent_does_not_answer():
    job = replace(stalled(), unwatched=(rank_state(3, host="node-b"),), ranks=stalled().ranks[:3])
    capsule, _ = made(job=job)
    assert [row.watched for row in capsule.ranks] == [True, True, True, False]
    assert "no agent answered for it at that time" in capsule.left_out[-1]
    assert "node-b" in capsule.left_out[-1]


def test_counters_of_a_host_are_shown_as_growth():
    idle = nic(errors={"rx_errors": 5, "same": 1})
    busy = nic(received=6000, sent=600, errors={"rx_errors": 8, "same": 1})
    well = gpu(ecc_errors={"volatile_uncorrected": 1})
    ill = gpu(ecc_errors={"volatile_uncorrected": 3}, xid_errors={79: 1}, throttled={"hw_thermal": True})
    before = {"nics": (idle,), "gpus": (well,), "tcp": TcpSample(100, ())}
    now = {"nics": (busy,), "gpus": (ill,), "tcp": TcpSample(130, ())}
    capsule, _ = made(job=replace(stalled(), hardware=(window(before, now),)))
    (host,) = capsule.hosts
    (interface,), (card,) = host.nics, host.gpus
    assert (interface.received_bytes_per_second, interface.transmitted_bytes_per_second) == (100.0, 10.0)
    assert interface.errors == {"rx_errors": 3}
    assert card.errors == {"volatile_uncorrected": 2, "xid_79": 1}
    assert card.throttled == ("hw_thermal",)
    assert host.retransmitted_segments == 30


def test_counter_that_fell_or_is_new_is_unknown_and_not_0():
    before, now = {"nics": (nic(received=9000),)}, {"nics": (nic(received=10), nic("eth1", received=5))}
    capsule, _ = made(job=replace(stalled(), hardware=(window(before, now),)))
    assert [interface.received_bytes_per_second for interface in capsule.hosts[0].nics] == [None, None]


def test_first_of_a_limited_number_of_hosts_is_that_of_the_culprit():
    windows = tuple(window({}, {}, f"node-{number:03}") for number in range(70))
    capsule, _ = made(finding(hosts=("node-069",)), replace(stalled(), hardware=windows))
    assert [host.host for host in capsule.hosts[:2]] == ["node-069", "node-000"]
    assert len(capsule.hosts) == 64
    assert "the hardware of 6 more hosts" in capsule.left_out
    capsule, _ = made(job=replace(stalled(), hardware=windows[:64]))
    assert not any("more hosts" in line for line in capsule.left_out)
