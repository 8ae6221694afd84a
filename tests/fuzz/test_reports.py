"""Random reports of an agent: the hub decodes what it can, and no report ends a pass or takes much time or memory."""

import json
from pathlib import Path

import msgspec
import pytest

from tests.build import JOB, agent_report, killed, plan, rank_state, step_record, waiting
from tests.fuzz.draw import body, changed
from tests.fuzz.judging import judge
from tests.metrics.scene import FULL_HOST, SOURCES
from zmon.format import plain
from zmon.schema.api import Suspects
from zmon.schema.api.agent import AgentReport, RankEvidence
from zmon.schema.api.packed import Resting, pack, unpack
from zmon.schema.api.received import Undecodable, decode
from zmon.web import client
from zmon.web.responses import json_response

REPORTS = sorted((Path(__file__).parent / "found").glob("report-*.json"))
RANKS = (rank_state(0), waiting(1), killed(2), rank_state(3, report={"loss": None}, labels={"name": "a"}))
VALID = json.loads(
    msgspec.json.encode(
        agent_report(
            *RANKS, sample=FULL_HOST, sources=SOURCES, cursor=7, monotonic=5.0, plans={"uid-0": plan()},
            plans_version="1",
            records={JOB: {r.run_uid: tuple(map(step_record, (1, 2))) for r in RANKS}},
        )
    )
)  # fmt: skip
SUSPECTS = {"version": 1, "suspects": [{"job_id": JOB, "rank": 1, "reason": "stopped"}]}
EVIDENCE = {"job_id": JOB, "rank": 1, "stack": "f\n", "flight": {"pending": [], "num_pending": 0, "last": {"0": 1}}}


def decoded(raw, type_):
    """Return the answer, or None if it is refused with one line."""
    try:
        return decode(raw, type_)
    except Undecodable as error:
        assert plain(str(error)) == str(error)  # noqa: PT017 - most answers raise nothing
    return None


def pass_of_hub(raw):
    """Do with the JSON of a report what a pass of the hub does."""
    report = decoded(raw, AgentReport)
    if report is not None:
        judge(report, report)


def check_report(chance):
    """Change a report as JSON."""
    pass_of_hub(body(changed(VALID, chance), chance))


def check_packed(chance):
    """Change a packed report: its envelope, or some of its bytes."""
    valid = decode(json.dumps(VALID).encode(), AgentReport)
    raw = bytearray(pack(valid, ""))
    if chance.random() < 0.5:
        envelope = changed(msgspec.msgpack.decode(raw), chance)
        try:
            raw = bytearray(msgspec.msgpack.encode(envelope))
        except (OverflowError, UnicodeEncodeError):
            return  # no message has such a number or text
    else:
        for _ in range(chance.choice((1, 2, 8))):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
    try:
        report, resting = unpack(bytes(raw), Resting())
        same, _ = unpack(bytes(raw), resting)
    except Undecodable as error:
        assert plain(str(error)) == str(error)  # noqa: PT017 - many reports raise nothing
    else:
        judge(report, same)


def check_other_answer(chance):
    """Change an answer with suspects, and one with evidence."""
    for valid, type_ in ((SUSPECTS, Suspects), (EVIDENCE, RankEvidence)):
        raw = body(changed(valid, chance), chance)
        json_response(decoded(raw, type_))
        if (answer := decoded(raw, dict)) is not None:
            json_response(client.read_evidence(answer))


def test_valid_report_is_decoded_completely():
    report = decode(json.dumps(VALID).encode(), AgentReport)
    assert (len(report.ranks), report.num_left_out) == (4, 0)
    pass_of_hub(json.dumps(VALID).encode())


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_report_that_once_failed_is_decoded_or_refused(path):
    pass_of_hub(path.read_bytes())


@pytest.mark.parametrize("check", [check_report, check_packed, check_other_answer])
def test_random_reports_are_decoded_or_refused(check, check_random):
    check_random(check)
