"""Tests of the checks of thresholds and leases. Changed values are shown with their default."""

import msgspec
import pytest

from tests.doctor.scene import agent_status
from zmon.doctor.check import Check
from zmon.doctor.thresholds import checks
from zmon.schema.api import HubHealth
from zmon.schema.job_snapshot import AgentStatus
from zmon.schema.thresholds import Threshold

LONGER = Threshold("leases.eval_seconds", 1800.0, 3600.0)


def agents(*leases):
    """Return one agent for each tuple of changed leases."""
    return [agent_status(number, leases=changed) for number, changed in enumerate(leases)]


def threshold_checks(*leases, thresholds=()):
    """Return the checks of a hub with these changed thresholds; `leases` has those of each agent."""
    return checks(HubHealth(True, agents(*leases), thresholds=list(thresholds)))


def test_defaults_have_a_single_line_each():
    assert threshold_checks((), ()) == [
        Check("thresholds", True, "the hub uses the defaults"),
        Check("leases", True, "the defaults on 2 agents"),
    ]


def test_threshold_that_the_site_changed_is_shown_with_its_default():
    (check, _) = threshold_checks((), thresholds=[Threshold("detectors.straggler.slower_ratio", 0.2, 0.3)])
    assert check == Check("threshold", True, "detectors.straggler.slower_ratio is 0.3 (default 0.2)")


def test_lease_that_all_agents_changed_has_a_single_line():
    (_, check) = threshold_checks((LONGER,), (LONGER,))
    assert check == Check("lease", True, "leases.eval_seconds is 3600 (default 1800), on 2 agents")


@pytest.mark.parametrize("other", [(), (Threshold("leases.eval_seconds", 1800.0, 60.0),)])
def test_agents_that_differ_are_named(other):
    (_, check) = threshold_checks((LONGER,), other, (LONGER,))
    theirs = "60 (default 1800)" if other else "the default"
    assert (check.name, check.armed) == ("lease", None)
    assert "leases.eval_seconds differs: " in check.result
    assert "3600 (default 1800) on node-0, node-2" in check.result
    assert f"{theirs} on node-1" in check.result
    assert "all its ranks are overdue" in check.next_step


def test_older_agents_and_hubs_are_not_reported_as_using_defaults():
    """Agents and hubs of zmon 0.1.0 do not report thresholds."""
    (hub,) = checks(msgspec.json.decode('{"healthy": true, "agents": []}', type=HubHealth))
    assert (hub.armed, hub.result) == (None, "this hub does not report its thresholds")
    (_, reported, unknown) = threshold_checks((), None)
    assert reported.result == "the defaults on 1 agent"
    assert (unknown.armed, unknown.result) == (None, "not reported by node-1")


def test_agent_that_never_answered_is_not_reported_as_older():
    never = AgentStatus("http://node-0:9780", host=None, reachable=False, silent_seconds=9.0)
    (hub,) = checks(HubHealth(False, [never], thresholds=[]))
    assert hub.name == "thresholds"
