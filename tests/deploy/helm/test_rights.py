"""Tests of what the pods of the chart may do: Pod Security, capabilities, tokens, roles, and connections."""

import json

import msgspec
import pytest
import yaml

from tests.deploy.helm.conftest import CI, ISSUER, NEWEST, OLDEST, WITHOUT_OPERATOR, engine, install
from tests.deploy.helm.pod_security import violations
from zmon.web.kubernetes.agent_pods import Pod, agent_url, pod_selection


@pytest.fixture(scope="module")
def with_list_of_pods():
    """The release whose agents may list the pods of the cluster."""
    return install(ISSUER | {"agent": {"listPods": True}}, WITHOUT_OPERATOR)


@pytest.mark.parametrize("allowed", [False, True])
def test_agents_may_act_only_if_the_value_says_so(allowed):
    release = install(ISSUER | {"agent": {"allowActions": allowed}}, WITHOUT_OPERATOR)
    agent = release.of("DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    assert ("--allow-actions" in agent["args"]) is allowed
    assert ("KILL" in agent["securityContext"]["capabilities"]["add"]) is allowed
    config = release.of("ConfigMap", "zmon-agent")["data"]["web.yaml"]
    hub, prometheus = yaml.safe_load(config)["zmon_roles"]
    assert ("actions" in hub["roles"]) is allowed
    assert prometheus["roles"] == ["metrics"]


def test_agents_may_list_pods_of_the_cluster_if_the_value_says_so(with_list_of_pods):
    """The test of tokens below covers the default, in which they have none."""
    pod, role, binding = (with_list_of_pods.of(kind) for kind in ("DaemonSet", "ClusterRole", "ClusterRoleBinding"))
    pod = pod["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is True
    assert "--pods-of-node=$(NODE_NAME)" in pod["containers"][0]["args"]
    (node,) = [variable["valueFrom"] for variable in pod["containers"][0]["env"] if variable["name"] == "NODE_NAME"]
    assert node == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    account = {"kind": "ServiceAccount", "name": pod["serviceAccountName"], "namespace": "zmon-agents"}
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [account]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_accepts_the_rights_of_agents(with_list_of_pods, version):
    rights = [thing for thing in with_list_of_pods if thing["apiVersion"].startswith("rbac")]
    assert len(rights) == 4  # Role and RoleBinding of the hub, ClusterRole and ClusterRoleBinding of the agents
    assert json.loads(engine("validate", version, given=json.dumps(rights)).stdout) == []


@pytest.mark.parametrize("name", CI)
def test_hub_and_dashboard_obey_pod_security_restricted(installed, name):
    workloads = [thing for thing in installed(name) if thing["kind"] in ("StatefulSet", "Deployment")]
    assert workloads
    assert [thing for thing in workloads if violations(thing["spec"]["template"]["spec"])] == []


def test_agent_violates_pod_security_restricted(installed):
    """Otherwise `violations` might find nothing, and the test above would prove nothing."""
    refused = violations(installed("default").of("DaemonSet")["spec"]["template"]["spec"])
    assert {"hostPID", "hostNetwork", "hostPort", "root", "volumes", "capabilities"} <= set(refused)


@pytest.mark.parametrize(
    ("values", "added"),
    [({}, set()), ({"boxes": {"mode": "emptyDir"}}, set()), ({"agent": {"dacOverride": True}}, {"DAC_OVERRIDE"})],
)
def test_agent_has_the_measured_capabilities_and_no_other(values, added):
    agent, *_ = install(ISSUER | values).of("DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert agent["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert set(agent["securityContext"]["capabilities"]["add"]) == {"DAC_READ_SEARCH", "SYS_PTRACE", "SYSLOG"} | added
    assert agent["securityContext"]["readOnlyRootFilesystem"]
    assert "privileged" not in agent["securityContext"]


@pytest.mark.parametrize("name", CI)
def test_only_the_hub_has_a_token_and_may_only_read_pods_of_the_agents(installed, name):
    objects = installed(name)
    pods = {t["kind"]: t["spec"]["template"]["spec"] for t in objects if "template" in t.get("spec", {})}
    assert {kind for kind, pod in pods.items() if pod["automountServiceAccountToken"]} == {"StatefulSet"}
    accounts = [thing for thing in objects if thing["kind"] == "ServiceAccount"]
    assert not any(account["automountServiceAccountToken"] for account in accounts)
    role = objects.of("Role")
    assert role["metadata"]["namespace"] == "zmon-agents"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    assert not [thing for thing in objects if thing["kind"].startswith("ClusterRole")]


@pytest.mark.parametrize("name", CI)
def test_hub_and_doctor_look_for_the_pods_of_the_agents(installed, name):
    (hub,) = installed(name).of("StatefulSet")["spec"]["template"]["spec"]["containers"]
    pods = pod_selection({variable["name"]: variable.get("value") for variable in hub["env"]}["ZMON_AGENTS_KUBERNETES"])
    daemon_set = installed(name).of("DaemonSet")
    assert pods.namespace == daemon_set["metadata"]["namespace"]
    wanted = dict(requirement.split("=") for requirement in pods.selector.split(",")).items()
    assert wanted <= daemon_set["spec"]["template"]["metadata"]["labels"].items()
    assert wanted <= daemon_set["metadata"]["labels"].items()
    status = {"phase": "Running", "podIP": "192.168.0.7"}
    pod = {"metadata": {"name": "a"}, "spec": daemon_set["spec"]["template"]["spec"], "status": status}
    assert agent_url(msgspec.convert(pod, Pod), "https", pods.port) == "https://192.168.0.7:9780"


def test_only_dashboard_and_prometheus_may_connect_to_the_hub(installed):
    (rule,) = installed("default").of("NetworkPolicy", "zmon-hub")["spec"]["ingress"]
    peers = [peer["podSelector"]["matchLabels"] for peer in rule["from"]]
    assert [peer["app.kubernetes.io/name"] for peer in peers] == ["zmon", "prometheus"]
    assert peers[0]["app.kubernetes.io/component"] == "dashboard"


def test_no_pod_may_connect_to_the_dashboard_without_a_proxy(installed):
    dashboard = installed("default").of("NetworkPolicy", "zmon-dashboard")["spec"]
    assert (dashboard["policyTypes"], dashboard["ingress"]) == (["Ingress"], [])
