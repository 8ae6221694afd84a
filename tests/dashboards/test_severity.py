"""Unknown severities of a newer hub are shown, and sorted between critical and warning."""

import pytest

from dashboards.severity import urgency
from tests.dashboards.world import INCIDENT, STALL, changed, text


def test_an_unknown_severity_comes_between_critical_and_warning():
    severities = ["info", "warning", "meltdown", "", "critical"]
    assert sorted(severities, key=urgency) == ["critical", "meltdown", "", "warning", "info"]


@pytest.mark.parametrize("view", ["cluster", "job", "ranks", "incidents"])
def test_a_finding_of_an_unknown_severity_is_shown(opened, world, view):
    world.findings = [changed(STALL, severity="meltdown<b>")]
    world.incidents = [changed(INCIDENT, severity="meltdown<b>")]
    page = text(opened(view, job_id="ads"))
    assert "MELTDOWN&lt;B&gt;" in page
    assert "HEALTHY" not in page
    assert "rank 1 on node-1" in page


def test_it_hides_no_critical_finding(opened, world):
    world.findings = [changed(STALL, severity="meltdown", id="f2"), STALL]
    assert "STALLED" in text(opened("job", job_id="ads"))


def test_an_alert_of_an_unknown_severity_comes_after_a_critical_one(opened, world):
    world.alerts = [
        {"alertname": "ZmonB", "severity": "meltdown", "job_id": "ads"},
        {"alertname": "ZmonC", "severity": "critical", "job_id": "ads"},
    ]
    page = text(opened("cluster")).partition('data-testid="zmon-firing"')[2]
    assert page.index("ZmonC") < page.index("ZmonB")
