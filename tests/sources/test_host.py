"""Is the host short of CPU or memory?"""

from zmon.sources.host import HostSource


def test_load_is_this_hosts():
    load = HostSource().read().value
    assert 0 < load.memory_available_bytes <= load.memory_total_bytes
    assert load.swap_used_bytes >= 0
    assert load.cpu_seconds["user"] > 0
    assert load.cpu_seconds["idle"] > 0


def test_cpu_time_only_grows():
    source = HostSource()
    before, after = source.read().value.cpu_seconds, source.read().value.cpu_seconds
    assert all(after[mode] >= before[mode] for mode in before)
