"""Tests of the pauses on disk: they survive a restart, stay few, and expire after a day."""

from pathlib import Path

import pytest

from tests.build import NOW
from zmon.hub.pauses import MAX_AGE_SECONDS, MAX_PLACES, PauseStore
from zmon.schema.pause import HealedPause, Place
from zmon.steplog.files import SteadyClock

LOADING, SAVING = Place("data", "read() at loader.py:40"), Place("other", "save() at train.py:88")


def test_longest_pause_number_and_last_time_are_recorded_by_place(tmp_path: Path) -> None:
    store = PauseStore(tmp_path)
    for seconds, place in ((6.2, LOADING), (3.0, SAVING), (5.0, LOADING)):
        store.record("ranker", [place], seconds, NOW + seconds)
    assert store.pauses("ranker", NOW + 10) == (
        HealedPause(LOADING, longest_seconds=6.2, number=2, last_time=NOW + 5.0),
        HealedPause(SAVING, longest_seconds=3.0, number=1, last_time=NOW + 3.0),
    )


def test_pauses_and_their_file_expire_after_a_day(tmp_path: Path) -> None:
    store = PauseStore(tmp_path, SteadyClock(hold_seconds=0.0))
    store.record("ranker", [LOADING], 6.2, NOW)
    assert store.pauses("ranker", NOW + MAX_AGE_SECONDS - 1)
    assert store.pauses("ranker", NOW + MAX_AGE_SECONDS) == ()
    PauseStore(tmp_path, SteadyClock(hold_seconds=0.0)).pauses("other", NOW + MAX_AGE_SECONDS)
    assert list(tmp_path.iterdir()) == []


def test_only_the_newest_places_are_recorded(tmp_path: Path) -> None:
    store = PauseStore(tmp_path)
    for line in range(MAX_PLACES + 10):
        store.record("ranker", [Place("data", f"read() at loader.py:{line}")], 2.0, NOW + line)
    frames = {pause.place.frame for pause in PauseStore(tmp_path).pauses("ranker", NOW + 100)}
    assert len(frames) == MAX_PLACES
    assert "read() at loader.py:9" not in frames


@pytest.mark.parametrize("damage", ["{", '{"schema": 2, "name": "ranker", "pauses": []}'])
def test_damaged_file_is_set_aside(tmp_path: Path, damage: str) -> None:
    (tmp_path / "ranker.json").write_text(damage)
    store = PauseStore(tmp_path, SteadyClock(hold_seconds=0.0))
    assert store.pauses("ranker", NOW) == ()
    store.record("ranker", [LOADING], 6.2, NOW)
    assert PauseStore(tmp_path).pauses("ranker", NOW)
    assert (tmp_path / "ranker.json.unusable").read_text() == damage
