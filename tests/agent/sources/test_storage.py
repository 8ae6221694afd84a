"""Tests of disks and NFS mounts: traffic, busy time and waits."""

import pytest

from zmon.agent.sources.storage import MAX_DISKS, MAX_MOUNTS, StorageSource
from zmon.errors import SourceUnavailable
from zmon.schema.host import DiskSample, MountSample

DISKSTATS = """\
   7       0 loop0 11 0 28 0 0 0 0 0 0 4 0 0 0 0 0 0 0
 259       0 nvme0n1 927297 53322 2000 838917 157626 616504 4000 158372 3 156108 1046197 503 116 125379 46481 17 24
 259       1 nvme0n1p1 900000 53322 1900 838917 157626 616504 3900 158372 0 156108 1046197 503 116 125379 46481 17 24
   8       0 sda 1 2 3 4 5 6 7 8 0 9 10
   8       1 sda1 1 2 3 4 5 6 7 8 0 9 10
 253       0 dm-0 5 0 40 2 0 0 0 0 0 1000 2 0 0 0 0 0 0
 104       0 cciss/c0d0 5 0 16 2 0 0 24 0 1 20 2
  11       0 sr0 0 0 0 0 0 0 0 0 0 0 0
   1       0 ram0 0 0 0 0 0 0 0 0 0 0 0
 252       0 zram0 9 0 9 0 9 0 9 0 0 9 9 0 0 0 0 0 0
"""
BLOCK = ("loop0", "nvme0n1", "sda", "dm-0", "cciss!c0d0", "sr0", "ram0", "zram0")

LOCAL = """\
device proc mounted on /proc with fstype proc
no device mounted on /run with fstype tmpfs
device /dev/vda mounted on / with fstype ext4
"""
OPERATIONS = """\
\t        NULL: 1 1 0 44 24 0 0 0
\t        READ: 100 103 2 1298 51519 50 7000 8000 0
\t       WRITE: 50 50 1 6312 9312 9000 3000 12500 4
"""


def nfs_mount(mount="/data", export="10.0.0.1:/export", kind="nfs4", operations=OPERATIONS):
    """Return the lines of a network mount in /proc/self/mountstats."""
    return f"""\
device {export} mounted on {mount} with fstype {kind} statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576,hard,proto=tcp,timeo=600,retrans=2,addr=10.0.0.1,local_lock=none
\tage:\t1234
\tcaps:\tcaps=0xfffbc0bf,wtmult=512,dtsize=1048576,bsize=0,namlen=255
\tevents:\t52 226 0 0 1 13 398 0 0 331 0 47 0 0 77 0 0 77 0 0 0 0 0 0 0 0 0
\tbytes:\t1207640230 0 0 0 1210214218 0 295483 0
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 832 0 1 0 11 6428 6428 0 12154 0 24 26 5726
\tper-op statistics
{operations}
"""


def mount_table(*mounts):
    """Return a /proc/self/mountinfo with these mounts, each with its device number."""
    return "".join(f"{30 + n} 27 {device} / {mount} rw - nfs4 x rw\n" for n, (mount, device) in enumerate(mounts))


@pytest.fixture
def make_source(tmp_path):
    """Return a function that makes a source over a fake /proc and /sys; a file with the content None cannot be read."""

    def make(diskstats=DISKSTATS, mountstats=LOCAL, mountinfo="", block=BLOCK):
        (tmp_path / "self").mkdir()
        for name, content in {
            "diskstats": diskstats,
            "self/mountstats": mountstats,
            "self/mountinfo": mountinfo,
        }.items():
            if content is None:
                (tmp_path / name).mkdir()
            else:
                (tmp_path / name).write_text(content)
        for device in block:
            (tmp_path / "block" / device / "queue").mkdir(parents=True)
            (tmp_path / "block" / device / "queue/iostats").write_text("1\n")
        return StorageSource(tmp_path, tmp_path)

    return make


def test_disks_show_bytes_busy_time_and_requests_in_progress(make_source):
    """Partitions, loop devices, memory disks and CDs are not among them; old kernels have fewer columns."""
    reading = make_source().read()
    assert reading.value.disks == (
        DiskSample("nvme0n1", 2000 * 512, 4000 * 512, 156.108, 3),
        DiskSample("sda", 3 * 512, 7 * 512, 0.009, 0),
        DiskSample("dm-0", 40 * 512, 0, 1.0, 0),
        DiskSample("cciss/c0d0", 16 * 512, 24 * 512, 0.02, 1),
    )
    assert reading.dropped == ()


def test_disk_without_statistics_is_left_out_and_reported(make_source, tmp_path):
    source = make_source()
    (tmp_path / "block/sda/queue/iostats").write_text("0\n")
    reading = source.read()
    assert "sda" not in [disk.device for disk in reading.value.disks]
    assert reading.dropped == ("sda: the kernel does not count its requests: its queue/iostats is 0",)


@pytest.mark.parametrize("odd", [" 8 0 sda 1 2\n", " 8 0 sda 1 2 many 4 5 6 7 8 0 9 10\n"])
def test_malformed_disk_is_reported_and_hides_no_other(make_source, odd):
    reading = make_source(odd + "\ngarbage\n 259 0 nvme0n1 1 2 3 4 5 6 7 8 0 9 10\n").read()
    assert [disk.device for disk in reading.value.disks] == ["nvme0n1"]
    assert len(reading.dropped) == 1
    assert reading.dropped[0].startswith("sda: its line in ")


