"""Tests of the Helm chart with the real Helm: its objects, the values that it refuses, and its last note."""

import json

import pytest
import yaml

from tests.deploy.helm.api_server import OPTIONAL
from tests.deploy.helm.conftest import CHART, CI, ISSUER, NEWEST, OLDEST, WITHOUT_OPERATOR, engine, install
from tests.golden.compare import check_text

MADE_BY_GENERATE = ("PrometheusRule",)  # long: test_monitoring.py compares them with the generated files


def compared(objects):
    """Return the objects that have a golden, sorted: without the long ones of MADE_BY_GENERATE and the dashboards."""
    short = [thing for thing in objects if thing["kind"] not in MADE_BY_GENERATE]
    short = [thing for thing in short if "grafana" not in thing["metadata"]["name"]]
    return sorted(short, key=lambda thing: tuple(map(str, identity(thing))))


def identity(thing):
    """Return kind, namespace and name of an object."""
    return thing["kind"], thing["metadata"].get("namespace", ""), thing["metadata"]["name"]


@pytest.mark.parametrize("name", CI)
def test_objects_are_those_of_the_golden(installed, name):
    """The goldens of other values than the default ones have only the names of objects that are as by default."""
    by_default = [] if name == "default" else compared(installed("default"))
    written = [" ".join(identity(thing)) if thing in by_default else thing for thing in compared(installed(name))]
    check_text(f"helm/{name}.yaml", yaml.safe_dump_all(written, sort_keys=False, width=120, default_flow_style=None))


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
    release = install(ISSUER | values)
    assert key in release.error
    assert release == []


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
    release = install(values, WITHOUT_OPERATOR)
    assert text in release.error
    assert release == []


@pytest.mark.parametrize("name", CI)
def test_notes_end_with_the_next_command(installed, name):
    last = installed(name).notes.strip().splitlines()[-1].strip()
    assert last == "kubectl -n zmon exec zmon-hub-0 -- zmon doctor --kubernetes"


def test_pods_restart_only_if_their_configuration_changes():
    kinds = ("DaemonSet", "StatefulSet", "Deployment")

    def checksums(values):
        release = install(values)
        pods = {kind: release.of(kind)["spec"]["template"]["metadata"] for kind in kinds}
        return {kind: pod["annotations"]["checksum/config"] for kind, pod in pods.items()}

    before, after = checksums(ISSUER), checksums(ISSUER | {"dashboard": {"evidence": True}})
    assert {kind for kind in kinds if before[kind] != after[kind]} == {"StatefulSet"}  # the hub serves the evidence
