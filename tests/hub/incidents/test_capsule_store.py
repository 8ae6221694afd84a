"""Tests of incidents on disk. A failed write leaves no partial incident. Active incidents are never pruned."""

import errno
import json
import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import NOW, finding
from tests.hub.incidents.build import made
from zmon.errors import UsageError
from zmon.hub.incidents import CapsuleStore, capsule_store
from zmon.steplog.files import SteadyClock

FILES = {"finding.json", "capsule.json", "steps.jsonl", "report.html"}


@pytest.fixture
def incidents(tmp_path):
    """The store of incidents; its clock counts as steady from the start, so that it may delete."""
    return CapsuleStore(tmp_path, SteadyClock(hold_seconds=0.0))


def write_incident(incidents, name="f1", age=0.0, **changes):
    """Write an incident that appears to be `age` seconds old."""
    capsule, rows = made(finding(id=name, **changes))
    place = incidents.write(capsule, rows)
    os.utime(place / "finding.json", (0, (place / "finding.json").stat().st_mtime - age))
    return place


def test_incident_is_a_directory_for_people_and_programs(incidents, tmp_path):
    place = write_incident(incidents)
    assert place == tmp_path / "incidents/f1"
    assert {path.name for path in place.iterdir()} == FILES
    assert json.loads((place / "finding.json").read_bytes())["cause"] == "rank_frozen"
    capsule = json.loads((place / "capsule.json").read_bytes())
    assert (capsule["schema"], capsule["finding"]["id"]) == (1, "f1")
    assert [row["rank"] for row in capsule["ranks"]] == [0, 1, 2, 3]
    rows = [json.loads(line) for line in (place / "steps.jsonl").read_bytes().splitlines()]
    assert len(rows) == 12
    assert list(rows[0])[:7] == ["job_id", "attempt", "rank", "host", "step", "start", "duration"]
    assert rows[0]["start"] == NOW - 999
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    written, _ = made(finding(id="f1"))
    assert incidents.read("f1") == written


def test_update_replaces_each_file_and_keeps_the_steps(incidents):
    place = write_incident(incidents)
    before = (place / "steps.jsonl").read_bytes()
    capsule = incidents.read("f1")
    incidents.write(replace(capsule, finding=replace(capsule.finding, resolved=NOW + 60)))
    assert json.loads((place / "finding.json").read_bytes())["resolved"] == NOW + 60
    assert "resolved after" in (place / "report.html").read_text()
    assert (place / "steps.jsonl").read_bytes() == before
    assert [path.name for path in place.parent.iterdir()] == ["f1"]


def test_files_of_a_newer_version_are_kept(incidents):
    place = write_incident(incidents)
    (place / "capsule.json").write_text('{"finding":"of a newer zmon"}')
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    for _ in range(2):
        write_incident(incidents, summary="of this version")
    assert {name: (place / f"{name}.unusable").read_bytes() for name in FILES} == before
    assert incidents.read("f1").finding.summary == "of this version"


def test_capsule_that_cannot_be_read_is_never_replaced_or_pruned(incidents, monkeypatch):
    def fails(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    place = write_incident(incidents)
    capsule = incidents.read("f1")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fails)
        with pytest.raises(OSError, match="Input/output"):
            incidents.write(capsule, b"")
    real_stat = os.stat
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "stat", lambda path, **how: fails() if Path(path).name == "finding.json" else real_stat(path, **how)
        )
        assert incidents.prune(()) == []
    assert place.is_dir()


def test_reader_never_sees_half_a_file_during_an_update(incidents):
    place, over = write_incident(incidents), threading.Event()
    capsule = incidents.read("f1")

    def write():
        for number in range(20):
            incidents.write(replace(capsule, finding=replace(capsule.finding, summary=str(number) * 50_000)))
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not over.is_set():
        assert incidents.read("f1") is not None
        assert (place / "report.html").read_text().endswith("</html>")
    writer.join()


@pytest.mark.parametrize("num_written", range(len(FILES)))
def test_full_disk_leaves_the_old_files(incidents, monkeypatch, num_written):
    place = write_incident(incidents)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    written = []

    def full(path, parts):
        (data,) = parts
        if len(written) == num_written:
            path.write_bytes(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        path.write_bytes(data)

    monkeypatch.setattr(capsule_store, "replace_file", full)
    with pytest.raises(OSError, match="No space"):
        write_incident(incidents, summary="another")
    with pytest.raises(OSError, match="No space"):
        write_incident(incidents, "f2")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    assert [path.name for path in place.parent.iterdir()] == ["f1"]


def test_unfinished_directories_of_a_killed_hub_are_cleared(incidents):
    place = write_incident(incidents)
    (place.parent / ".f2.abc").mkdir()
    (place.parent / ".f2.abc/capsule.json").write_text("{")
    assert [summary.id for summary in incidents.summaries()] == ["f1"]
    incidents.clear()
    assert [path.name for path in place.parent.iterdir()] == ["f1"]


@pytest.mark.parametrize("name", ["..", ".", "", "../f1", "a/b", ".hidden", "x" * 65, "f1\n", "f1\0", "%2e%2e"])
def test_malformed_id_is_refused(incidents, name):
    write_incident(incidents)
    with pytest.raises(UsageError, match="zmon incident"):
        incidents.directory(name)


def test_list_is_newest_first_without_damaged_incidents(incidents):
    write_incident(incidents, "a", detected=NOW)
    write_incident(incidents, "b", detected=NOW + 5)
    (write_incident(incidents, "c") / "finding.json").write_text("{")
    (incidents.root / "stray").write_text("a file")
    assert [(summary.id, Path(summary.path).name) for summary in incidents.summaries()] == [("b", "b"), ("a", "a")]


def test_store_without_a_folder_has_no_incidents(incidents):
    assert (incidents.summaries(), incidents.read("f1"), incidents.prune(())) == ([], None, [])


def test_old_incidents_are_pruned_except_active_ones(incidents):
    for name, age in (("young", 0), ("old", 31 * 86400), ("going", 31 * 86400)):
        write_incident(incidents, name, age)
    assert incidents.prune({"going"}) == ["old"]
    assert {path.name for path in incidents.root.iterdir()} == {"young", "going"}


def test_oldest_incidents_are_pruned_beyond_the_size_limit(incidents, monkeypatch):
    sizes = [sum(f.stat().st_size for f in write_incident(incidents, name, age).iterdir()) for name, age in
             (("new", 0), ("middle", 10), ("old", 20), ("going", 30))]  # fmt: skip
    monkeypatch.setattr(capsule_store, "MAX_BYTES", sum(sizes[:2]) + 10)
    assert incidents.prune({"going"}) == ["old"]
    assert {path.name for path in incidents.root.iterdir()} == {"new", "middle", "going"}
