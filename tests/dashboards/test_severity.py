"""Tests of unknown severities from a newer hub. They are shown, and sorted between critical and warning."""

import pytest

from tests.dashboards.recorded import ALERTS
from tests.dashboards.world import INCIDENT, STALL, changed, page_text


@pytest.mark.parametrize("view", ["cluster", "job", "ranks", "incidents"])
def test_finding_of_unknown_severity_is_shown(open_page, world, view):
    world.findings = [changed(STALL, severity="meltdown<b>")]
    world.incidents = [changed(INCIDENT, severity="meltdown<b>")]
    page = page_text(open_page(view, job_id="ads"))
    assert "MELTDOWN&lt;B&gt;" in page
    assert "HEALTHY" not in page
    assert "rank 1 on node-1" in page


def test_alert_of_unknown_severity_is_listed_after_critical_alert(open_page, world):
    world.moment = ALERTS
    page = page_text(open_page("cluster")).partition('data-testid="zmon-firing"')[2]
    assert page.index("ZmonC") < page.index("ZmonB")  # critical, and of the severity "meltdown"
