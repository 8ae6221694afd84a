"""Tests of the control groups of ranks: memory, limits, throttling and OOM kills, on v1, v2 and hybrid hosts."""

import os
import shutil

import pytest

from tests.processes import UID, add_process
from zmon.agent.sources.cgroups import MAX_CGROUPS, CgroupSource
from zmon.process import ProcessId, process_id

V1_NO_LIMIT = "9223372036854771712"
GIB = 1 << 30


class FakeHost:
    """A fake /proc and /sys/fs/cgroup. A file whose content is None cannot be read."""

    def __init__(self, root):
        self.proc, self.cgroup, self.ranks = root / "proc", root / "cgroup", {}
        self.source = CgroupSource(lambda: self.ranks, self.proc, self.cgroup)

    def rank(self, number, text):
        """Add a rank whose /proc/PID/cgroup has this text."""
        self.ranks[add_process(self.proc, 1000 + number, cgroup=text)] = ("job", number)

    def group(self, path, **files):
        """Write files of a group. In their names, `__` stands for the first dot: `memory__max` is memory.max."""
        folder = self.cgroup / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            file = folder / name.replace("__", ".", 1)
            if content is None:
                file.mkdir()
            else:
                file.write_text(f"{content}\n")

    def v2(self, path, current=GIB, limit="max", cpu="max 100000", throttled=0, kills=0):
        """Add a group of v2: bytes of memory, quota and period of the CPU in microseconds, throttled microseconds."""
        self.group(
            path,
            memory__current=current,
            memory__max=limit,
            memory__events=f"low 0\nhigh 0\nmax 9\noom 2\noom_kill {kills}\noom_group_kill 0",
            cpu__max=cpu,
            cpu__stat=f"usage_usec 99\nnr_periods 7\nnr_throttled 3\nthrottled_usec {throttled}",
        )

    def v1_memory(self, path, used=GIB, limit=V1_NO_LIMIT, kills=0):
        """Add a group of the memory controller of v1; used memory and limit are in bytes."""
        self.group(
            f"memory{path}",
            memory__usage_in_bytes=used,
            memory__limit_in_bytes=limit,
            memory__oom_control=f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}",
        )

    def v1_cpu(self, path, quota=-1, throttled=0):
        """Add a group of the cpu controller of v1: its quota in microseconds and its throttled nanoseconds."""
        self.group(
            f"cpu{path}",
            cpu__cfs_quota_us=quota,
            cpu__cfs_period_us=100000,
            cpu__stat=f"nr_periods 7\nnr_throttled 3\nthrottled_time {throttled}",
        )


@pytest.fixture
def host(tmp_path):
    """Return a fake host without groups."""
    return FakeHost(tmp_path)


@pytest.fixture
def v2_host(host):
    """Return a host with v2 alone; its root group has no limits."""
    host.group("/", cgroup__controllers="cpu memory", cpu__stat="usage_usec 99")
    return host


