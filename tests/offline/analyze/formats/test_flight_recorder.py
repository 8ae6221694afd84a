"""Tests of the reader of flight-recorder dumps: pickles run no code, and bad files are one line each."""

import collections
import contextlib
import json
import pickle
import random

import pytest

from tests.evil_pickle import EvilPickle
from tests.offline.analyze.formats.dumps import content, done, entry, write
from zmon.errors import UsageError
from zmon.offline.analyze.formats import flight_recorder


def read_one(tmp_path, data):
    """Write the bytes as the dump of rank 0, and read it."""
    (tmp_path / "trace_rank_0").write_bytes(data)
    return flight_recorder.read([tmp_path / "trace_rank_0"])


def test_pickle_and_json_are_equal(tmp_path):
    (path,) = write(tmp_path, [*done(2), entry(3)])
    (tmp_path / "dump_0.json").write_text(json.dumps(content([*done(2), entry(3)], 1)))
    assert flight_recorder.read([path]).ranks == flight_recorder.read([tmp_path / "dump_0.json"]).ranks


def test_innermost_frame_of_the_job_is_the_place(tmp_path):
    dumps = flight_recorder.read(write(tmp_path, done(1)))
    assert dumps.ranks[0].entries[0].where == "step() at train.py:81"


def test_entry_without_frames_has_no_place(tmp_path):
    dumps = flight_recorder.read(write(tmp_path, [entry(1, frames=[])]))
    assert dumps.ranks[0].entries[0].where == ""


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_that_calls_a_function_is_refused_and_calls_nothing(tmp_path, protocol):
    marker = tmp_path / "made"
    for attack in (EvilPickle(marker), {"version": "2.10", "entries": [EvilPickle(marker)]}):
        with pytest.raises(UsageError, match=r"it names posix\.mkdir"):
            read_one(tmp_path, pickle.dumps(attack, protocol))
    assert not marker.exists()


def test_even_a_harmless_class_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"it names collections\.OrderedDict"):
        read_one(tmp_path, pickle.dumps(collections.OrderedDict(content([]))))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x80", b"\x80\x02", b"\x80\x02}", b"\x80\xff.", b"{", b"{}", b'{"version": 2}', b"[1]", b"\x00" * 99,
        pickle.dumps([1]), pickle.dumps({"version": "2.10", "entries": [1]}), pickle.dumps(content([entry(-5)])),
        pickle.dumps(content([entry(1, input_sizes="x")])), pickle.dumps(content([entry(1, process_group=None)])),
        b"(" * 10_000, b'{"version": "1", "entries": ' + b"[" * 100_000,
    ],
)  # fmt: skip
def test_damaged_dump_is_refused(tmp_path, data):
    with pytest.raises(UsageError, match="no flight record can be read"):
        read_one(tmp_path, data)


def test_dump_cut_or_changed_anywhere_is_read_or_refused(tmp_path):
    (path,) = write(tmp_path, [*done(3), entry(4)])
    whole = path.read_bytes()
    chance = random.Random(4)
    for number in range(300):
        damaged = bytearray(whole[: chance.randrange(len(whole))] if number % 2 else whole)
        if damaged:
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with contextlib.suppress(UsageError):
            read_one(tmp_path, bytes(damaged))


def test_damaged_file_among_others_is_a_note(tmp_path):
    paths = write(tmp_path, done(3), done(3))
    paths[1].write_bytes(paths[1].read_bytes()[:50])
    dumps = flight_recorder.read(paths)
    assert list(dumps.ranks) == [0]
    assert "nccl_trace_rank_1 was not read: it is not a flight record" in dumps.notes[0]


@pytest.mark.parametrize("name", ["trace", "trace_1732900000123456789.json"], ids=["no number", "a time"])
def test_lone_file_without_a_rank_in_its_name_is_refused(tmp_path, name):
    (path,) = write(tmp_path, done(1))
    with pytest.raises(UsageError, match="its name does not end in the number of a rank"):
        flight_recorder.read([path.rename(tmp_path / name)])


def test_two_files_of_a_rank_are_refused(tmp_path):
    (tmp_path / "old").mkdir()
    paths = [*write(tmp_path, done(1)), *write(tmp_path / "old", done(1))]
    with pytest.raises(UsageError, match="are of the same rank"):
        flight_recorder.read(paths)


def test_strange_groups_are_left_out(tmp_path):
    strange = {"a": 1, "b": {"ranks": "[x"}, "c": {"ranks": "[-1]"}, "d": {"ranks": [0, 2]}}
    dumps = read_one(tmp_path, pickle.dumps({**content(done(1)), "pg_config": strange}))
    assert dumps.ranks[0].groups == {"d": {0, 2}}
