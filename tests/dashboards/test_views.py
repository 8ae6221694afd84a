"""All pages, run by Streamlit's AppTest with a fake Prometheus and a fake hub."""

import re
import time
from collections import Counter

import pytest
from streamlit.testing.v1 import AppTest

from dashboards.colours import BLUE, GREY
from dashboards.panels import VIEWS as PANELS
from dashboards.views import host
from tests.build import rank_state
from tests.dashboards.world import INCIDENT, JOB, STALL, changed, choice, number, text
from tests.places import REPOSITORY
from zmon.detectors.parts.new_finding import rank_row
from zmon.schema.evidence import Evidence

APP = REPOSITORY / "dashboards" / "app.py"
VIEWS = ("cluster", "job", "ranks", "communication", "scaling", "hardware", "incidents", "compare", "armed")
NOWHERE = "http://127.0.0.1:9"  # the discard port: refused at once
HOSTILE = '"} or zmon_steps_total{job_id="other'


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_shows_whether_the_job_is_healthy(opened, view):
    assert "HEALTHY" in text(opened(view, job_id="ads"))


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_shows_the_culprit(opened, world, view):
    world.findings = [changed(STALL, onset=time.time() - 42)]
    page = text(opened(view, job_id="ads"))
    assert "STALLED" in page
    assert "rank 1 on node-1" in page


@pytest.mark.parametrize("dead", [["ZMON_HUB_URL"], ["ZMON_PROMETHEUS_URL"], ["ZMON_HUB_URL", "ZMON_PROMETHEUS_URL"]])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_names_the_server_that_does_not_answer(opened, monkeypatch, view, dead):
    for variable in dead:
        monkeypatch.setenv(variable, NOWHERE)
    page = text(opened(view, job_id="ads", rank="1"))
    assert "BLIND" in page
    assert "HEALTHY" not in page
    for variable in dead:
        assert f"is {variable} right?" in page


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_without_jobs_is_not_healthy(opened, world, view):
    world.jobs, world.has_ranks, world.has_history = [], False, False
    assert "HEALTHY" not in text(opened(view))


@pytest.mark.parametrize("view", PANELS)
def test_a_panel_without_series_names_them(opened, world, view):
    world.has_history = False
    page = text(opened(view, job_id="ads", rank="1"))
    for panel in PANELS[view]:
        assert f"Prometheus has no {' or '.join(panel.series())}" in page


@pytest.mark.parametrize("view", PANELS)
def test_each_panel_has_its_question_its_unit_and_its_promql(opened, view):
    app = opened(view, job_id="ads", rank="1")
    page = text(app)
    for panel in PANELS[view]:
        assert f"<strong>{panel.question}</strong> {panel.unit}</p>" in page
    assert page.count("<summary>PromQL</summary>") >= len(PANELS[view])
    assert page.count('target="_blank">Open in Prometheus</a>') >= len(PANELS[view])


@pytest.mark.parametrize("name", ["job_id", "rank", "host", "other", "incident", "range", "at"])
@pytest.mark.parametrize("view", VIEWS)
def test_nothing_in_the_url_reaches_another_jobs_series(opened, world, view, name):
    opened(view, **({"job_id": "ads"} | {name: HOSTILE}))
    for promql in world.queries:
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', promql)
        assert "other" not in outside
        assert outside.count('"') % 2 == 0


@pytest.mark.parametrize("view", VIEWS)
def test_text_of_a_job_is_escaped(opened, world, view):
    bad = "<script>alert(1)</script>"
    world.findings = [changed(STALL, summary=bad, hosts=[bad], detail=bad)]
    world.incidents = [changed(INCIDENT, summary=bad, hosts=[bad])]
    world.jobs = [changed(JOB, hosts=[bad])]
    app = opened(view, job_id="ads", incident="f1", rank="1")
    assert bad not in text(app)
    assert not [element for element in app.markdown if bad in element.value]


def test_the_cluster_lists_jobs_and_alerts(opened, world):
    world.jobs = [JOB, changed(JOB, job_id="video", state="stalled")]
    world.alerts = [{"alertname": "ZmonStall", "severity": "critical", "job_id": "video"}]
    page = text(opened("cluster"))
    assert "job?job_id=video" in page
    assert "ZmonStall" in page
    assert page.index(">video<") < page.index("zmon-jobs")  # the banner is about this job


