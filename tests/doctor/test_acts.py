"""Tests of the check of acts: agents allow what rules of the hub enforce. Unknown is not a refusal."""

import msgspec
import pytest

import zmon
from zmon.doctor.acts import checks
from zmon.schema.api import HubHealth
from zmon.schema.job_snapshot import AgentStatus

NOT_ALLOWED, NO_ROLE = "the agent runs without --allow-actions", "the client lacks the role actions"


def results(*refuses_acts, enforced=("frozen",)):
    """Return the results for agents that report this; node-9 never answered."""
    agents = [
        AgentStatus(f"http://node-{n}:9780", f"node-{n}", True, 0.0, version=zmon.__version__, refuses_acts=refuses)
        for n, refuses in enumerate(refuses_acts)
    ]
    never = AgentStatus("http://node-9:9780", None, False, 9.0)
    return [(check.armed, check.result) for check in checks(HubHealth(True, [*agents, never], enforced=enforced))]


@pytest.mark.parametrize(
    ("refuses_acts", "expected"),
    [
        (("", ""), (True, "enforced: frozen; allowed by 2 agents")),
        (("", NOT_ALLOWED), (False, f"enforced: frozen; refused by node-1 ({NOT_ALLOWED})")),
        (
            (NOT_ALLOWED, NO_ROLE, NOT_ALLOWED, None),
            (False, f"enforced: frozen; refused by node-0, node-2 ({NOT_ALLOWED}), node-1 ({NO_ROLE})"),
        ),
        (("", None), (None, "enforced: frozen; not reported whether allowed by node-1")),
    ],
)
def test_agents_that_refuse_what_a_rule_enforces_are_inert(refuses_acts, expected):
    assert results(*refuses_acts) == [expected]


def test_next_step_names_option_and_role():
    status = AgentStatus("http://node-0:9780", "node-0", True, 0.0, version="1", refuses_acts=NOT_ALLOWED)
    (check,) = checks(HubHealth(True, [status], enforced=["frozen"]))
    assert "--allow-actions" in check.next_step
    assert "role actions" in check.next_step


@pytest.mark.parametrize("enforced", [(), None], ids=["rules only observe", "older hub"])
def test_agents_that_refuse_are_quiet_if_no_rule_is_known_to_be_enforced(enforced):
    assert results(NOT_ALLOWED, None, enforced=enforced) == []


def test_hub_without_an_agent_that_answered_is_quiet():
    assert results() == []


def test_older_hub_does_not_report_enforced_rules():
    health = msgspec.json.decode('{"healthy": true, "agents": []}', type=HubHealth)
    assert health.enforced is None
