"""Tests of the decoder of a daemon's answer: what is wrong costs only itself, its rank or the report, never the hub."""

import json
from dataclasses import fields, replace

import msgspec
import pytest

from tests.build import JOB, NOW, agent_report, plan, rank_state, step_record, words
from tests.steps import steps_of
from zmon.schema.api.agent import AgentReport, Suspects, UnreadRank
from zmon.schema.api.received import Undecodable, decode
from zmon.schema.host import HostSample, NicSample, SourceStatus
from zmon.schema.limits import MAX_RANKS_OF_AGENT
from zmon.schema.steps import MAX_COLUMNS

NICS = (
    NicSample(
        "eth0", "tcp", up=True, speed_bytes_per_second=None, received_bytes=1, transmitted_bytes=2, errors={}
    ),
)  # fmt: skip
SOURCES = (
    SourceStatus(
        "boxes", up=True, absent=False, duration_seconds=0.1, last_success_time=NOW, num_errors=0, error=None
    ),
)  # fmt: skip
MISSING = object()  # in place of a value


def report_json(*ranks, **changes):
    """Return the report of an agent as plain data, to be changed by a test."""
    ranks = ranks or (rank_state(0), rank_state(1))
    sent = agent_report(*ranks, sample=HostSample(nics=NICS), sources=SOURCES, **changes)
    return json.loads(msgspec.json.encode(sent))


def received(report):
    """Return a report of plain data as the hub decodes it."""
    return decode(json.dumps(report).encode(), AgentReport)


def test_valid_report_is_decoded_unchanged():
    sent = agent_report(rank_state(0), records={JOB: {"uid-0": (step_record(1),)}}, plans={"uid-0": plan()})
    assert decode(msgspec.json.encode(sent), AgentReport) == sent


def test_rank_that_cannot_be_decoded_is_left_out_and_named():
    report = report_json()
    report["ranks"][1]["activity"] = ["a newer zmon"]
    result = received(report)
    assert [r.rank for r in result.ranks] == [0]
    assert result.left_out == ("rank 1 of job job: Expected `str`, got `array` - at `$.activity`",)
    (unread,) = result.unread
    assert (unread.job_id, unread.rank, unread.kind) == (JOB, 1, "report")


def test_rank_that_cannot_be_decoded_changes_nothing_else_of_the_report():
    report = report_json(
        rank_state(0), rank_state(1), cursor=9, monotonic=5.0, box_dir="/a", box_dirs=("/a", "/b"),
        plans={"uid-0": plan()}, plans_version="3", leases=(), unread=(UnreadRank(JOB, 7, "damaged", "cut", 9.0),),
        records={JOB: {"uid-0": (step_record(1),)}},
    )  # fmt: skip
    assert {*report} == {field.name for field in fields(AgentReport)}
    whole = received(report)
    report["ranks"][1]["activity"] = 5
    result = received(report)
    assert result.num_left_out == 1
    assert result.unread[0] == whole.unread[0]
    changed = {"ranks": whole.ranks, "unread": whole.unread, "num_left_out": 0, "left_out": ()}
    assert replace(result, **changed) == whole


def test_report_with_a_plans_version_that_is_too_long_is_refused():
    with pytest.raises(Undecodable, match="plans_version"):
        received({**report_json(), "plans_version": "x" * 33})


def test_number_of_left_out_parts_is_not_taken_from_the_agent():
    result = received({**report_json(), "num_left_out": 10**400, "left_out": ["forged"]})
    assert (result.num_left_out, result.left_out) == (0, ())


def test_source_of_another_form_is_left_out():
    report = report_json()
    report["sample"]["nics"] = {"eth0": 5}
    report["sample"]["quantum"] = [1]
    report["sources"].append({"name": 7})
    result = received(report)
    assert (result.sample, result.num_left_out) == (HostSample(), 2)
    assert len(result.ranks) == 2
    assert result.sources == SOURCES


def test_plan_of_another_form_is_left_out():
    report = report_json(plans={"uid-0": plan(), "uid-1": plan()})
    report["plans"]["uid-1"]["lookups"] = [1]
    result = received(report)
    assert ([*result.plans], result.num_left_out) == (["uid-0"], 1)


def test_steps_of_more_than_an_agent_can_have_are_left_out_by_job():
    records = {"uid-1": (step_record(1),)}
    wide = {"uid-0": (step_record(1, dict.fromkeys(map(str, range(MAX_COLUMNS)), 0.1)),)}
    result = received(report_json(records={JOB: wide, "other": records}))
    assert result.steps == {"other": (steps_of(records),)}
    (line,) = result.left_out
    assert line == f"steps of job {JOB}: it has {len(steps_of(wide).columns)} columns; zmon accepts {MAX_COLUMNS}"


