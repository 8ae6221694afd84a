"""Tests of the check of acts: agents allow what rules of the hub enforce. Unknown is not a refusal."""

import pytest

from tests.doctor.scene import agent_status
from zmon.doctor.acts import checks
from zmon.schema.api import HubHealth
from zmon.schema.job_snapshot import AgentStatus

NOT_ALLOWED, NO_ROLE = "the agent runs without --allow-actions", "the client lacks the role actions"


def checks_of(*refuses_acts, enforced=("frozen",)):
    """Return the checks for agents that report this; node-9 never answered."""
    agents = [agent_status(number, refuses_acts=refuses) for number, refuses in enumerate(refuses_acts)]
    never = AgentStatus("http://node-9:9780", host=None, reachable=False, silent_seconds=9.0)
    return checks(HubHealth(True, [*agents, never], enforced=enforced))


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
    (check,) = checks_of(*refuses_acts)
    assert (check.armed, check.result) == expected


def test_next_step_names_option_and_role():
    (check,) = checks_of(NOT_ALLOWED)
    assert "--allow-actions" in check.next_step
    assert "role actions" in check.next_step


@pytest.mark.parametrize(
    ("refuses_acts", "enforced"),
    [
        pytest.param((NOT_ALLOWED, None), (), id="rules only observe"),
        pytest.param((NOT_ALLOWED, None), None, id="older hub"),
        pytest.param((), ("frozen",), id="no agent answered"),
    ],
)
def test_nothing_is_checked_if_no_enforced_rule_or_no_agent_is_known(refuses_acts, enforced):
    assert checks_of(*refuses_acts, enforced=enforced) == []
