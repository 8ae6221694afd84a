"""Baselines on disk: read again when they change, never lost to a damaged file, never made up."""

import json
import logging
import os

import pytest

from tests.schema.test_curve import ALONE, point
from zmon.errors import ZmonError
from zmon.hub.baseline_store import BaselineStore


def test_recorded_points_are_there_for_the_next_one_who_reads(tmp_path):
    at = BaselineStore(tmp_path / "baselines").record("ranker", point(2, 1024, 0.11), ALONE)
    assert json.loads(at.read_text())["schema"] == 1
    assert [p.ranks for p in BaselineStore(tmp_path / "baselines").curve("ranker").points] == [1, 2]


def test_recording_keeps_what_was_recorded_at_other_sizes(tmp_path):
    ours, theirs = BaselineStore(tmp_path), BaselineStore(tmp_path)
    ours.record("ranker", ALONE)
    theirs.record("ranker", point(2, 1024, 0.11))
    ours.record("ranker", point(4, 2048, 0.12))
    assert [p.ranks for p in theirs.curve("ranker").points] == [1, 2, 4]


def test_name_of_which_nothing_was_recorded_has_no_points(tmp_path):
    assert BaselineStore(tmp_path).curve("ranker").points == ()
    assert BaselineStore(tmp_path).unusable("ranker") is None


def test_deleted_file_is_forgotten(tmp_path):
    known = BaselineStore(tmp_path)
    known.record("ranker", ALONE).unlink()
    assert known.curve("ranker").points == ()


@pytest.mark.parametrize("damage", ["{", "[]", '{"schema": 1, "name": "ranker", "points": [{"ranks": 0}]}'])
def test_damaged_file_is_said_once_and_never_written_over(tmp_path, damage, caplog):
    (tmp_path / "ranker.json").write_text(damage)
    known = BaselineStore(tmp_path)
    with caplog.at_level(logging.ERROR):
        assert known.curve("ranker").points == ()
        known.curve("ranker")
    assert len(caplog.records) == 1
    assert known.unusable("ranker")
    with pytest.raises(ZmonError, match="Move it away"):
        known.record("ranker", ALONE)
    assert (tmp_path / "ranker.json").read_text() == damage


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": 0}, {"seconds": 1e300}, {"ranks": 0}, {"ranks": 10**17}, {"samples": 10**30}, {"samples": -1},
        {"ranks_per_host": -1}, {"processors_per_host": 0.5}, {"causes": {"forward": -1.0}},
        {"sent_bytes": {"send": -5}},
    ],
)  # fmt: skip
def test_number_that_none_can_have_is_damage(tmp_path, wrong):
    known = BaselineStore(tmp_path)
    path = known.record("ranker", ALONE)
    told = json.loads(path.read_text())
    told["points"][0].update(wrong)
    path.write_text(json.dumps(told))
    os.utime(path, (1, 1))
    assert known.curve("ranker").points == ()
    assert known.unusable("ranker")


def test_file_of_another_version_is_not_guessed_at(tmp_path):
    known = BaselineStore(tmp_path)
    path = known.record("ranker", ALONE)
    path.write_text(path.read_text().replace('"schema":1', '"schema":2'))
    os.utime(path, (1, 1))
    assert known.curve("ranker").points == ()
    assert "another version" in known.unusable("ranker")


def test_points_are_in_order_whoever_edited_the_file(tmp_path):
    known = BaselineStore(tmp_path)
    path = known.record("ranker", ALONE, point(2, 1024, 0.11))
    told = json.loads(path.read_text())
    told["points"].reverse()
    path.write_text(json.dumps(told))
    os.utime(path, (1, 1))
    assert [p.ranks for p in known.curve("ranker").points] == [1, 2]


def test_folder_that_cannot_be_made_is_said_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ZmonError, match="cannot write"):
        BaselineStore(tmp_path / "file" / "baselines").record("ranker", ALONE)