@pytest.mark.parametrize("kind", ["nfs", "nfs4"])
def test_network_mount_shows_the_sums_of_all_operations(make_source, kind):
    reading = make_source(mountstats=LOCAL + nfs_mount(kind=kind) + LOCAL).read()
    assert reading.value.mounts == (MountSample("/data", kind, 151, 20.5, 3),)
    assert reading.dropped == ()


@pytest.mark.parametrize(
    ("mountstats", "mounts"),
    [
        (nfs_mount(operations="\t NULL: 0 0 0 0 0 0 0 0\n"), (MountSample("/data", "nfs4", 0, 0.0, 0),)),
        ("".join(f"device x mounted on /{kind} with fstype {kind}\n" for kind in ("lustre", "ceph", "cifs")), ()),
    ],
    ids=["idle: zeros", "other file systems: none"],
)
def test_mounts_without_traffic_or_statistics_are_not_dropped(make_source, mountstats, mounts):
    reading = make_source(mountstats=LOCAL + mountstats).read()
    assert (reading.value.mounts, reading.dropped) == (mounts, ())


def test_bind_mount_of_a_network_mount_is_not_counted_again(make_source):
    """The kernel shows the same counters again for a container's volume, or for a folder below it."""
    mountstats = (
        nfs_mount()
        + nfs_mount("/var/lib/kubelet/pods/1", "10.0.0.1:/export/sub")
        + nfs_mount("/home", "10.0.0.1:/home")
    )
    mountinfo = mount_table(("/data", "0:45"), ("/var/lib/kubelet/pods/1", "0:45"), ("/home", "0:46"))
    reading = make_source(mountstats=mountstats, mountinfo=mountinfo + "garbage\n").read()
    assert [mount.mount for mount in reading.value.mounts] == ["/data", "/home"]
    assert reading.dropped == ()


@pytest.mark.parametrize("operations", ["\t READ: 1 2 3\n", "\t READ: many 1 1 1 1 1 1 1\n", "\t nonsense\n"])
def test_malformed_network_mount_is_reported_and_hides_no_other(make_source, operations):
    reading = make_source(mountstats=nfs_mount("/odd", operations=operations) + nfs_mount()).read()
    assert [mount.mount for mount in reading.value.mounts] == ["/data"]
    assert len(reading.dropped) == 1
    assert reading.dropped[0].startswith("/odd: its statistics in ")


def test_network_mount_without_statistics_is_left_out_and_reported(make_source):
    reading = make_source(mountstats=nfs_mount().replace("per-op statistics", "")).read()
    assert (reading.value.mounts, len(reading.dropped)) == ((), 1)


NAMES = [f"dm-{n}" for n in range(1000)]


def test_disks_above_the_limit_are_counted_in_a_single_line(make_source):
    diskstats = "".join(f" 253 0 {name} 1 2 3 4 5 6 7 8 0 9 10\n" for name in NAMES)
    reading = make_source(diskstats, block=NAMES).read()
    assert len(reading.value.disks) == MAX_DISKS
    assert reading.dropped == (f"{1000 - MAX_DISKS} of 1000 disks: at most {MAX_DISKS} are read",)


def test_network_mounts_above_the_limit_are_counted_in_a_single_line(make_source):
    reading = make_source(mountstats="".join(nfs_mount(f"/data/{n}") for n in range(1000))).read()
    assert len(reading.value.mounts) == MAX_MOUNTS
    assert reading.dropped == (f"{1000 - MAX_MOUNTS} of 1000 network mounts: at most {MAX_MOUNTS} are read",)


def test_too_many_mounts_are_read_in_part_and_reported(make_source):
    """Each mount is read as a whole: a sum over part of its operations would be wrong."""
    reading = make_source(mountstats=nfs_mount() + "".join(nfs_mount(f"/data/{n}") for n in range(5000))).read()
    assert {mount.operations for mount in reading.value.mounts} == {151}
    assert len(reading.dropped) == 2
    assert reading.dropped[0].endswith("mountstats after its first MiB")


@pytest.mark.parametrize(
    ("files", "unreadable", "numbers"),
    [
        ({"diskstats": None, "mountstats": nfs_mount()}, "diskstats", (0, 1)),
        ({"mountstats": None}, "mountstats", (4, 0)),
    ],
)
def test_unreadable_disks_or_mounts_do_not_hide_the_others(make_source, files, unreadable, numbers):
    reading = make_source(**files).read()
    assert (len(reading.value.disks), len(reading.value.mounts)) == numbers
    (line,) = reading.dropped
    assert unreadable in line


def test_host_without_proc_reports_the_source_as_absent(tmp_path):
    with pytest.raises(SourceUnavailable, match="mount /proc"):
        StorageSource(tmp_path / "none", tmp_path / "none").read()


def test_counters_of_the_disks_of_this_machine_only_grow():
    source = StorageSource()
    before, after = source.read(), source.read()
    assert before.dropped == ()
    assert [disk.device for disk in before.value.disks] == [disk.device for disk in after.value.disks]
    assert all(b.read_bytes <= a.read_bytes for b, a in zip(before.value.disks, after.value.disks, strict=True))
