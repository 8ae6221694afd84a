"""Tests of who reads what a job prints: stacks and stderr in findings."""

import os

import pytest

from tests.build import finding
from tests.hostile.users import ANN, BOB
from zmon.hub.api.privacy import may_read, without_output
from zmon.web.asker import Asker

STACKS = {"2": {"stack": "File x"}}
OF_ANN = finding(evidence={"stacks": STACKS, "owners": [ANN]})


@pytest.mark.parametrize("uid", [0, os.geteuid(), ANN])
def test_root_the_hub_and_the_user_of_the_job_may_read(uid):
    assert may_read(Asker(uid), OF_ANN)


@pytest.mark.parametrize("asker", [Asker(BOB), Asker(None, "the connection is closed")], ids=["other", "unknown"])
def test_other_users_may_not_read(asker):
    assert not may_read(asker, OF_ANN)
    assert not may_read(asker, None)


@pytest.mark.parametrize("owners", [[ANN, BOB], [None], None], ids=["two", "older-agent", "older-hub"])
def test_user_of_some_ranks_or_of_unknown_ones_may_not_read(owners):
    evidence = {"stderr_tail": {"2": {"text": "token", "error": None, "path": "/log", "shared": False}}}
    assert not may_read(Asker(ANN), finding(evidence=evidence | ({"owners": owners} if owners else {})))


def test_finding_without_output_is_for_everybody():
    assert may_read(Asker(BOB), finding())


def test_asker_from_another_machine_needs_the_role():
    asker = Asker(None, "10.0.0.3 is not a loopback address")
    assert not may_read(asker, OF_ANN)
    assert not may_read(asker._replace(roles=frozenset(("metrics", "read"))), OF_ANN)
    assert may_read(asker._replace(roles=frozenset(("evidence",))), OF_ANN)


def test_with_roles_the_role_decides_and_not_the_user_of_this_machine():
    for uid in (0, os.geteuid(), ANN):
        assert not may_read(Asker(uid, roles=frozenset(("read",))), OF_ANN)
        assert may_read(Asker(uid, roles=frozenset(("read", "evidence"))), OF_ANN)


def test_finding_for_others_lacks_stacks_and_stderr_and_says_so():
    tail = {"text": "token", "error": None, "path": "/log", "shared": False}
    full = finding(evidence={"stacks": {"2": {"stack": "File x"}}, "stderr_tail": {"2": tail}, "pids": [7]})
    short = without_output(full)
    assert short.evidence.names == ("pids", "dropped")
    assert short.evidence.dropped == ("stacks", "stderr_tail")
    assert short.summary == full.summary