def test_steps_of_many_jobs_are_left_out_beyond_the_limit_of_a_report(monkeypatch):
    monkeypatch.setattr("zmon.schema.steps.MAX_VALUES", 10)
    steps = (step_record(1),)
    result = received(report_json(records={"a": {"uid-0": steps}, "b": {"uid-1": steps}}))
    assert ([*result.steps], result.num_left_out) == (["a"], 1)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lease_seconds", MISSING),  # an older or newer agent has no such field
        *((field, 10**30) for field in ("step", "pid", "restart_count", "steps")),
        *(("totals", {"samples": total}) for total in (10**400, "many", None)),
        ("last_step_time", 1e300),  # no date
        ("world_size", 2_000_000_000),
        *(("rank", number) for number in (4, -1)),  # of a world of four
    ],
)
def test_missing_or_impossible_field_costs_only_its_rank(field, value):
    report = report_json()
    if value is MISSING:
        del report["ranks"][0][field]
    else:
        report["ranks"][0][field] = value
    result = received(report)
    assert ([r.rank for r in result.ranks], result.num_left_out) == ([1], 1)


@pytest.mark.parametrize("job_id", ["/../../../tmp/x", "..", "a\nb", "", "\x1b[2J"])
def test_rank_with_an_impossible_job_id_is_left_out_and_not_named(job_id):
    report = report_json()
    report["ranks"][0]["job_id"] = job_id
    result = received(report)
    assert ([r.rank for r in result.ranks], result.num_left_out, result.unread) == ([1], 1, ())


@pytest.mark.parametrize(
    "first_value",
    ["one", 10**400, 10**30, -(10**30), 1 << 62],
    ids=["a text", "10**400", "10**30", "-(10**30)", "2**62"],
)
def test_steps_of_another_form_or_with_numbers_beyond_the_limits_cost_only_their_job(first_value):
    """The hub adds and divides the numbers of all ranks: an overflow would cost it the page of all jobs."""
    records = {"uid-0": (step_record(1),)}
    report = report_json(records={JOB: records, "other": records})
    report["steps"][JOB][0]["columns"]["phase_forward"] = [first_value, ""]  # and the packed differences
    result = received(report)
    assert (result.steps, result.num_left_out) == ({"other": (steps_of(records),)}, 1)


def test_ranks_beyond_the_number_of_a_node_are_counted():
    (rank,) = report_json(rank_state(0))["ranks"]
    surplus = 7
    for last in (rank, {**rank, "activity": 5}):  # the second report is decoded rank by rank
        result = received({**report_json(), "ranks": [rank] * (MAX_RANKS_OF_AGENT + surplus - 1) + [last]})
        assert len(result.ranks) == MAX_RANKS_OF_AGENT
        assert result.num_left_out == surplus
        assert result.left_out[0].startswith("all ranks but 4,096")


def test_agent_speaks_for_its_own_host_only():
    result = received(report_json(rank_state(0), rank_state(1, host="node-b"), host="node-a"))
    assert {r.host for r in result.ranks} == {"node-a"}
    assert received(report_json(host="a;reboot\n")).host == "a_reboot_"


def test_texts_of_a_report_are_plain():
    last = words("exception", "ValueError", "bad\n\x1b[31mbatch")
    result = received(
        report_json(rank_state(0, report={"lo\x1b[2Jss\n": 1.0}, last_words=last, labels={"a\n": "\x07"}))
    )
    (state,) = result.ranks
    assert state.report == {"lo\\x1b[2Jss ": 1.0}
    assert state.labels == {"a ": "\\x07"}
    assert state.last_words.message == "bad\n\\x1b[31mbatch"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b"[" * 100_000, b'{"host": 5}', b"\xff\xfe", b'{"a":"\\'])
def test_body_that_is_no_report_raises_one_line(body):
    with pytest.raises(Undecodable) as caught:
        decode(body, AgentReport)
    assert "\n" not in str(caught.value)


def test_suspicion_with_an_invalid_job_id_is_refused():
    body = {"version": 1, "suspects": [{"job_id": "../x", "rank": 0, "reason": "exited"}]}
    with pytest.raises(Undecodable):
        decode(json.dumps(body).encode(), Suspects)
