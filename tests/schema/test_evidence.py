"""Tests of evidence as JSON. Unset fields are absent, None is null, and unknown keys are ignored."""

from collections import defaultdict

import msgspec
import pytest

from tests.build import evidence, finding
from zmon.detectors import ALL
from zmon.detectors.unread import UNREAD
from zmon.schema.api.findings import FindingList
from zmon.schema.evidence import (
    EVIDENCE,
    Checkpoint,
    Evidence,
    SlowdownEvidence,
    StallEvidence,
    StragglerEvidence,
)
from zmon.schema.finding import decode_finding
from zmon.schema.gathered import FlightRow


def test_unset_fields_are_absent_and_none_is_null():
    gathered = evidence(exit_status=None, in_flight={"0": {"error": "its process is gone"}, "1": {"num_pending": 0}})
    body = b'{"exit_status":null,"in_flight":{"0":{"error":"its process is gone"},"1":{"num_pending":0}}}'
    assert msgspec.json.encode(gathered) == body
    assert msgspec.json.decode(body, type=StallEvidence) == gathered
    assert gathered.names == ("exit_status", "in_flight")
    assert msgspec.json.encode(Evidence()) == b"{}"


def test_keys_of_a_newer_zmon_are_ignored():
    body = b'{"pids":[7],"by":"the kernel","last_checkpoint":{"seconds_ago":2.0,"path":"/c"}}'
    assert msgspec.json.decode(body, type=StallEvidence) == StallEvidence(pids=(7,), last_checkpoint=Checkpoint(2.0))


def test_later_evidence_replaces_only_the_fields_it_sets():
    before = StallEvidence(pids=(7,), exit_status="exit code 1", stacks={})
    after = before.updated(StallEvidence(exit_status=None, group="0"))
    assert after == StallEvidence(pids=(7,), exit_status=None, group="0", stacks={})
    assert before.updated(Evidence(stacks={})).pids == (7,)  # the hub gathers for any detector


def test_bulky_fields_are_dropped_and_named():
    light = StallEvidence(pids=(7,), ranks=(), in_flight={"0": FlightRow()}).without_bulk()
    assert light == StallEvidence(pids=(7,), dropped=("ranks", "in_flight"))
    assert light.without_bulk() is light


def test_decoded_evidence_is_of_the_class_of_its_detector():
    written = finding(detector="straggler", evidence=StragglerEvidence(step_seconds=0.5, ranks=()))
    read = decode_finding(msgspec.json.encode(written))
    assert read == written
    assert read.evidence_of(StragglerEvidence).step_seconds == 0.5
    assert read.evidence_of(StallEvidence) == StallEvidence()
    (listed,) = msgspec.json.decode(msgspec.json.encode(FindingList([written])), type=FindingList).findings
    assert listed == written


def test_decoded_evidence_loses_the_fields_of_other_detectors():
    read = finding(detector="slowdown", evidence={"pids": [7], "samples": None})
    assert read.evidence == SlowdownEvidence(samples=None)


def test_evidence_of_an_unknown_detector_keeps_its_fields():
    newer = finding(detector="weather", evidence={"pids": [7], "step_seconds": 0.5, "ranks": []})
    again = decode_finding(msgspec.json.encode(newer))
    assert again == newer
    assert again.evidence.names == ("pids", "step_seconds", "ranks")


def test_evidence_without_a_field_becomes_that_of_the_detector():
    assert finding(evidence=Evidence()).evidence == StallEvidence()


def test_a_detector_cannot_set_a_field_of_another_one():
    with pytest.raises(TypeError, match="pids"):
        finding(detector="slowdown", evidence=StallEvidence(pids=(7,)))


def test_each_detector_has_its_class():
    assert EVIDENCE.keys() == {*(detector.name for detector in ALL), UNREAD}


def test_a_field_has_one_type_and_one_key_in_all_classes():
    types_and_keys = defaultdict(set)  # by name of a field
    for kind in EVIDENCE.values():
        for field in msgspec.structs.fields(kind):
            types_and_keys[field.name].add((str(field.type), field.encode_name))
    assert [name for name, pairs in types_and_keys.items() if len(pairs) > 1] == []
