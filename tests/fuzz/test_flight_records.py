"""Random dumps of torch's flight recorder: the agent and `zmon analyze` refuse them with one line, or read them."""

import json
import pickle
from functools import partial

import msgspec

from tests.fuzz.draw import body, changed, damaged
from tests.job.test_flight import NOW, dump, entry
from zmon.errors import UsageError
from zmon.format import plain
from zmon.job import flight
from zmon.offline.analyze.collectives import analyze_dumps
from zmon.offline.analyze.formats import flight_recorder
from zmon.web.responses import json_response

VALID = {
    **json.loads(dump(entry(1), entry(2, retired=True), entry(3, name="nccl:all_to_all", group="1"))),
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default", "ranks": "[0, 1]"}},
}


def check_record(chance):
    """Read a random dump as the agent does: the result is a record that can be sent, or a reason in one line."""
    raw = body(changed(VALID, chance), chance)
    record, reason = flight.read([raw], NOW)
    assert (record is None) == bool(reason)
    assert "\n" not in (reason or "")
    json_response(record)  # must not raise


def check_stored(folder, chance):
    """Store two random dumps in the folder, and analyze them as `zmon analyze` does."""
    for rank in (0, 1):  # most dumps are changed, and most are JSON
        content = changed(VALID, chance) if chance.random() < 0.8 else VALID
        raw = body(content, chance) if chance.random() < 0.7 else damaged(pickle.dumps(content), chance)
        (folder / f"nccl_trace_rank_{rank}").write_bytes(raw)
    paths = sorted(folder.iterdir())
    for path in paths:
        flight_recorder.is_dump(path)  # must not raise
    try:
        dumps = flight_recorder.read(paths)
    except UsageError as error:
        assert plain(str(error)) == str(error)  # noqa: PT017 - most dumps raise nothing
    else:
        msgspec.json.encode(analyze_dumps(dumps.ranks, "job", dumps.notes))  # must not raise


def test_agent_and_analyze_read_the_unchanged_dump(tmp_path):
    record, _ = flight.read([json.dumps(VALID).encode()], NOW)
    assert record.last == {"gloo:0": 2}
    paths = [tmp_path / f"nccl_trace_rank_{rank}" for rank in (0, 1)]
    for path in paths:
        path.write_bytes(pickle.dumps(VALID))
    dumps = flight_recorder.read(paths)
    assert (dumps.ranks.keys(), dumps.notes) == ({0, 1}, [])


def test_agent_reads_or_refuses_random_flight_records(check_random):
    check_random(check_record)


def test_analyze_reads_or_refuses_random_flight_records(tmp_path, check_random):
    check_random(partial(check_stored, tmp_path))