POD = "/kubepods.slice/kubepods-pod1.slice"
CONTAINER = f"{POD}/cri-containerd-a.scope"
SLURM = "/slurm/uid_7/job_1"
V1 = "12:cpuset:/\n9:memory:{memory}\n3:cpu,cpuacct:{cpu}\n1:name=systemd:/init.scope\n"
V1_JOB = V1.format(memory="/job", cpu="/job")
ODD = {"memory__current": GIB, "memory__max": "odd", "memory__events": "odd", "cpu__max": "1", "cpu__stat": None}
FIELDS = ("path", "memory_used_bytes", "memory_limit_bytes", "cpu_limit_cores", "throttled_seconds", "oom_kills")
# The line of a rank in /proc, and the groups of its host → FIELDS of its group.
V2_GROUPS = {
    "limits, throttling and kills": (
        "0::/job",
        [("v2", "/job", {"current": 3 * GIB, "limit": 4 * GIB, "cpu": "250000 100000", "throttled": 1_500_000,
           "kills": 2})],
        ("/job", 3 * GIB, 4 * GIB, 2.5, 1.5, 2),
    ),
    "no limits and zero counters": ("0::/job", [("v2", "/job", {})], ("/job", GIB, None, None, 0, 0)),
    "memory and lowest limits of the pod, whose own kill hit another container": (
        f"0::{CONTAINER}",
        [
            ("v2", "/kubepods.slice", {"current": 90 * GIB, "limit": 100 * GIB}),
            ("v2", POD, {"current": 7 * GIB, "limit": 8 * GIB, "cpu": "400000 100000", "throttled": 2_000_000,
              "kills": 1}),
            ("v2", CONTAINER, {"current": 2 * GIB, "cpu": "600000 100000", "throttled": 500_000}),
        ],
        (CONTAINER, 7 * GIB, 8 * GIB, 4.0, 2.5, 0),
    ),
    "root of a namespace: limits of the container": (
        "0::/", [("v2", "/", {"limit": 2 * GIB, "cpu": "100000 100000", "throttled": 1_000_000})],
        ("/", GIB, 2 * GIB, 1.0, 1.0, 0),
    ),
    "root group: memory unknown": ("0::/", [], ("/", None, None, None, None, None)),
    "controller that is off is read from above": (
        "0::/job/task",
        [("v2", "/job", {"limit": 2 * GIB, "kills": 1}), ("group", "/job/task", {"cpu__stat": "usage_usec 5"})],
        ("/job/task", GIB, 2 * GIB, None, 0, 1),
    ),
    "unreadable file: only its own value unknown": (
        "0::/job", [("group", "/job", ODD)], ("/job", GIB, None, None, None, None)
    ),
}  # fmt: skip
V1_GROUPS = {
    "v1: limits, throttling and kills": (
        V1.format(memory=f"{SLURM}/step_0", cpu="/slurm"),
        [
            ("v1_memory", "/", {"used": 99 * GIB}),
            ("v1_memory", SLURM, {"used": 3 * GIB, "limit": 4 * GIB}),
            ("v1_memory", f"{SLURM}/step_0", {"kills": 1}),
            ("v1_cpu", "/", {}),
            ("v1_cpu", "/slurm", {"quota": 150_000, "throttled": 2_500_000_000}),
        ],
        (f"{SLURM}/step_0", 3 * GIB, 4 * GIB, 1.5, 2.5, 1),
    ),
    **{
        f"v1: no limit with pages of {pages} KiB": (
            V1_JOB, [("v1_memory", "/job", {"limit": limit}), ("v1_cpu", "/job", {})], ("/job", GIB, None, None, 0, 0)
        )
        for pages, limit in {4: V1_NO_LIMIT, 64: "9223372036854710272"}.items()
    },
    # The memory controller of v1, and the cpu controller of v2 under `unified`.
    "hybrid: controller by controller": (
        "4:memory:/job\n0::/job/deeper",
        [
            ("v1_memory", "/job", {"limit": 2 * GIB}),
            ("v2", "/unified/job/deeper", {"cpu": "50000 100000", "throttled": 1_000_000}),
        ],
        ("/job/deeper", GIB, 2 * GIB, 0.5, 1.0, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", V2_GROUPS | V1_GROUPS)
def test_sample_of_a_group_has_the_values_of_its_files(request, name):
    host = request.getfixturevalue("v2_host" if name in V2_GROUPS else "host")
    line, groups, fields = (V2_GROUPS | V1_GROUPS)[name]
    host.rank(0, f"{line}\n")
    for kind, path, values in groups:
        getattr(host, kind)(path, **values)
    reading = host.source.read()
    (group,) = reading.value
    assert tuple(getattr(group, field) for field in FIELDS) == fields
    assert group.ranks == (("job", 0),)
    assert reading.dropped == ()


def test_ranks_share_a_sample_only_within_the_same_group(v2_host):
    for rank, path in ((3, "/a"), (1, "/a"), (2, "/b")):
        v2_host.rank(rank, f"0::{path}\n")
    v2_host.v2("/a")
    v2_host.v2("/b")
    groups = v2_host.source.read().value
    assert [(group.path, group.ranks) for group in groups] == [
        ("/a", (("job", 1), ("job", 3))),
        ("/b", (("job", 2),)),
    ]


def test_group_of_a_dead_rank_reports_its_kills_for_some_time(v2_host):
    now = [100.0]
    v2_host.source = CgroupSource(lambda: v2_host.ranks, v2_host.proc, v2_host.cgroup, lambda: now[0])
    for rank, path in ((0, "/a"), (1, "/b"), (2, "/b"), (3, "/gone")):
        v2_host.rank(rank, f"0::{path}\n")
        v2_host.v2(path)
    v2_host.source.read()
    for rank in (0, 2, 3):
        del v2_host.ranks[ProcessId(1000 + rank, 5000, UID)]
    shutil.rmtree(v2_host.cgroup / "gone")
    v2_host.v2("/a", kills=1)
    now[0] += 30
    reading = v2_host.source.read()
    assert [(group.path, group.oom_kills) for group in reading.value] == [("/a", 1), ("/b", 0)]
    assert reading.value[1].ranks == (("job", 1), ("job", 2))
    assert reading.dropped == ()
    now[0] += 31
    assert [(group.path, group.ranks) for group in v2_host.source.read().value] == [("/b", (("job", 1),))]


@pytest.mark.parametrize("path", ["/../../kubepods/pod2/a", "/docker/not-mounted-here"])
def test_group_outside_the_agents_namespace_is_unknown_and_reported(v2_host, path, tmp_path):
    """The source reads no file outside of /sys/fs/cgroup."""
    (tmp_path / "kubepods/pod2/a").mkdir(parents=True)
    (tmp_path / "kubepods/pod2/a/memory.current").write_text("5\n")
    v2_host.rank(0, f"0::{path}\n")
    v2_host.rank(1, "0::/visible\n")
    v2_host.v2("/visible")
    reading = v2_host.source.read()
    hidden, visible = reading.value
    assert (hidden.path, hidden.memory_used_bytes, hidden.throttled_seconds) == (path, None, None)
    assert (visible.path, visible.memory_used_bytes) == ("/visible", GIB)
    assert len(reading.dropped) == 1
    assert "host's cgroup namespace" in reading.dropped[0]


def test_unmounted_controller_is_reported_and_hides_no_other(host):
    host.rank(0, V1.format(memory="/job", cpu="/job"))
    host.v1_memory("/job", limit=2 * GIB)
    reading = host.source.read()
    assert reading.value[0].memory_limit_bytes == 2 * GIB
    assert reading.value[0].throttled_seconds is None
    assert len(reading.dropped) == 1


@pytest.mark.parametrize("text", ["", "garbage\n", "1:name=systemd:/x\n"])
def test_process_without_a_group_is_left_out(v2_host, text):
    v2_host.rank(0, text)
    v2_host.rank(1, "0::/job\n")
    v2_host.v2("/job")
    reading = v2_host.source.read()
    assert [group.ranks for group in reading.value] == [(("job", 1),)]


def test_host_without_ranks_or_with_one_that_just_ended_shows_no_groups(v2_host):
    assert v2_host.source.read() == ((), ())
    v2_host.ranks[ProcessId(77, 5000, UID)] = ("job", 0)
    assert v2_host.source.read() == ((), ())


def test_groups_above_the_limit_are_counted_in_a_single_line(v2_host):
    for rank in range(MAX_CGROUPS + 10):
        v2_host.rank(rank, f"0::/job{rank}\n")
        v2_host.group(f"/job{rank}", memory__current=1, cpu__stat="throttled_usec 0")
    reading = v2_host.source.read()
    assert len(reading.value) == MAX_CGROUPS
    assert reading.dropped == (f"10 of {MAX_CGROUPS + 10} control groups: at most {MAX_CGROUPS} are read",)


def test_group_of_this_process_is_read():
    (group,) = CgroupSource(lambda: {process_id(os.getpid()): ("job", 0)}).read().value
    assert (group.path[0], group.ranks) == ("/", (("job", 0),))
