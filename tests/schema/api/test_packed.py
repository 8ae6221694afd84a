"""Tests of packed reports: they say what the JSON says, and what seldom changes only once."""

from dataclasses import replace

import msgspec
import pytest

from tests.build import JOB, agent_report, dead, plan, rank_state, step_record, waiting, words
from tests.metrics.scene import FULL_HOST, SOURCES
from tests.steps import steps_of
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.packed import Resting, pack, unpack
from zmon.schema.api.received import Undecodable, decode
from zmon.schema.steps import Steps

RANKS = (
    waiting(0, 2.0), rank_state(1, labels={"name": "a"}, report={"loss": None, "auc": 0.7}),
    dead(2, 3.0, last_words=words("RuntimeError", "one\ntwo")), rank_state(3, role="stage", device_memory_peak_bytes=7),
)  # fmt: skip
STEPS = {JOB: (steps_of({r.run_uid: (step_record(1), step_record(2)) for r in RANKS}),)}
REPORT = agent_report(
    *RANKS, sample=FULL_HOST, sources=SOURCES, cursor=9, monotonic=5.0, plans={"uid-0": plan()}, plans_version="3"
)
MIN_RESTING_ROW_BYTES = 150  # what seldom changes about a rank has more than this
ENVELOPE = ("head", "version", "resting", "moving", "steps")  # the parts of a packed report, in their order


def as_json(report):
    """Return the report as a client of its JSON has it, without the totals of its ranks."""
    report = decode(msgspec.json.encode(report), AgentReport)
    return replace(report, ranks=tuple(replace(r, totals=None) for r in report.ranks))


def test_packed_report_says_what_its_json_says():
    report, _ = unpack(pack(REPORT, ""), Resting())
    assert report == as_json(REPORT)


def test_packed_report_has_the_steps_of_its_json():
    with_steps = replace(REPORT, steps=STEPS)
    report, _ = unpack(pack(with_steps, ""), Resting())
    assert report.steps == as_json(with_steps).steps == STEPS
    assert report.steps[JOB][0].run_uids == tuple(r.run_uid for r in RANKS)
    assert report.steps[JOB][0].num_rows == 8


def test_what_seldom_changes_is_sent_once():
    first = pack(REPORT, "")
    report, resting = unpack(first, Resting())
    second = pack(REPORT, resting.version)
    assert len(second) < len(first) - MIN_RESTING_ROW_BYTES * len(RANKS)
    assert unpack(second, resting) == (report, resting)


@pytest.mark.parametrize(
    "change", [{"labels": {"name": "b"}}, {"exit_status": "exit code 1", "alive": False}, {"run_uid": "uid-new"}]
)
def test_what_seldom_changes_is_sent_again_after_a_change(change):
    _, resting = unpack(pack(REPORT, ""), Resting())
    later = replace(REPORT, ranks=(replace(RANKS[0], **change), *RANKS[1:]))
    report, newer = unpack(pack(later, resting.version), resting)
    assert report.ranks == as_json(later).ranks
    assert newer.version != resting.version


def test_change_of_step_and_phase_does_not_send_the_rest_again():
    _, resting = unpack(pack(REPORT, ""), Resting())
    later = replace(REPORT, ranks=tuple(replace(r, step=99, phase="data") for r in RANKS))
    report, same = unpack(pack(later, resting.version), resting)
    assert {r.step for r in report.ranks} == {99}
    assert same is resting


def test_report_without_what_the_client_lacks_is_refused():
    _, resting = unpack(pack(REPORT, ""), Resting())
    with pytest.raises(Undecodable, match="never sent"):
        unpack(pack(REPORT, resting.version), Resting())


@pytest.mark.parametrize("changes", [{"moving": b"[]"}, {"version": "x" * 33}], ids=["no rows", "version of no agent"])
def test_envelope_that_no_agent_sends_is_refused(changes):
    envelope = msgspec.msgpack.decode(pack(REPORT, ""))
    for name, value in changes.items():
        envelope[ENVELOPE.index(name)] = value
    with pytest.raises(Undecodable):
        unpack(msgspec.msgpack.encode(envelope), Resting())


def test_few_bytes_of_many_jobs_do_not_become_gigabytes():
    """Columns that are the same in all rows have a few bytes, and eight per row in the hub."""
    columns = {"step": (5, b""), **{f"phase_{number}": (1, b"") for number in range(12)}}
    steps = Steps(tuple(map(str, range(300))), (1024,) * 300, columns)
    valid = replace(REPORT, steps={"a": (steps,)})
    assert unpack(pack(valid, ""), Resting())[0].steps == {"a": (steps,)}
    report, _ = unpack(pack(replace(valid, steps={"a": (steps,), "b": (steps,)}), ""), Resting())
    assert ([*report.steps], report.num_left_out) == (["a"], 1)
    assert "values" in report.left_out[0]


def test_rank_that_cannot_exist_is_left_out():
    report, _ = unpack(pack(agent_report(rank_state(0), rank_state(7)), ""), Resting())
    assert [r.rank for r in report.ranks] == [0]
    assert report.left_out == ("rank 7 of job job: it claims to be rank 7 of 4",)


def test_what_is_left_out_of_the_head_is_counted_with_the_ranks():
    envelope = msgspec.msgpack.decode(pack(agent_report(rank_state(0), rank_state(7)), ""))
    head = msgspec.json.decode(envelope[ENVELOPE.index("head")])
    changes = {"sources": [{"name": 5}], "sample": {"gpus": [{"gpu": 7}]}, "plans": {"uid-0": "nonsense"}}
    envelope[ENVELOPE.index("head")] = msgspec.json.encode(
        {**head, **changes, "num_left_out": 90, "left_out": ["forged"]}
    )
    report, _ = unpack(msgspec.msgpack.encode(envelope), Resting())
    assert report.num_left_out == 4
    left_out = ["source gpus", "a plan", "the state of a source", "rank 7 of job job"]
    assert [line.partition(":")[0] for line in report.left_out] == left_out


def test_texts_of_a_packed_report_are_plain():
    report, _ = unpack(pack(agent_report(rank_state(0, labels={"name": "a\x1b[2J"}, phase="\x9bx")), ""), Resting())
    (state,) = report.ranks
    assert (state.labels, state.phase) == ({"name": "a\\x1b[2J"}, "\\x9bx")
