"""Tests of the Helm chart with the real Helm: its objects, what it refuses, and what a cluster would refuse."""

import json
import subprocess

import msgspec
import pytest
import yaml

from dashboards.intervals import CLUSTER
from dashboards.rules.render import rendered
from tests.deploy.helm.api_server import OPTIONAL
from tests.deploy.helm.conftest import CHART, CI, Objects, engine, install
from tests.golden.compare import check_text
from tests.hostile.users import needs_root
from zmon.hub.alert_labels import read_alert_labels
from zmon.web.kubernetes.agent_pods import Pod, agent_url, pod_selection

OLDEST, NEWEST = "1.27", "1.34"  # of Kubernetes: the chart's kubeVersion, and the newest that was tried
RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
ISSUER = {"tls": {"certManager": {"issuer": {"name": "ca"}}}}
WITHOUT_OPERATOR = ("cert-manager.io/v1",)
MADE_BY_GENERATE = ("PrometheusRule",)  # long; a test compares them with the generated files
WITH_EMPTY_DIR = "secrets"  # the values of helm/zmon/ci with emptyDir boxes, a given namespace and two hubs


@pytest.mark.parametrize("name", CI)
def test_objects_are_those_of_the_golden(installed, name):
    objects = [thing for thing in installed(name) if thing["kind"] not in MADE_BY_GENERATE]
    objects = [thing for thing in objects if "grafana" not in thing["metadata"]["name"]]
    objects.sort(key=lambda thing: (thing["kind"], thing["metadata"].get("namespace", ""), thing["metadata"]["name"]))
    check_text(f"helm/{name}.yaml", yaml.safe_dump_all(objects, sort_keys=False, width=120))


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", CI)
def test_kubernetes_accepts_every_object_of_its_own_kinds(installed, name, version):
    foreign = {kind for kinds in OPTIONAL.values() for kind in kinds}
    objects = [thing for thing in installed(name) if thing["kind"] not in foreign]
    done = engine("validate", version, given=json.dumps(objects))
    assert json.loads(done.stdout) == [], done.stderr


def test_helm_lint_reports_nothing_but_one_information_about_the_chart_file():
    report = json.loads(engine("lint", str(CHART)).stdout)
    assert report["Errors"] is None
    # It recommends an icon. 1 is "information"; the JSON has no text.
    assert [(message["Severity"], message["Path"]) for message in report["Messages"]] == [(1, "Chart.yaml")]


def test_agents_keep_within_the_limit_at_which_prometheus_drops_a_scrape():
    _, objects, _ = install(ISSUER | {"monitoring": {"sampleLimit": {"agent": 7000}}})
    (monitor,) = [thing for thing in objects if thing["kind"] == "PodMonitor"]
    (daemons,) = [thing for thing in objects if thing["kind"] == "DaemonSet"]
    assert monitor["spec"]["sampleLimit"] == 7000
    assert "--max-series=7000" in daemons["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"agents": {}}, "agents"),
        ({"agent": {"tolerance": []}}, "tolerance"),
        ({"boxes": {"mode": "shm"}}, "/boxes/mode"),
        ({"hub": {"replicas": 3}}, "/hub/replicas"),
        ({"hub": {"alertLabels": {"my-team": "x"}}}, "/hub/alertLabels"),
        ({"hub": {"alertLabels": {"tier": True}}}, "/hub/alertLabels/tier"),
        ({"hub": {"alertLabels": dict.fromkeys("abcde", "x")}}, "/hub/alertLabels"),
        ({"dashboard": {"proxy": {"port": "http"}}}, "/dashboard/proxy/port"),
        ({"monitoring": {"interval": "5s"}}, "interval"),
    ],
)
def test_wrong_value_is_refused_and_the_error_names_its_key(values, key):
    error, created, _ = install(ISSUER | values)
    assert key in error
    assert created == []


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "tls.certManager.issuer.name is empty"),
        (
            {"tls": {"mode": "secrets", "secrets": {"agent": "a", "hub": "b", "prometheus": "c"}}},
            "tls.secrets.dashboard",
        ),
        (ISSUER | {"agent": {"dacOverride": True}, "boxes": {"mode": "emptyDir"}}, "all volumes of all pods"),
        (ISSUER | {"monitoring": {"enabled": "always"}}, "install the Prometheus operator"),
        (ISSUER | {"example": {"enabled": True}}, "install JobSet"),
    ],
)
def test_missing_requirement_is_refused_and_the_error_names_it(values, text):
    error, created, _ = install(values, WITHOUT_OPERATOR)
    assert text in error
    assert created == []


