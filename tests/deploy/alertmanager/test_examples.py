"""Tests of the examples in deploy/alertmanager with the amtool of Alertmanager 0.25: their keys, routes and texts."""

import json
import re
import subprocess

import pytest
import yaml

from scripts.alertmanager import examples
from tests.golden.compare import check_text
from tests.places import REPOSITORY

FOLDER = REPOSITORY / "deploy/alertmanager"
TEMPLATE = FOLDER / "zmon.tmpl"
DATA = json.loads((REPOSITORY / "tests/deploy/alertmanager/data.json").read_text())
EXAMPLES = examples()
SECRET = re.compile(r"(api_url|_key|password|token|webhook_url)$")
JOB = ("job_id=ads", "alertname=ZmonStall")


def amtool(*words):
    """Run amtool, and return what it prints."""
    done = subprocess.run(["amtool", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(folder, name):
    """Write an example whose template is where it is in this repository; return its path."""
    path = folder / name
    path.write_text(EXAMPLES[name].replace("/etc/alertmanager/zmon.tmpl", str(TEMPLATE)))
    return path


def leaves(value, path=()):
    """Yield the path and the value of each text, number or boolean within a value of YAML."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, str(key)))
    else:
        yield path, value


def pager_of_newer_versions(name):
    """Return the receiver `pager` of an example, with the keys in comments, which newer Alertmanagers know."""
    (pager,) = [
        receiver
        for receiver in yaml.safe_load(re.sub(r"(?m)^    # ", "    ", EXAMPLES[name]))["receivers"]
        if receiver["name"] == "pager"
    ]
    return pager


def resolved():
    """Return the group after the end of all of its alerts."""
    ended = {"status": "resolved", "endsAt": "2026-11-28T18:05:00+00:00"}
    return DATA | {"status": "resolved", "alerts": [alert | ended for alert in DATA["alerts"]]}


def of_agents():
    """Return a group of twelve agents that are down, without links to a dashboard."""
    alert = DATA["alerts"][1] | {"status": "firing"}
    names = {"alertname": "ZmonAgentDown", "severity": "warning"}
    texts = {"description": "The ranks on that node may still train.", "dashboard_url": "/armed", "runbook_url": "docs"}
    alerts = [
        alert | {"labels": names | {"instance": f"n{n}:9780"}, "annotations": texts | {"summary": f"n{n} is down"}}
        for n in range(12)
    ]
    group = {"alertname": "ZmonAgentDown"}
    return DATA | {"groupLabels": group, "commonLabels": names, "alerts": alerts}


def rendered(folder, fields, data, kind="text"):
    """Return these fields of a receiver as Alertmanager makes them of a group."""
    (folder / "data.json").write_text(json.dumps(data))
    text = "".join(f"{name}: {field}\n" for name, field in fields.items())
    options = ("--template.glob", TEMPLATE, "--template.data", folder / "data.json", "--template.type", kind)
    return amtool("template", "render", *options, "--template.text", text)


def texts(configs):
    """Return the texts with a template in the configurations of a receiver, by their names."""
    return {".".join(path): value for path, value in leaves(configs) if isinstance(value, str) and "{{" in value}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_the_generated_file_and_alertmanager_accepts_it(tmp_path, name):
    assert (FOLDER / name).read_text() == EXAMPLES[name], "run `make generate`"
    assert "1 templates" in amtool("check-config", installed(tmp_path, name))


def test_there_is_an_example_for_each_file_and_no_other():
    assert {path.name for path in FOLDER.iterdir()} == {*EXAMPLES, TEMPLATE.name}


@pytest.mark.parametrize("name", EXAMPLES)
def test_secrets_are_in_files(name):
    paths = [path for path, _ in leaves(yaml.safe_load(EXAMPLES[name]))]
    assert [path for path in paths if any(map(SECRET.search, path))] == []


def test_keys_in_comments_of_teams_are_the_receiver_of_newer_versions():
    """Debian's amtool does not know it, so only its shape and its templates are tested."""
    configs = pager_of_newer_versions("teams.yml")["msteamsv2_configs"]
    assert [set(config) for config in configs] == [{"webhook_url_file", "send_resolved", "title", "text"}]


@pytest.mark.parametrize("name", [name.removesuffix(".yml") for name in EXAMPLES])
def test_texts_are_those_of_the_golden(tmp_path, name):
    pager = pager_of_newer_versions(f"{name}.yml")
    fields = texts([config for key, configs in pager.items() if key.endswith("_configs") for config in configs])
    parts = []
    for title, data in {"firing": DATA, "resolved": resolved()}.items():
        parts.append(f"======== {title}\n")
        for kind in ("text", "html"):
            chosen = {key: field for key, field in fields.items() if key.endswith("html") == (kind == "html")}
            parts.append(rendered(tmp_path, chosen, data, kind) if chosen else "")
    check_text(f"alertmanager/{name}.txt", "".join(parts))


def test_long_group_without_links_ends_after_ten_alerts_and_leads_to_alertmanager(tmp_path):
    text = rendered(
        tmp_path, {"title": '{{ template "zmon.title" . }}', "text": '{{ template "zmon.text" . }}'}, of_agents()
    )
    assert text.startswith("title: [WARNING] n0 is down (12 alerts)\n")
    assert [f"n{number} is down\nSince" in text for number in (9, 10)] == [True, False]
    *_, count, _, dashboard, incidents, runbook, silence = text.rstrip().splitlines()
    assert count == "12 alerts fire; these are ten of them."
    url = "https://alertmanager.example.org"
    assert [dashboard, incidents, runbook] == [f"Dashboard: {url}", f"Incidents: {url}", f"Runbook: {url}"]
    assert silence == f"Silence: {url}/#/silences/new?filter=%7Balertname%3D%22ZmonAgentDown%22%7D"


def test_label_of_a_job_calls_nobody(tmp_path):
    """A site may declare a pattern that lets everything pass."""
    text = rendered(tmp_path, {"text": '{{ template "zmon.text" . }}'}, DATA)
    assert "owner _!channel_" in text
    assert "<" not in text


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ((*JOB, "severity=critical"), "pager"),
        ((*JOB, "severity=warning"), "desk"),
        (("alertname=ZmonAgentsAbsent", "severity=critical"), "pager"),
        (("alertname=ZmonAgentDown", "severity=warning", "instance=n1"), "desk"),
        (("alertname=ZmonWatchdog", "severity=info"), "watchdog"),
    ],
)
def test_route_ends_in_the_receiver_of_the_severity(tmp_path, labels, receiver):
    path = installed(tmp_path, "slack.yml")
    assert amtool("config", "routes", "test", "--config.file", path, *labels).strip() == receiver


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        ((*JOB, "severity=critical", "tier=hero"), "pager"),
        ((*JOB, "severity=critical", "tier=normal"), "desk"),
        ((*JOB, "severity=critical"), "desk"),
        ((*JOB, "severity=critical", "tier=hero", "owner=ann"), "ann,pager"),
        (("job_id=ads", "alertname=ZmonFindingWarning", "severity=warning", "owner=ann"), "ann"),
        (("job_id=ads", "alertname=ZmonLeaseOverdue", "severity=critical"), "pager"),
        (("alertname=ZmonAgentsAbsent", "severity=critical"), "pager"),
        (("alertname=ZmonWatchdog", "severity=info"), "watchdog"),
    ],
)
def test_documented_route_by_labels_of_jobs_ends_in_these_receivers(tmp_path, labels, receivers):
    page = (REPOSITORY / "docs/deploy/alerting.md").read_text()
    (route,) = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if block.startswith("route:")]
    names = [{"name": name} for name in ("watchdog", "ann", "pager", "desk")]
    (tmp_path / "alertmanager.yml").write_text(route + yaml.safe_dump({"receivers": names}))
    assert (
        amtool("config", "routes", "test", "--config.file", tmp_path / "alertmanager.yml", *labels).strip() == receivers
    )
