"""Tests of `zmon doctor --kubernetes` with an API server on loopback."""

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


async def examined(tmp_path, agents=AGENTS, missing="nothing", refusals=None):
    """Return the checks of a cluster, and the queries of the requests for lists.

    The cluster is healthy, but has no paths that contain `missing`, and refuses what `refusals` says.
    """
    (tmp_path / "token").write_text("token-1")
    api = FakeApi()
    api.objects = {path: things for path, things in OBJECTS.items() if missing not in path}
    api.refusals = refusals or {}
    async with api.serve():
        return await checks_of(api.account(tmp_path / "token"), agents), api.lists


async def test_every_check_is_armed_in_a_healthy_cluster(tmp_path):
    checks, lists = await examined(tmp_path)
    names = (
        "pods of agents", "DaemonSet zmon-agents/zmon-agent", "Pod Security zmon-agents",
        "PodMonitor zmon-agents/zmon-agent", "ServiceMonitor zmon/zmon-hub", "PrometheusRule zmon/zmon-zmon",
        "interval of zmon-agent", "interval of zmon-hub",
    )  # fmt: skip
    assert states(checks) == dict.fromkeys(names, True)
    assert {query.get("labelSelector") for query in lists} == {None, AGENTS.selector}


async def test_rights_of_the_hub_alone_leave_the_rest_unknown_with_the_missing_rules(tmp_path):
    refused = {("list", path): (403, "x is forbidden") for path in OBJECTS if not path.endswith("/pods")}
    checks, _ = await examined(tmp_path, refusals=refused)
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


async def test_cluster_without_the_operator_is_quiet(tmp_path):
    checks, _ = await examined(tmp_path, missing="monitoring")
    assert states(checks)["Prometheus operator"] is None
    assert False not in states(checks).values()


async def test_no_request_is_about_agents_that_are_not_named(tmp_path):
    checks, lists = await examined(tmp_path, agents=None)
    assert states(checks)["pods of agents"] is None
    assert all("labelSelector" not in query for query in lists)


async def test_server_that_does_not_answer_is_one_line(tmp_path):
    (tmp_path / "token").write_text("token-1")
    server = FakeApi()
    server.url = "http://127.0.0.1:1"
    (check,) = await checks_of(server.account(tmp_path / "token"), AGENTS)
    assert (check.name, check.armed) == ("Kubernetes", False)
    assert "Connection refused" in check.result


async def test_checks_of_a_pod_leave_out_its_node(tmp_path):
    (tmp_path / "token").write_text("token-1")
    nowhere = "http://127.0.0.1:1"
    api = FakeApi()
    api.objects = OBJECTS
    async with api.serve():
        checks = await examine_kubernetes(api.account(tmp_path / "token"), AGENTS, nowhere, nowhere)
    names = [check.name for check in checks]
    assert (names[0], names[-2:], len(names)) == ("pods of agents", ["hub", "Prometheus"], 10)


async def test_authority_that_is_broken_is_one_line(tmp_path):
    http = HttpConfig(tls_config=TlsConfig(ca_file=tmp_path / "ca.crt"))
    (check,) = await checks_of(ApiServer("https://127.0.0.1:1", http), AGENTS)
    assert (check.name, check.armed) == ("Kubernetes", False)
    assert "ca.crt: No such file" in check.result
