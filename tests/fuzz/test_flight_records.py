"""Random dumps of torch's flight recorder: the agent and `zmon analyze` refuse them with one line, or read them."""

import copy
import json
import pickle

import msgspec

from tests.fuzz.draw import body, changed, damaged
from tests.job.test_flight import dump, entry
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
    """Read a random dump as the agent does. It is a record that can be sent, or an error of one line."""
    raw = body(changed(VALID, chance), chance)
    record, reason = flight.read([raw], 1.8e9)
    assert record is not None or reason
    assert "\n" not in (reason or "")
    json_response(record)


def stored_checker(folder):
    """Return a check that stores two random dumps in the folder and analyzes them as `zmon analyze` does."""

    def check(chance):
        for rank in (0, 1):
            content = changed(VALID, chance) if chance.random() < 0.8 else copy.deepcopy(VALID)
            raw = body(content, chance) if chance.random() < 0.7 else damaged(pickle.dumps(content), chance)
            (folder / f"nccl_trace_rank_{rank}").write_bytes(raw)
        paths = sorted(folder.iterdir())
        for path in paths:
            flight_recorder.is_dump(path)
        try:
            dumps = flight_recorder.read(paths)
        except UsageError as error:
            line = str(error)
        else:
            line = ""
            msgspec.json.encode(analyze_dumps(dumps.ranks, "job", dumps.notes))
        assert plain(line) == line

    return check


def test_agent_reads_or_refuses_random_flight_records(check_random):
    check_random(check_record)


def test_analyze_reads_or_refuses_random_flight_records(tmp_path, check_random):
    check_random(stored_checker(tmp_path))
