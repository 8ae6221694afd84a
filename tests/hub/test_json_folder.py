"""Tests of a folder of JSON files: changed files are read again, damaged ones are not used, old ones are deleted."""

import errno
import os
from pathlib import Path

import msgspec
import pytest

from tests.build import NOW
from zmon.hub.json_folder import PRUNE_SECONDS, JsonFolder
from zmon.hub.write_errors import RETRY_SECONDS
from zmon.steplog.files import SteadyClock


@pytest.fixture
def files(tmp_path):
    """A folder whose files are lists of integers; its clock counts as steady from the start, so that it may delete."""
    clock = SteadyClock(hold_seconds=0.0)
    decode = msgspec.json.Decoder(list[int]).decode
    return JsonFolder(tmp_path / "files", decode, "it is not used", "it is lost", clock=clock)


def test_folder_has_only_the_files_that_were_put(files):
    files.put("a", [1])
    files.put("a", [2])
    files.put("b", [3])
    files.put("b", None)
    assert (files.get("a"), files.get("b")) == ([2], None)
    assert [path.name for path in files.folder.iterdir()] == ["a.json"]
    assert files.stored_keys() == ["a"]


def test_writes_wait_for_the_disk_only_where_that_is_asked_for(files, tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    files.put("a", [1])
    assert synced == []
    JsonFolder(tmp_path / "synced", msgspec.json.Decoder(list[int]).decode, "it is not used", sync=True).put("a", [1])
    assert synced


def test_file_that_a_person_changed_or_deleted_is_read_again(files):
    files.put("a", [1])
    assert files.get("a") is files.get("a")
    files.path("a").write_text("[1,2]")
    os.utime(files.path("a"), (1, 1))
    assert files.get("a") == [1, 2]
    files.path("a").unlink()
    assert files.get("a") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b'["1"]', b"\xff\xfe"])
def test_damaged_file_is_logged_once_until_it_is_replaced(files, damage, caplog):
    files.put("a", [1])
    files.path("a").write_bytes(damage)
    assert files.get("a") is None
    assert files.get("a") is None
    assert len(caplog.records) == 1
    assert f"cannot use {files.path('a')}: {files.unusable['a']}; it is not used" in caplog.text
    files.put("a", [1])
    assert files.get("a") == [1]
    assert not files.unusable
    assert (files.folder / "a.json.unusable").read_bytes() == damage
    assert files.stored_keys() == ["a"]


def test_file_of_a_newer_version_is_kept_although_nobody_has_read_it_before_the_write(files, caplog):
    files.folder.mkdir()
    files.path("a").write_text('{"of":"a newer zmon"}')
    for number in (1, 2):
        files.put("a", [number])
    assert (files.folder / "a.json.unusable").read_text() == '{"of":"a newer zmon"}'
    assert f"{files.path('a')} was not used; it is kept as a.json.unusable" in caplog.text


def test_file_that_cannot_be_read_is_never_replaced(files, monkeypatch):
    def fails(path):
        raise OSError(errno.EIO, "Input/output error")

    files.folder.mkdir()
    files.path("a").write_text("[1]")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fails)
        assert files.get("a") is None
        files.put("a", [2])
        assert files.error == f"cannot write {files.path('a')}: Input/output error"
    assert files.path("a").read_text() == "[1]"
    files.retry(NOW)
    assert (files.path("a").read_text(), files.error) == ("[2]", None)
    assert (files.folder / "a.json.unusable").read_text() == "[1]"


def test_success_of_one_file_does_not_hide_the_error_of_another(files, caplog):
    files.path("a").mkdir(parents=True)
    files.put("a", [1])
    files.put("b", [2])
    assert files.error == f"cannot write {files.path('a')}: Is a directory"
    assert caplog.text.count("it is lost") == 1
    assert (files.get("a"), files.unwritten) == ([1], {"a": [1]})


def test_unwritten_file_is_tried_again_every_few_seconds_until_it_is_written(files):
    files.path("a").mkdir(parents=True)
    files.put("a", [1])
    files.retry(NOW)
    files.path("a").rmdir()
    files.retry(NOW + RETRY_SECONDS / 2)
    assert files.error
    files.retry(NOW + RETRY_SECONDS)
    assert files.error is None
    assert files.path("a").read_text() == "[1]"


def test_only_old_files_of_keys_are_deleted_once_an_hour(files):
    files.put("new", [1])
    names = ("old.json", ".lock", ".hidden.json", "no\nkey.json")
    for name in names:
        (files.folder / name).write_text("[]")
    files.prune(NOW, lambda key: key != "new")
    assert {path.name for path in files.folder.iterdir()} == {"new.json", *names} - {"old.json"}
    files.prune(NOW + PRUNE_SECONDS / 2, lambda key: True)
    assert files.stored_keys() == ["new"]
    files.prune(NOW + PRUNE_SECONDS, lambda key: True)
    assert files.stored_keys() == []


def test_file_that_cannot_be_deleted_does_not_keep_the_others(files):
    files.path("a").mkdir(parents=True)
    files.put("b", [2])
    files.prune(NOW, lambda key: True)
    assert files.stored_keys() == ["a"]
