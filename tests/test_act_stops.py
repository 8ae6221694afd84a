"""Tests of the stops of acts: what a person or a breaker has written stops, and so does what cannot be read."""

import pytest

from zmon.act_stops import ALL, FOLDER, Stop, reset, stop, stops
from zmon.errors import UsageError


def test_there_is_no_stop_at_first(tmp_path):
    assert stops(tmp_path) == {}


def test_stop_is_read_as_it_was_written_until_it_is_reset(tmp_path):
    stop(tmp_path, ALL, "maintenance", "ann", clock=lambda: 5.0)
    stop(tmp_path, "frozen", "did not help", "the hub", clock=lambda: 6.0)
    assert stops(tmp_path) == {
        ALL: Stop(5.0, "ann", "maintenance"), "frozen": Stop(6.0, "the hub", "did not help")
    }  # fmt: skip
    assert (tmp_path / FOLDER / ALL).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o700
    reset(tmp_path, ALL)
    reset(tmp_path, ALL)  # there is none any more
    assert stops(tmp_path).keys() == {"frozen"}


UNREADABLE = {"empty": b"", "torn": b"{", "bytes": b"\xff", "type": b'{"time": "x"}'}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_stop_that_cannot_be_read_stops(tmp_path, content):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / ALL).write_bytes(content)
    unreadable = stops(tmp_path)[ALL]
    assert "has no reason that can be read" in unreadable.reason
    assert unreadable.kind == "breaker"  # a person must look at it


def test_folder_that_cannot_be_read_stops_everything(tmp_path):
    (tmp_path / FOLDER).write_text("no folder")
    assert "cannot be read (Not a directory)" in stops(tmp_path)[ALL].reason


def test_half_written_stop_of_a_killed_process_is_none(tmp_path):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / f".{ALL}.partial").write_bytes(b"{")
    assert stops(tmp_path) == {}


@pytest.mark.parametrize("name", ["", "..", "../all", "a/b"])
def test_name_does_not_lead_out_of_the_folder(tmp_path, name):
    with pytest.raises(UsageError):
        stop(tmp_path, name, "why", "ann")
    with pytest.raises(UsageError):
        reset(tmp_path, name)
    assert not [*tmp_path.iterdir()]
