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
    """Return a function that makes a source over a fake /proc; a file with the content None cannot be read."""

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


NO_PRESSURE = {"pressure_seconds": {}, "full_pressure_seconds": {}}
SOME = PRESSURE.splitlines()[0] + "\n"
SHOWN = {  # other files in /proc, and files that are missing → fields of the load
    "memory and swap": (
        {}, (), {"memory_total_bytes": 2_048_000, "memory_available_bytes": 1_536_000, "swap_used_bytes": 40 * 1024}
    ),
    "tasks, faults and kills": ({}, (), {"runnable": 3, "blocked": 2, "major_faults": 42051, "oom_kills": 4}),
    # The full pressure of the cpu means nothing, and its line is new in Linux 5.13.
    "pressure in seconds since boot": (
        {}, (),
        {"pressure_seconds": {"cpu": 5.98788, "memory": 5.98788, "io": 5.98788},
         "full_pressure_seconds": {"memory": 1.5, "io": 1.5}},
    ),
    **{
        f"no pressure: {content}": ({f"pressure/{name}": content for name in ("cpu", "memory", "io")}, (), NO_PRESSURE)
        for content in (None, "", "some avg10=nan\n")
    },
    "no full pressure": (
        {"pressure/io": SOME}, (),
        {"pressure_seconds": {"cpu": 5.98788, "memory": 5.98788, "io": 5.98788},
         "full_pressure_seconds": {"memory": 1.5}},
    ),
    "counters that the kernel lacks are unknown": (
        {"stat": STAT.replace("procs_blocked 2\n", "")}, ("vmstat",),
        {"major_faults": None, "oom_kills": None, "blocked": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "without", "fields"), SHOWN.values(), ids=SHOWN)
def test_load_has_the_values_of_the_files(make_source, files, without, fields):
    reading = make_source(without, **files).read()
    assert {name: getattr(reading.value, name) for name in fields} == fields
    assert reading.dropped == ()


def test_cpu_time_is_by_mode_and_older_kernels_have_fewer_modes(make_source):
    seconds = make_source().read().value.cpu_seconds
    assert tuple(seconds) == MODES
    assert seconds["user"] == 1000 / TICKS_PER_SECOND
    assert seconds["guest_nice"] == 1 / TICKS_PER_SECOND
    assert list(make_source(stat="cpu  1 2 3 4 5 6 7\n").read().value.cpu_seconds) == list(MODES[:7])


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


def test_load_of_this_machine_is_plausible_and_its_cpu_time_only_grows():
    source = HostSource()
    load, after = source.read().value, source.read().value.cpu_seconds
    assert 0 < load.memory_available_bytes <= load.memory_total_bytes
    assert load.swap_used_bytes >= 0
    assert load.cpu_seconds["user"] > 0
    assert load.cpu_seconds["idle"] > 0
    assert load.runnable >= 1  # this test runs
    assert all(after[mode] >= time for mode, time in load.cpu_seconds.items() if mode not in ("idle", "iowait"))