def test_a_stalled_job_has_no_step_time_in_the_list(opened, world):
    world.jobs = [changed(JOB, state="stalled")]
    assert "<td>none</td><td>0</td>" in text(opened("cluster"))


def test_the_cluster_shows_its_hosts(opened):
    page = text(opened("cluster"))
    assert 'title="GPU 0 50.0 %"' in page
    assert f"{BLUE}80 0% 100%" in page


def test_a_gpu_with_an_unknown_utilization_is_not_idle(opened, world):
    world.busy = float("nan")
    page = text(opened("cluster"))
    assert 'title="GPU 0 unknown"' in page
    assert f"{GREY} 0% 100%" in page


def test_a_quiet_cluster_counts_its_jobs(opened, world):
    world.jobs = [JOB, changed(JOB, job_id="video"), changed(JOB, job_id="old", state="done")]
    assert "3 jobs: 2 train, 1 done" in text(opened("cluster"))


@pytest.mark.parametrize(("query", "view"), [({"job_id": "ads"}, "zmon-ranks"), ({}, "zmon-jobs")])
def test_a_url_without_path_leads_to_its_job_or_to_all_jobs(urls, query, view):
    app = AppTest.from_file(APP, default_timeout=20)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    assert view in text(app).replace(".zmon", "")


def test_the_page_ranks_has_a_table_and_the_details_of_one_rank(opened, world):
    world.findings = [changed(STALL, evidence={"stacks": {"1": {"stack": "File train.py, line 7"}}})]
    app = opened("ranks", job_id="ads", rank="1")
    table = app.dataframe[0].value
    assert list(table["rank"]) == [1, 0]
    assert table[""].iloc[0] == "◀ culprit"
    assert "train.py, line 7</pre>" in text(app)


def test_evidence_of_many_ranks_has_the_culprit_and_some_others(opened, world):
    rows = tuple(rank_row(rank_state(rank, phase=f"phase-{rank}")) for rank in range(40))
    world.findings = [changed(STALL, ranks=[39], evidence=Evidence(ranks=rows, out_of_memory="the kernel"))]
    page = text(opened("job", job_id="ads"))
    assert "phase-39" in page
    assert "the kernel" in page
    assert "phase-38" not in page
    assert "&quot;ranks left out&quot;: 24" in page


def test_an_incident_has_its_page_and_its_runbook(opened, world):
    world.incidents = [INCIDENT]
    assert "incident=f1" in text(opened("incidents", job_id="ads"))
    app = opened("incidents", job_id="ads", incident="f1")
    assert any("rank_frozen" in element.value for element in app.markdown)
    assert ("/api/v1/incidents/f1/report.html", {}) in world.hub_requests


def test_a_deleted_incident_is_reported(opened, world):
    assert "There is no incident gone" in text(opened("incidents", incident="gone"))


def test_compare_shows_two_jobs_side_by_side(opened):
    page = text(opened("compare", job_id="ads", other="ads"))
    assert "wall-clock per step: all_to_all" in page


def test_compare_with_an_unknown_side_shows_no_difference(opened, world):
    world.has_history = False
    page = text(opened("compare", job_id="ads"))
    assert "unknown" in page
    assert "+" not in page.partition('data-testid="zmon-compare"')[2].partition("<style>")[0]


@pytest.mark.parametrize("view", VIEWS)
def test_a_page_sends_no_query_twice(opened, world, view):
    opened(view, job_id="ads", rank="1")
    assert [request for request, times in Counter(world.requests).items() if times > 1] == []


def test_queries_select_the_host_of_the_url(opened, world):
    app = opened("hardware", job_id="ads", host="node-1")
    assert choice(app, "Host").value == "node-1"
    assert any('zmon:host_cpu_busy:ratio{host="node-1"}' in promql for promql in world.queries)


@pytest.mark.parametrize("state", ["done", "exited", "eval", "stalled"])
@pytest.mark.parametrize("view", ["job", "cluster"])
def test_a_job_that_does_not_train_has_no_speed(opened, world, view, state):
    world.jobs = [changed(JOB, state=state)]
    page = text(opened(view, job_id="ads"))
    assert "83.2 ms" not in page
    assert "24,615" not in page


def test_a_blind_hub_knows_no_speed(opened, world):
    world.hub_is_blind = True
    assert {number(opened("job", job_id="ads"), label) for label in ("Step time", "Samples/s")} == {"unknown"}


