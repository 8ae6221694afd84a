"""What a site changed stands there with default and value, and where agents differ."""

import msgspec
import pytest

import zmon
from zmon.doctor.check import Check
from zmon.doctor.thresholds import checks
from zmon.schema.agent import AgentStatus
from zmon.schema.api import HubHealth
from zmon.schema.thresholds import Threshold

LONGER = Threshold("leases.eval_seconds", 1800.0, 3600.0)


def agents(*leases):
    """An agent for each: what its site changed of the leases."""
    return [
        AgentStatus(f"http://node-{n}:9780", f"node-{n}", True, 0.0, version=zmon.__version__, leases=changed)
        for n, changed in enumerate(leases)
    ]


def found(*leases, thresholds=()):
    return checks(HubHealth(True, agents(*leases), thresholds=list(thresholds)))


def test_defaults_are_a_line_each():
    assert found((), ()) == [
        Check("thresholds", True, "the hub judges by the defaults"),
        Check("leases", True, "the defaults on 2 agents"),
    ]


def test_threshold_that_the_site_changed_is_shown_with_its_default():
    (check, _) = found((), thresholds=[Threshold("detectors.straggler.slower_ratio", 0.2, 0.3)])
    assert check == Check("threshold", True, "detectors.straggler.slower_ratio is 0.3 (default 0.2)")


def test_lease_that_all_agents_changed_is_one_line():
    check = found((LONGER,), (LONGER,))[1]
    assert check == Check("lease", True, "leases.eval_seconds is 3600 (default 1800), on 2 agents")


@pytest.mark.parametrize("other", [(), (Threshold("leases.eval_seconds", 1800.0, 60.0),)])
def test_agents_that_differ_are_named(other):
    (_, check) = found((LONGER,), other, (LONGER,))
    theirs = "60 (default 1800)" if other else "the default"
    assert (check.name, check.armed) == ("lease", None)
    assert "leases.eval_seconds differs: " in check.found
    assert "3600 (default 1800) on node-0, node-2" in check.found
    assert f"{theirs} on node-1" in check.found
    assert "all its ranks are overdue" in check.next_step


def test_who_does_not_tell_has_no_defaults_for_that():
    """Agents and hubs of 0.1.0."""
    (hub,) = checks(msgspec.json.decode('{"healthy": true, "agents": []}', type=HubHealth))
    assert (hub.armed, hub.found) == (None, "this hub does not tell its thresholds")
    (_, known, unknown) = found((), None)
    assert known.found == "the defaults on 1 agent"
    assert (unknown.armed, unknown.found) == (None, "not told by node-1")


def test_agent_that_never_answered_is_no_older_one():
    never = AgentStatus("http://node-0:9780", None, False, 9.0)
    (hub,) = checks(HubHealth(False, [never], thresholds=[]))
    assert hub.name == "thresholds"