@pytest.mark.parametrize("allowed", [False, True])
def test_agents_may_act_only_if_the_value_says_so(allowed):
    _, created, _ = install(ISSUER | {"agent": {"allowActions": allowed}}, WITHOUT_OPERATOR)
    (daemons,) = (thing for thing in created if thing["kind"] == "DaemonSet")
    agent = daemons["spec"]["template"]["spec"]["containers"][0]
    assert ("--allow-actions" in agent["args"]) is allowed
    assert ("KILL" in agent["securityContext"]["capabilities"]["add"]) is allowed
    config = next(thing for thing in created if thing["metadata"]["name"].endswith("zmon-agent") and "data" in thing)
    hub, prometheus = yaml.safe_load(config["data"]["web.yaml"])["zmon_roles"]
    assert ("actions" in hub["roles"]) is allowed
    assert prometheus["roles"] == ["metrics"]


def test_agents_may_list_pods_of_the_cluster_if_the_value_says_so():
    """The test of tokens below covers the default, in which they have none."""
    _, created, _ = install(ISSUER | {"agent": {"listPods": True}}, WITHOUT_OPERATOR)
    objects = Objects(created)
    pod, role, binding = (objects.of(kind) for kind in ("DaemonSet", "ClusterRole", "ClusterRoleBinding"))
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
def test_kubernetes_accepts_the_rights_of_agents(version):
    _, created, _ = install(ISSUER | {"agent": {"listPods": True}}, WITHOUT_OPERATOR)
    rights = [thing for thing in created if thing["apiVersion"].startswith("rbac")]
    assert len(rights) == 4  # Role and RoleBinding of the hub, ClusterRole and ClusterRoleBinding of the agents
    assert json.loads(engine("validate", version, given=json.dumps(rights)).stdout) == []


def test_notes_say_that_nothing_pages_without_the_operator():
    error, created, notes = install(ISSUER, WITHOUT_OPERATOR)
    assert error == ""
    assert {thing["kind"] for thing in created}.isdisjoint(OPTIONAL["monitoring.coreos.com/v1"])
    assert "nothing pages" in notes


def test_notes_name_the_missing_label_of_the_operator(installed):
    assert "release: NAME" in install(ISSUER)[2]
    assert "release: NAME" not in installed("default").notes


@pytest.mark.parametrize("name", CI)
def test_notes_end_with_the_next_command(installed, name):
    last = installed(name).notes.strip().splitlines()[-1].strip()
    assert last == "kubectl -n zmon exec zmon-hub-0 -- zmon doctor --kubernetes"


@pytest.mark.parametrize("name", CI)
def test_hub_and_dashboard_obey_pod_security_restricted(installed, name):
    pods = [
        thing["spec"]["template"]["spec"] for thing in installed(name) if thing["kind"] in ("StatefulSet", "Deployment")
    ]
    assert pods
    for pod in pods:
        assert violations(pod) == []


def test_agent_violates_pod_security_restricted(installed):
    """Otherwise `violations` might find nothing, and the test above would prove nothing."""
    refused = violations(installed("default").of("DaemonSet")["spec"]["template"]["spec"])
    assert {"hostPID", "hostNetwork", "hostPort", "root", "volumes", "capabilities"} <= set(refused)


