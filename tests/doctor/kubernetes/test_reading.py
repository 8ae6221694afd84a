"""Tests of how doctor reads a cluster from an API server on loopback, and of its checks if it may not."""

import pytest

from tests.doctor.kubernetes.scene import AGENTS, daemon_set, monitor, namespace, of_chart, prometheus, rule, states
from tests.web.kubernetes.fake_api import FakeApi, pod
from zmon.doctor import examine_kubernetes
from zmon.doctor.kubernetes import checks_of
from zmon.schema.http_config import HttpConfig, TlsConfig
from zmon.web.kubernetes.api_server import ApiServer

CORE, OPERATOR = "/api/v1", "/apis/monitoring.coreos.com/v1"
OBJECTS = {
    f"{CORE}/namespaces/zmon-agents/pods": {"a": pod("zmon-agent-a", "10.0.0.1")},
    "/apis/apps/v1/namespaces/zmon-agents/daemonsets": {"agent": daemon_set()},
    f"{CORE}/namespaces": {"agents": of_chart("Namespace"), "zmon": namespace("zmon")},
    f"{OPERATOR}/prometheuses": {"own": prometheus()},
    f"{OPERATOR}/podmonitors": {"agent": monitor("PodMonitor")},
    f"{OPERATOR}/servicemonitors": {"hub": monitor("ServiceMonitor")},
    f"{OPERATOR}/prometheusrules": {"zmon": rule()},
}
CLUSTER_CHECKS = (
    "pods of agents", "DaemonSet zmon-agents/zmon-agent", "Pod Security zmon-agents",
    "PodMonitor zmon-agents/zmon-agent", "ServiceMonitor zmon/zmon-hub", "PrometheusRule zmon/zmon-zmon",
    "interval of zmon-agent", "interval of zmon-hub",
)  # fmt: skip
NOWHERE = "http://127.0.0.1:1"  # no server listens there


@pytest.fixture
def token(tmp_path):
    """Return the file with the token of the service account."""
    path = tmp_path / "token"
    path.write_text("token-1")
    return path


async def examined(token, agents=AGENTS, missing=None, refusals=None):
    """Return the checks of a cluster, and the queries of the requests for lists.

    The cluster is healthy, but has no paths that contain `missing`, and refuses what `refusals` says.
    """
    api = FakeApi()
    api.objects = {path: things for path, things in OBJECTS.items() if missing is None or missing not in path}
    api.refusals = refusals or {}
    async with api.serve():
        return await checks_of(api.account(token), agents), api.lists


async def test_every_check_is_armed_in_a_healthy_cluster(token):
    checks, lists = await examined(token)
    assert states(checks) == dict.fromkeys(CLUSTER_CHECKS, True)
    assert {query.get("labelSelector") for query in lists} == {None, AGENTS.selector}


async def test_checks_that_the_hub_may_not_make_are_unknown_and_name_the_missing_rule(token):
    refused = {("list", path): (403, "x is forbidden") for path in OBJECTS if not path.endswith("/pods")}
    checks, _ = await examined(token, refusals=refused)
    assert states(checks) == {
        "pods of agents": True,
        "DaemonSet of agents": None,
        "Pod Security zmon-agents": None,
        "Prometheus operator": None,
    }
    rules = " ".join(check.result for check in checks)
    assert 'a Role in the namespace zmon-agents with the rule {apiGroups: ["apps"], resources: [daemonsets]' in rules
    assert 'a ClusterRole with the rule {apiGroups: [""], resources: [namespaces], verbs: [list]}' in rules
    assert '{apiGroups: ["monitoring.coreos.com"], resources: [prometheuses], verbs: [list]}' in rules


async def test_missing_operator_is_absent_and_not_inert(token):
    checks, _ = await examined(token, missing="monitoring")
    assert states(checks)["Prometheus operator"] is None
    assert False not in states(checks).values()


async def test_without_agents_in_the_configuration_no_request_selects_pods(token):
    checks, lists = await examined(token, agents=None)
    assert states(checks)["pods of agents"] is None
    assert lists
    assert all("labelSelector" not in query for query in lists)


async def test_server_that_does_not_answer_is_one_inert_check(token):
    server = FakeApi()
    server.url = NOWHERE
    (check,) = await checks_of(server.account(token), AGENTS)
    assert (check.name, check.armed) == ("Kubernetes", False)
    assert "Connection refused" in check.result


async def test_checks_of_a_pod_leave_out_its_node(token):
    api = FakeApi()
    api.objects = OBJECTS
    async with api.serve():
        checks = await examine_kubernetes(api.account(token), AGENTS, NOWHERE, NOWHERE)
    assert [check.name for check in checks] == [*CLUSTER_CHECKS, "hub", "Prometheus"]


async def test_missing_ca_file_is_one_inert_check(tmp_path):
    http = HttpConfig(tls_config=TlsConfig(ca_file=tmp_path / "ca.crt"))
    (check,) = await checks_of(ApiServer("https://127.0.0.1:1", http), AGENTS)
    assert (check.name, check.armed) == ("Kubernetes", False)
    assert "ca.crt: No such file" in check.result
