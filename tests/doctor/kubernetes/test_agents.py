"""Tests of the checks of pods, DaemonSets and Pod Security."""

import pytest

from tests.doctor.kubernetes.scene import by_name, cluster, daemon_set, namespace, states, typed
from tests.web.kubernetes.fake_api import pod
from zmon.doctor.kubernetes.agents import ENFORCE, beyond_baseline, checks
from zmon.doctor.kubernetes.objects import DaemonSet, Namespace
from zmon.errors import Forbidden
from zmon.web.kubernetes.agent_pods import Pod

DAEMON_SET, SECURITY = "DaemonSet zmon-agents/zmon-agent", "Pod Security zmon-agents"
REFUSED = Forbidden("cannot list x", "x is forbidden (403)")
PLAIN = {"metadata": {"name": "zmon-agent", "namespace": "zmon-agents"}, "spec": {"template": {"spec": {}}}}


def enforced(level, *daemon_sets):
    """Return the check of a namespace with this level."""
    labels = {} if level is None else {ENFORCE: level}
    things = typed(Namespace, namespace("zmon-agents", **labels))
    changes = {"daemon_sets": typed(DaemonSet, *daemon_sets)} if daemon_sets else {}
    return by_name(checks(cluster(namespaces=things, **changes)), SECURITY)


MISSING = {  # changes of a healthy cluster, the check of what is missing, whether it is armed, and a part of its result
    "pods": (
        {"pods": ()}, "pods of agents", False,
        "no pod has the labels app.kubernetes.io/instance=zmon,app.kubernetes.io/component=agent",
    ),
    "addresses of pods": (
        {"pods": typed(Pod, pod("a", phase="Pending"))}, "pods of agents", False, "zmon-agents, 0 with an address"
    ),
    "DaemonSet": ({"daemon_sets": ()}, "DaemonSet of agents", None, "has none with the labels"),
    "namespace": ({"namespaces": ()}, SECURITY, False, "there is no such namespace"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "name", "armed", "part"), MISSING.values(), ids=MISSING)
def test_check_of_what_is_missing_says_so(changes, name, armed, part):
    check = by_name(checks(cluster(**changes)), name)
    assert check.armed is armed
    assert part in check.result


@pytest.mark.parametrize(
    ("numbers", "armed", "part"),
    [
        ({}, True, "3 pods ready"),
        ({"ready": 2}, False, "1 of 3 pods are not ready"),
        ({"current": 0, "ready": 0}, False, "3 of 3 nodes have no pod; Pod Security or a quota may refuse it"),
        ({"desired": 0, "current": 0, "ready": 0}, False, "no node fits"),
        ({"generation": 2, "ready": 0}, None, "has just been changed"),
    ],
)
def test_daemon_set_is_armed_if_each_node_has_a_ready_agent(numbers, armed, part):
    check = by_name(checks(cluster(daemon_sets=typed(DaemonSet, daemon_set(**numbers)))), DAEMON_SET)
    assert check.armed is armed
    assert part in check.result


def test_namespace_that_refuses_the_agents_is_inert_with_the_command():
    check = enforced("baseline")
    assert check.armed is False
    for need in ("hostNetwork", "hostPID", "hostPath volumes", "hostPort", "SYS_PTRACE"):
        assert need in check.result
    assert "privileged containers" not in check.result
    assert check.next_step == f"Run `kubectl label --overwrite namespace zmon-agents {ENFORCE}=privileged`."
    assert enforced("restricted").armed is False


@pytest.mark.parametrize(
    ("level", "armed", "part"),
    [
        ("privileged", True, "every pod may run"),
        ("baseline", True, "enforce is baseline"),
        ("restricted", None, "whether it refuses agents is unknown"),
        (None, None, "the cluster's default decides"),
    ],
)
def test_agents_without_rights_run_below_privileged(level, armed, part):
    check = enforced(level, PLAIN)
    assert check.armed is armed
    assert part in check.result


def test_objects_that_may_not_be_read_are_unknown():
    refused = cluster(pods=REFUSED, daemon_sets=REFUSED, namespaces=REFUSED)
    assert states(checks(refused)) == {"pods of agents": None, "DaemonSet of agents": None, SECURITY: None}
    assert all("x is forbidden (403)" in check.result for check in checks(refused))


def test_agents_that_are_not_named_are_unknown_with_the_option_that_names_them():
    (check,) = checks(cluster(agents=None))
    assert check.armed is None
    assert "--agents-kubernetes" in check.next_step


@pytest.mark.parametrize(
    ("spec", "need"),
    [
        ({"hostIPC": True}, "hostIPC"),
        ({"containers": [{"name": "a", "securityContext": {"privileged": True}}]}, "privileged containers"),
        ({"initContainers": [{"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}, "SYS_ADMIN"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/run/zmon"}}]}, "hostPath volumes"),
    ],
)
def test_right_beyond_baseline_is_named(spec, need):
    (changed,) = typed(DaemonSet, PLAIN | {"spec": {"template": {"spec": spec}}})
    assert beyond_baseline(changed.spec.template.spec) == [need]
