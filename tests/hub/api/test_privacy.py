"""Tests of who may read what a job prints: stacks and stderr in findings, and the line about its end."""

import os

import msgspec
import pytest

from tests.build import finding, raised, snapshot
from tests.hostile.users import ANN, BOB
from zmon.hub.api.privacy import may_read, may_read_end, without_output
from zmon.job.outcome import ended_launch
from zmon.web.asker import Asker

STACKS = {"2": {"stack": "File x"}}
OF_ANN = finding(evidence={"stacks": STACKS, "owners": [ANN]})
AWAY = Asker(None, "10.0.0.3 is not a loopback address")
TAIL = {"stderr_tail": {"2": {"text": "token", "error": None, "path": "/log", "shared": False}}}
READER = {"roles": frozenset({"metrics", "read"})}
WITNESS = {"roles": frozenset({"read", "evidence"})}


@pytest.mark.parametrize("uid", [0, os.geteuid(), ANN])
def test_root_the_hub_and_the_user_of_the_job_may_read_unless_roles_decide(uid):
    assert may_read(Asker(uid), OF_ANN)
    assert not may_read(Asker(uid, **READER), OF_ANN)
    assert may_read(Asker(uid, **WITNESS), OF_ANN)


@pytest.mark.parametrize(
    ("asker", "finding_", "allowed"),
    [
        pytest.param(Asker(BOB), OF_ANN, False, id="another user"),
        pytest.param(Asker(BOB), None, False, id="unknown finding"),
        pytest.param(Asker(None, "the connection is closed"), OF_ANN, False, id="unknown user"),
        pytest.param(AWAY, OF_ANN, False, id="another machine"),
        pytest.param(AWAY._replace(**READER), OF_ANN, False, id="role without evidence"),
        pytest.param(AWAY._replace(**WITNESS), OF_ANN, True, id="evidence"),
        pytest.param(Asker(BOB), finding(), True, id="nothing printed"),
        pytest.param(Asker(ANN), finding(evidence=TAIL | {"owners": [ANN, BOB]}), False, id="two owners"),
        pytest.param(Asker(ANN), finding(evidence=TAIL | {"owners": [None]}), False, id="older agent"),
        pytest.param(Asker(ANN), finding(evidence=TAIL), False, id="older hub"),
    ],
)
def test_others_may_read_only_with_the_role_or_what_no_job_printed(asker, finding_, allowed):
    assert may_read(asker, finding_) is allowed


def test_finding_for_others_says_that_stacks_and_stderr_are_dropped():
    full = finding(evidence={"stacks": STACKS, **TAIL, "pids": [7]})
    short = without_output(full)
    assert short.evidence.names == ("pids", "dropped")
    assert short.evidence.dropped == ("stacks", "stderr_tail")
    assert short.summary == full.summary


FAILED = snapshot(*(raised(rank, 9.0) for rank in range(4)))
END = msgspec.structs.replace(ended_launch(FAILED, fault=None, view=None), owner=ANN)


@pytest.mark.parametrize(
    ("asker", "allowed"),
    [
        pytest.param(Asker(ANN), True, id="its user"),
        pytest.param(Asker(0), True, id="root"),
        pytest.param(Asker(os.geteuid()), True, id="the user of the hub"),
        pytest.param(Asker(BOB), False, id="another user"),
        pytest.param(AWAY, False, id="another machine"),
        pytest.param(Asker(ANN, **READER), False, id="its user with the role read"),
        pytest.param(Asker(None, **WITNESS), True, id="the role evidence"),
    ],
)
def test_line_of_a_job_that_ended_is_for_its_user_and_for_the_role_evidence(asker, allowed):
    assert may_read_end(asker, END) is allowed
