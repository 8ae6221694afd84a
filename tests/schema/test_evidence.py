"""Tests of evidence as JSON. Unset fields are absent, None is null, and unknown keys are ignored."""

import msgspec

from tests.build import evidence
from zmon.schema.evidence import Checkpoint, Evidence, FlightRow


def test_unset_fields_are_absent_and_none_is_null():
    gathered = evidence(exit_status=None, in_flight={"0": {"error": "its process is gone"}, "1": {"num_pending": 0}})
    body = b'{"exit_status":null,"in_flight":{"0":{"error":"its process is gone"},"1":{"num_pending":0}}}'
    assert msgspec.json.encode(gathered) == body
    assert msgspec.json.decode(body, type=Evidence) == gathered
    assert gathered.names == ("exit_status", "in_flight")
    assert msgspec.json.encode(Evidence()) == b"{}"


def test_keys_of_a_newer_zmon_are_ignored():
    body = b'{"pids":[7],"by":"the kernel","last_checkpoint":{"seconds_ago":2.0,"path":"/c"}}'
    assert msgspec.json.decode(body, type=Evidence) == Evidence(pids=(7,), last_checkpoint=Checkpoint(2.0))


def test_later_evidence_replaces_only_the_fields_it_sets():
    before = Evidence(pids=(7,), exit_status="exit code 1", stacks={})
    after = before.updated(Evidence(exit_status=None, group="0"))
    assert after == Evidence(pids=(7,), exit_status=None, group="0", stacks={})


def test_bulky_fields_are_dropped_and_named():
    light = Evidence(pids=(7,), ranks=(), in_flight={"0": FlightRow()}).without_bulk()
    assert light == Evidence(pids=(7,), dropped=("ranks", "in_flight"))
    assert light.without_bulk() is light
