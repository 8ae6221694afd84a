"""Tests of the manifests in deploy/kubernetes, which docs/deploy/kubernetes.md applies beside the chart."""

import yaml

from tests.places import REPOSITORY
from zmon.doctor.kubernetes import objects
from zmon.web.kubernetes.requests import Resource

FOLDER = REPOSITORY / "deploy/kubernetes"
DOCTOR = list(yaml.safe_load_all((FOLDER / "doctor.yaml").read_text()))
OF_THE_HUB = {("", "pods")}  # the Role of the chart lists them


def test_doctor_may_list_exactly_what_it_reads():
    rules = [rule for document in DOCTOR for rule in document.get("rules", ())]
    granted = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
    read = {(resource.group, resource.name) for resource in vars(objects).values() if isinstance(resource, Resource)}
    assert granted == read - OF_THE_HUB
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}


def test_rights_of_doctor_are_bound_to_the_service_account_of_the_hub():
    bindings = [document for document in DOCTOR if document["kind"].endswith("Binding")]
    account = {"kind": "ServiceAccount", "name": "zmon-hub", "namespace": "zmon"}  # of the release called zmon
    assert [binding["subjects"] for binding in bindings] == [[account], [account]]
    roles = {(document["kind"], document["metadata"]["name"]) for document in DOCTOR if "rules" in document}
    assert {(binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in bindings} == roles


def test_issuer_signs_with_the_secret_and_has_the_name_of_the_page():
    issuer = yaml.safe_load((FOLDER / "issuer.yaml").read_text())
    page = (REPOSITORY / "docs/deploy/kubernetes.md").read_text()
    assert f"create secret tls {issuer['spec']['ca']['secretName']} " in page
    assert f"issuer: {{name: {issuer['metadata']['name']}, kind: {issuer['kind']}}}" in page