def test_a_newer_finding_does_not_hide_a_stall(opened, world):
    newer = changed(STALL, id="f2", detector="divergence", cause="divergence", onset=time.time() - 1)
    world.findings = [newer, changed(STALL, onset=time.time() - 42)]
    world.jobs = [changed(JOB, state="stalled")]
    assert number(opened("job", job_id="ads"), "Step time").startswith("none for 4")


def test_a_nan_loss_is_shown(opened, world):
    world.jobs = [changed(JOB, report={"loss": None})]
    assert number(opened("job", job_id="ads"), "Loss") == "NaN"


def test_jobs_in_an_unknown_state_are_not_healthy(opened, world):
    world.jobs = [changed(JOB, state="done"), changed(JOB, job_id="video", state="unknown")]
    assert "HEALTHY" not in text(opened("cluster"))


def test_an_info_finding_has_no_culprit(opened, world):
    world.findings = [changed(STALL, severity="info", cause="hot")]
    assert set(opened("ranks", job_id="ads").dataframe[0].value[""]) == {""}
    assert "hot</i>" not in text(opened("job", job_id="ads"))


def test_only_alerts_of_zmon_are_queried(opened, world):
    opened("cluster")
    (query,) = {promql for promql in world.queries if "ALERTS" in promql}
    assert 'alertname=~"Zmon.+"' in query


def test_a_password_is_on_no_page(opened, monkeypatch):
    for variable in ("ZMON_HUB_URL", "ZMON_PROMETHEUS_URL"):
        monkeypatch.setenv(variable, "http://me:s3@cret@127.0.0.1:9")
    for view in VIEWS:
        app = opened(view, job_id="ads")
        assert "cret" not in text(app) + "".join(element.value for element in app.markdown)


def test_a_host_can_be_deselected_without_a_job(opened, world):
    world.jobs, world.has_ranks = [], False
    app = opened("hardware", host="node-1")
    choice(app, "Host").select(host.ALL_HOSTS).run()
    assert "host" not in app.query_params


def test_an_error_of_the_hub_is_not_a_missing_hub(opened, world):
    world.refuses = "no agent reports a job ads"
    page = text(opened("ranks", job_id="ads"))
    assert "no agent reports a job ads" in page
    assert "is ZMON_HUB_URL right?" not in page


@pytest.mark.parametrize("view", ["job", "ranks", "hardware", "compare", "scaling"])
def test_names_in_a_link_are_no_markdown(opened, view):
    app = opened(view, job_id="![x](http://127.0.0.1:9/x.png) *b*", host="![y](http://127.0.0.1:9/y.png)")
    (label,) = [popover.proto.popover.label for popover in app.get("popover")]
    assert label.startswith(r"\!\[x\]\(http\:\/\/127")
    assert "![" not in label


def test_a_rank_beyond_the_world_size_is_reported(opened, world):
    assert "There is no rank 99: ads has 2." in text(opened("ranks", job_id="ads", rank="99"))


@pytest.mark.parametrize("view", VIEWS[:-1])  # Armed sends the requests of `zmon doctor`, all in parallel
def test_a_page_does_not_wait_for_a_prometheus_that_hangs(opened, world, view):
    world.hangs_seconds = 1.5
    opened(view, job_id="ads", rank="1", other="video")
    assert len(world.hung) <= 2  # one refresh and the next


def test_an_unknown_job_to_compare_with_can_be_deselected(opened, world):
    world.has_history = False
    app = opened("compare", job_id="ads", other="gone")
    assert choice(app, "Compare with").value == "gone"


def test_traffic_between_hosts_is_called_unknown(opened):
    assert "Traffic between two hosts is unknown" in text(opened("communication", job_id="ads"))


def test_an_unknown_state_of_a_job_is_shown_unchanged(opened, world):
    world.jobs = [changed(JOB, state="compile")]
    page = text(opened("job", job_id="ads"))
    assert "HEALTHY" in page
    assert "compile" in page


def test_a_finding_of_an_unknown_severity_is_not_healthy(opened, world):
    world.findings = [changed(STALL, severity="fatal", detector="other")]
    page = text(opened("job", job_id="ads"))
    assert "HEALTHY" not in page
    assert "rank 1 is stopped" in page
