"""Tests of the load of the host: CPU time, memory, tasks, faults and pressure."""

import pytest

from zmon.agent.sources.host import MODES, TICKS_PER_SECOND, HostSource
from zmon.errors import SourceUnavailable

STAT = """\
cpu  1000 20 300 40000 50 6 70 8 9 1
cpu0 500 10 150 20000 25 3 35 4 5 0
intr 18129645 0 0 0
ctxt 63533200
btime 1795246605
processes 153035
procs_running 3
procs_blocked 2
softirq 36785986 0 1526116
"""
MEMINFO = """\
MemTotal:       2000 kB
MemFree:         500 kB
MemAvailable:   1500 kB
SwapCached:        7 kB
SwapTotal:       100 kB
SwapFree:         60 kB
HugePages_Total:   0
"""
VMSTAT = "nr_free_pages 2903603\npgfault 417129104\npgmajfault 42051\noom_kill 4\noom_kill_local 9\n"
PRESSURE = """\
some avg10=2.47 avg60=1.22 avg300=7.51 total=5987880
full avg10=0.00 avg60=0.00 avg300=0.00 total=1500000
"""
FILES = {
    "stat": STAT,
    "meminfo": MEMINFO,
    "vmstat": VMSTAT,
    "pressure/cpu": PRESSURE.replace("1500000", "0"),
    "pressure/memory": PRESSURE,
    "pressure/io": PRESSURE,
}


@pytest.fixture
def make_source(tmp_path):
    """Make a source over a fake /proc; a file whose content is None exists but cannot be read."""

    def make(without=(), **files):
        for name, content in (FILES | files).items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            if name in without:
                continue
            if content is None:
                path.mkdir()
            else:
                path.write_text(content)
        return HostSource(tmp_path)

    return make


def test_host_shows_time_of_its_processors_by_mode(make_source):
    seconds = make_source().read().value.cpu_seconds
    assert tuple(seconds) == MODES
    assert seconds["user"] == 1000 / TICKS_PER_SECOND
    assert seconds["guest_nice"] == 1 / TICKS_PER_SECOND


def test_host_shows_memory_and_swap(make_source):
    load = make_source().read().value
    assert (load.memory_total_bytes, load.memory_available_bytes) == (2_048_000, 1_536_000)
    assert load.swap_used_bytes == 40 * 1024


def test_host_shows_running_and_blocked_tasks_faults_and_kills(make_source):
    load = make_source().read().value
    assert (load.runnable, load.blocked, load.major_faults, load.oom_kills) == (3, 2, 42051, 4)


def test_pressure_is_seconds_since_boot(make_source):
    load = make_source().read().value
    assert load.pressure_seconds == {"cpu": 5.98788, "memory": 5.98788, "io": 5.98788}
    assert load.full_pressure_seconds == {"memory": 1.5, "io": 1.5}


def test_full_pressure_of_the_cpu_is_left_out(make_source):
    assert "cpu" not in make_source().read().value.full_pressure_seconds


@pytest.mark.parametrize("content", [None, "", "some avg10=nan\n"])
def test_kernel_without_pressure_is_unknown_but_not_dropped(make_source, content):
    reading = make_source(**{f"pressure/{resource}": content for resource in ("cpu", "memory", "io")}).read()
    assert (reading.value.pressure_seconds, reading.value.full_pressure_seconds) == ({}, {})
    assert reading.dropped == ()


def test_kernel_without_full_pressure_lines_has_no_full_pressure(make_source):
    """The pressure of the cpu has no `full` line before Linux 5.13."""
    load = make_source(**{"pressure/io": PRESSURE.splitlines()[0] + "\n"}).read().value
    assert "io" in load.pressure_seconds
    assert "io" not in load.full_pressure_seconds


def test_older_kernel_with_fewer_cpu_modes_is_read(make_source):
    assert list(make_source(stat="cpu  1 2 3 4 5 6 7\n").read().value.cpu_seconds) == list(MODES[:7])


def test_counter_missing_in_the_kernel_is_unknown_but_not_dropped(make_source):
    reading = make_source(without=("vmstat",), stat=STAT.replace("procs_blocked 2\n", "")).read()
    assert (reading.value.major_faults, reading.value.oom_kills, reading.value.blocked) == (None, None, None)
    assert reading.dropped == ()


@pytest.mark.parametrize("stat", [None, "", "cpu  many\n"])
def test_unreadable_cpu_time_is_reported_and_the_memory_is_still_read(make_source, stat):
    reading = make_source(stat=stat).read()
    assert reading.value.cpu_seconds == {}
    assert reading.value.memory_total_bytes == 2_048_000
    assert len(reading.dropped) == 1
    assert "stat" in reading.dropped[0]


def test_missing_memory_is_an_error_and_not_zero(make_source):
    with pytest.raises(ValueError, match="MemAvailable"):
        make_source(meminfo="MemTotal: 1 kB\n").read()


def test_host_without_proc_reports_the_source_as_absent(tmp_path):
    with pytest.raises(SourceUnavailable, match="mount /proc"):
        HostSource(tmp_path / "none").read()


def test_load_of_this_machine_is_plausible():
    load = HostSource().read().value
    assert 0 < load.memory_available_bytes <= load.memory_total_bytes
    assert load.swap_used_bytes >= 0
    assert load.cpu_seconds["user"] > 0
    assert load.cpu_seconds["idle"] > 0
    assert load.runnable >= 1  # this test runs


def test_cpu_time_of_this_machine_only_grows():
    source = HostSource()
    before, after = source.read().value.cpu_seconds, source.read().value.cpu_seconds
    assert all(after[mode] >= before[mode] for mode in before if mode not in ("idle", "iowait"))