def violations(pod):
    """Return what Pod Security "restricted" refuses in a pod (kubernetes.io: Pod Security Standards)."""
    refused = [key for key in ("hostPID", "hostNetwork", "hostIPC") if pod.get(key)]
    refused += ["volumes" for volume in pod.get("volumes", ()) if not set(volume) - {"name"} <= RESTRICTED_VOLUMES]
    of_pod = pod.get("securityContext", {})
    for container in [*pod["containers"], *pod.get("initContainers", ())]:
        context = of_pod | container.get("securityContext", {})
        capabilities = context.get("capabilities", {})
        refused += ["hostPort" for port in container.get("ports", ()) if port.get("hostPort")]
        is_refused = {
            "privileged": context.get("privileged", False),
            "escalation": context.get("allowPrivilegeEscalation") is not False,
            "root": not context.get("runAsNonRoot") or context.get("runAsUser") == 0,
            "seccomp": context.get("seccompProfile", {}).get("type") != "RuntimeDefault",
            "capabilities": capabilities.get("drop") != ["ALL"]
            or not set(capabilities.get("add", ())) <= {"NET_BIND_SERVICE"},
        }
        refused += [name for name, is_so in is_refused.items() if is_so]
    return refused


@pytest.mark.parametrize(
    ("values", "added"),
    [
        ({}, set()),
        ({"boxes": {"mode": "emptyDir"}}, set()),
        ({"agent": {"dacOverride": True}}, {"DAC_OVERRIDE"}),
    ],
)
def test_agent_has_the_measured_capabilities_and_no_other(values, added):
    agent, *_ = Objects(install(ISSUER | values)[1]).of("DaemonSet")["spec"]["template"]["spec"]["containers"]
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


def test_only_named_pods_may_connect_to_the_hub_and_none_to_the_dashboard_without_a_proxy(installed):
    objects = installed("default")
    (rule,) = objects.of("NetworkPolicy", "zmon-hub")["spec"]["ingress"]
    peers = [peer["podSelector"]["matchLabels"] for peer in rule["from"]]
    assert [peer["app.kubernetes.io/name"] for peer in peers] == ["zmon", "prometheus"]
    assert peers[0]["app.kubernetes.io/component"] == "dashboard"
    assert objects.of("NetworkPolicy", "zmon-dashboard")["spec"] == {
        "podSelector": objects.of("NetworkPolicy", "zmon-dashboard")["spec"]["podSelector"],
        "policyTypes": ["Ingress"],
        "ingress": [],
    }


