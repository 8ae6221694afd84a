"""Tests of the baselines on disk: changed files are read again, and damaged files are neither used nor replaced."""

import json
import os

import pytest

from tests.schema.test_curve import ALONE, point
from zmon.errors import ZmonError
from zmon.hub.baseline_store import BaselineStore


def test_recorded_points_survive_a_power_failure(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    BaselineStore(tmp_path).record("ranker", ALONE)
    assert synced


def test_recording_keeps_the_points_of_other_sizes(tmp_path):
    ours, theirs = BaselineStore(tmp_path), BaselineStore(tmp_path)
    ours.record("ranker", ALONE)
    theirs.record("ranker", point(2, 1024, 0.11))
    ours.record("ranker", point(4, 2048, 0.12))
    assert [p.ranks for p in theirs.curve("ranker").points] == [1, 2, 4]


def test_damaged_file_is_never_replaced(tmp_path, caplog):
    damage = '{"schema": 1, "name": "ranker", "points": [{"ranks": 0}]}'
    (tmp_path / "ranker.json").write_text(damage)
    store = BaselineStore(tmp_path)
    assert store.curve("ranker").points == ()
    assert "no recorded baseline" in caplog.text
    assert store.unusable.get("ranker")
    with pytest.raises(ZmonError, match="Move the file away"):
        store.record("ranker", ALONE)
    assert (tmp_path / "ranker.json").read_text() == damage


def rewrite(path, change):
    """Change the content of a file of baselines, and its time."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    os.utime(path, (1, 1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": 0}, {"seconds": 1e300}, {"ranks": 0}, {"ranks": 10**17}, {"samples": 10**30}, {"samples": -1},
        {"ranks_per_host": -1}, {"processors_per_host": 0.5}, {"causes": {"forward": -1.0}},
        {"sent_bytes": {"send": -5}},
    ],
    ids=str,
)  # fmt: skip
def test_impossible_number_makes_a_file_unusable(tmp_path, wrong):
    store = BaselineStore(tmp_path)
    assert (store.curve("ranker").points, store.unusable.get("ranker")) == ((), None)  # there is no file
    rewrite(store.record("ranker", ALONE), lambda content: content["points"][0].update(wrong))
    assert store.curve("ranker").points == ()
    assert store.unusable.get("ranker")


def test_edited_file_is_sorted(tmp_path):
    store = BaselineStore(tmp_path)
    rewrite(store.record("ranker", ALONE, point(2, 1024, 0.11)), lambda content: content["points"].reverse())
    assert [p.ranks for p in store.curve("ranker").points] == [1, 2]


def test_usable_file_that_another_version_replaces_is_unusable(tmp_path):
    store = BaselineStore(tmp_path)
    path = store.record("ranker", ALONE, point(2, 1024, 0.11))
    assert len(store.curve("ranker").points) == 2
    rewrite(path, lambda content: content.update(schema=2))
    assert (store.curve("ranker").points, "another version" in store.unusable.get("ranker")) == ((), True)


def test_folder_that_cannot_be_created_raises_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ZmonError, match="cannot write"):
        BaselineStore(tmp_path / "file" / "baselines").record("ranker", ALONE)