def test_namespace_of_agents_allows_privileged_pods_and_is_not_made_if_it_is_given(installed):
    labels = installed("default").of("Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
    assert not [thing for thing in installed(WITH_EMPTY_DIR) if thing["kind"] == "Namespace"]


def test_agents_mount_the_folders_of_the_kubelet_only_with_emptydir_boxes(installed):
    names = ("default", WITH_EMPTY_DIR)
    default, in_volumes = (installed(name).of("DaemonSet")["spec"]["template"]["spec"] for name in names)
    assert "/var/lib/kubelet/pods" in json.dumps(in_volumes)
    assert "/var/lib/kubelet" not in json.dumps(default)
    assert "initContainers" not in in_volumes
    assert [container["name"] for container in in_volumes["containers"]] == ["agent"]


FOLDERS = {
    "a tmpfs": ("mount -t tmpfs -o mode=1777 zmon /run/zmon", 0),
    "a tmpfs of the host": ("mount -t tmpfs -o mode=1777 zmon /run/host && mount --bind /run/host /run/zmon", 0),
    "a part of the host's /run": ("chmod 1777 /run/host && mount --bind /run/host /run/zmon", 1),
    "a tmpfs that users may not write": ("mount -t tmpfs -o mode=755 zmon /run/zmon", 1),
}


@needs_root
@pytest.mark.parametrize(("mounts", "code"), FOLDERS.values(), ids=FOLDERS)
def test_agents_start_only_where_the_boxes_have_a_tmpfs_of_their_own(installed, mounts, code):
    (init,) = installed("plain").of("DaemonSet")["spec"]["template"]["spec"]["initContainers"]
    script = f'mount -t tmpfs none /run && mkdir /run/zmon /run/host && {mounts} && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *init["command"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, "Install deploy/systemd/run-zmon.mount" in done.stderr) == (code, code == 1)


def test_only_the_process_without_a_port_may_write_the_folders_of_pods(installed):
    agent, folders = installed("plain").of("DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert "DAC_OVERRIDE" not in agent["securityContext"]["capabilities"]["add"]
    assert folders["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]}
    assert "ports" not in folders
    assert folders["volumeMounts"] == [{"name": "boxes", "mountPath": "/run/zmon"}]


def test_rules_and_grafana_are_the_generated_files_and_no_template_is_evaluated(installed):
    rules = sorted((CHART / "files/rules").glob("*.yaml"))
    pages = sorted((CHART / "files/grafana").glob("*.json"))
    assert rules
    assert pages
    for path in rules:
        assert installed("default").of("PrometheusRule", f"zmon-{path.stem}")["spec"] == yaml.safe_load(
            path.read_text()
        )
    for path in pages:
        data = installed("default").of("ConfigMap", f"zmon-grafana-{path.stem}")["data"]
        assert data == {f"zmon-{path.name}": path.read_text()}


def test_labels_of_alerts_are_for_hub_and_rules_alike(installed):
    objects = installed("secrets")
    (hub,) = objects.of("StatefulSet")["spec"]["template"]["spec"]["containers"]
    (declared,) = [variable["value"] for variable in hub["env"] if variable["name"] == "ZMON_ALERT_LABELS"]
    assert list(read_alert_labels(yaml.safe_load(declared), "").patterns) == ["owner", "tier"]
    expected = yaml.safe_load(rendered(CLUSTER, ["owner", "tier"])["zmon.yaml"])
    assert objects.of("PrometheusRule", "zmon-zmon")["spec"] == expected


def test_monitors_scrape_one_service_of_the_hub_every_2_s_and_agents_every_15_s(installed):
    objects = installed("default")
    assert objects.of("ServiceMonitor")["spec"]["endpoints"][0]["interval"] == "2s"
    assert objects.of("PodMonitor")["spec"]["podMetricsEndpoints"][0]["interval"] == "15s"
    # Prometheus calls the scrape job NAMESPACE/NAME, and the alert rules find agents by the end of this name.
    assert objects.of("PodMonitor")["metadata"]["name"].endswith("zmon-agent")
    wanted = objects.of("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    services = [thing for thing in objects if thing["kind"] == "Service"]
    assert [s["metadata"]["name"] for s in services if wanted <= s["metadata"]["labels"].items()] == ["zmon-hub"]


def test_pods_restart_only_if_their_configuration_changes():
    kinds = ("DaemonSet", "StatefulSet", "Deployment")

    def checksums(values):
        objects = Objects(install(values)[1])
        pods = {kind: objects.of(kind)["spec"]["template"]["metadata"] for kind in kinds}
        return {kind: pod["annotations"]["checksum/config"] for kind, pod in pods.items()}

    before, after = checksums(ISSUER), checksums(ISSUER | {"dashboard": {"evidence": True}})
    assert {kind for kind in kinds if before[kind] != after[kind]} == {"StatefulSet"}  # the hub serves the evidence


@pytest.mark.parametrize("mode", ["hostPath", "emptyDir"])
def test_example_job_has_its_boxes_where_the_agent_looks(mode):
    _, created, _ = install(ISSUER | {"example": {"enabled": True}, "boxes": {"mode": mode}})
    (node,) = Objects(created).of("JobSet")["spec"]["replicatedJobs"]
    pod = node["template"]["spec"]["template"]["spec"]
    names = {variable["name"] for variable in pod["containers"][0]["env"]}
    assert {"ZMON_JOB_ID", "ZMON_ATTEMPT"} <= names
    assert ("ZMON_BOX_DIR" in names) == (mode == "emptyDir")
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "zmon-boxes"]
    assert {"hostPath": "hostPath", "emptyDir": "emptyDir"}[mode] in volume
    (mount,) = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "zmon-boxes"]
    # A user id would not separate teams, so each pod has its own folder.
    assert mount.get("subPathExpr") == {"hostPath": "$(POD_UID)", "emptyDir": None}[mode]
    uids = [variable["valueFrom"] for variable in pod["containers"][0]["env"] if variable["name"] == "POD_UID"]
    assert [uid["fieldRef"]["fieldPath"] for uid in uids] == ["metadata.uid"] * (mode == "hostPath")
    assert violations(pod) == ([] if mode == "emptyDir" else ["volumes"])
