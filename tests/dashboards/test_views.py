"""Tests of all pages, run by Streamlit's AppTest with a recorded Prometheus and a fake hub."""

import re
import threading
import time
from collections import Counter

import pytest
from streamlit.testing.v1 import AppTest

from dashboards.colours import BLUE, GREY
from dashboards.panels import VIEWS as PANELS
from dashboards.side import Side
from dashboards.views import compare, hosts
from tests.build import rank_state
from tests.dashboards.recorded import ALERTS, EMPTY, NOW
from tests.dashboards.world import INCIDENT, JOB, STALL, changed, page_text, selectbox
from tests.http_server import FakeServer
from tests.places import REPOSITORY
from zmon.detectors.new_finding import rank_row
from zmon.schema.evidence import Evidence, StallEvidence
from zmon.schema.gathered import RankStack

APP = REPOSITORY / "dashboards" / "app.py"
VIEWS = ("cluster", "job", "ranks", "communication", "scaling", "hardware", "incidents", "compare", "armed")
PARAMETERS = ("job_id", "rank", "host", "other", "incident", "range", "at")
# View → the series of faults that the recorded job does not have, the first of each chart.
NO_SERIES = {"hardware": ["zmon:gpu_throttled:on"]}
NOWHERE = "http://me:s3@cret@127.0.0.1:9"  # the discard port: refused at once
HOSTILE = '"} or zmon_steps_total{job_id="other'


@pytest.mark.parametrize("view", VIEWS)
def test_view_of_healthy_job_draws_its_panels_with_one_query_each(open_page, world, view):
    page = page_text(open_page(view, job_id="ads", rank="1"))
    assert "HEALTHY" in page
    panels = PANELS.get(view, ())
    for panel in panels:
        assert f"<strong>{panel.question}</strong> {panel.unit}</p>" in page
    assert page.count("<summary>PromQL</summary>") >= len(panels)
    assert page.count('target="_blank">Open in Prometheus</a>') >= len(panels)
    assert [request for request, times in Counter(world.requests).items() if times > 1] == []
    assert re.findall(r"Prometheus has no (zmon[\w:]+)", page) == NO_SERIES.get(view, [])


@pytest.mark.parametrize("view", VIEWS)
def test_view_of_stalled_job_shows_culprit_and_next_step_with_texts_escaped(open_page, world, view):
    bad, escaped = "<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"
    texts = {"summary": f"rank 1 is stopped {bad}", "hosts": [f"node-1{bad}"]}
    world.findings = [changed(STALL, onset=NOW - 42, detail=f"On node-1{bad}: `kill -CONT 4711`", **texts)]
    world.incidents = [changed(INCIDENT, **texts)]
    world.jobs = [changed(JOB, hosts=[f"node-1{bad}"])]
    app = open_page(view, job_id="ads", incident="f1", rank="1")
    page = page_text(app)
    assert "STALLED" in page
    assert f"rank 1 on node-1{escaped}" in page
    banner = page.partition('data-testid="zmon-banner"')[2].partition("<time")[0]
    assert f"rank 1 is stopped {escaped}" in banner
    assert "Do this next" in banner
    assert f"On node-1{escaped}: <code>kill -CONT 4711</code>" in banner
    assert bad not in page
    assert not [element for element in app.markdown if bad in element.value]


@pytest.mark.parametrize(
    ("view", "dead"),
    [
        *((view, [server]) for view in VIEWS for server in ("ZMON_HUB_URL", "ZMON_PROMETHEUS_URL")),
        ("job", ["ZMON_HUB_URL", "ZMON_PROMETHEUS_URL"]),
    ],
)
def test_view_names_server_that_does_not_answer_without_the_password_of_its_url(open_page, monkeypatch, view, dead):
    for variable in dead:
        monkeypatch.setenv(variable, NOWHERE)
    app = open_page(view, job_id="ads", rank="1")
    page = page_text(app)
    assert "cret" not in page + "".join(element.value for element in app.markdown)
    assert "BLIND" in page
    assert "HEALTHY" not in page
    for variable in dead:
        assert f"is {variable} right?" in page


@pytest.mark.parametrize("view", VIEWS)
def test_view_without_jobs_does_not_show_healthy(open_page, world, view):
    world.jobs = []
    world.moment = EMPTY
    assert "HEALTHY" not in page_text(open_page(view))


@pytest.mark.parametrize("view", PANELS)
def test_panel_without_series_names_missing_series(open_page, world, view):
    world.moment = EMPTY
    page = page_text(open_page(view, job_id="ads", rank="1"))
    for panel in PANELS[view]:
        assert f"unknown: Prometheus has no {' or '.join(panel.series())}" in page


@pytest.mark.parametrize(
    ("view", "name"),
    [  # in `make test` each view with one parameter, and each parameter on a view
        pytest.param(view, name, marks=() if name == PARAMETERS[number % len(PARAMETERS)] else pytest.mark.slow)
        for number, view in enumerate(VIEWS)
        for name in PARAMETERS
    ],
)
def test_url_parameter_cannot_query_series_of_another_job(open_page, world, view, name):
    open_page(view, **({"job_id": "ads"} | {name: HOSTILE}))
    for promql in world.queries:
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', promql)
        assert "other" not in outside
        assert outside.count('"') % 2 == 0


@pytest.mark.parametrize(("query", "view"), [({"job_id": "ads"}, "zmon-ranks"), ({}, "zmon-jobs")])
def test_url_without_path_opens_its_job_or_all_jobs(urls, query, view):
    app = AppTest.from_file(APP, default_timeout=20)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    assert view in page_text(app).replace(".zmon", "")


def test_ranks_page_has_table_and_stack_of_selected_rank(open_page, world):
    world.findings = [changed(STALL, evidence=Evidence(stacks={"1": RankStack(stack="File train.py, line 7")}))]
    app = open_page("ranks", job_id="ads", rank="1")
    table = app.dataframe[0].value
    assert list(table["rank"]) == [1, 0]
    assert table[""].iloc[0] == "◀ culprit"
    assert "train.py, line 7</pre>" in page_text(app)


def test_evidence_of_many_ranks_counts_ranks_left_out(open_page, world):
    row = rank_row(rank_state(39, phase="phase-39"))
    evidence = StallEvidence(ranks=(row,), out_of_memory="the kernel", num_ranks_left_out=24)
    world.findings = [changed(STALL, ranks=[39], evidence=evidence)]
    page = page_text(open_page("job", job_id="ads"))
    assert "phase-39" in page
    assert "the kernel" in page
    assert "&quot;ranks left out&quot;: 24" in page


def test_incident_has_report_and_runbook(open_page, world):
    world.incidents = [INCIDENT]
    assert "incident=f1" in page_text(open_page("incidents", job_id="ads"))
    app = open_page("incidents", job_id="ads", incident="f1")
    assert any("rank_frozen" in element.value for element in app.markdown)
    assert ("/api/v1/incidents/f1/report.html", {}) in world.hub_requests


def test_missing_incident_is_reported(open_page, world):
    assert "There is no incident gone" in page_text(open_page("incidents", incident="gone"))


def test_ended_job_is_compared_with_job_that_began_later_by_time_category(open_page):
    page = page_text(open_page("compare", job_id="ended", other="ads"))
    assert re.findall(r"<th>(\w+) until", page) == ["ads", "ended"]
    assert "wall-clock per step: all_to_all" in page


def test_difference_that_comes_from_rounding_is_none() -> None:
    row = compare._cause_row
    old, new = (Side("ads", 0, causes={"forward": seconds}) for seconds in (0.0444, 0.0444 + 1e-11))
    assert row("forward", new, old)[3] == "0"
    assert row("forward", Side("ads", 0, causes={"forward": 0.0445}), old)[3] == "+0.1 ms"
    assert row("eval", Side("ads", 0, causes={"eval": 0.008}), old)[3] == "+8 ms"


def test_compare_page_without_history_shows_no_difference(open_page, world):
    world.moment = EMPTY
    page = page_text(open_page("compare", job_id="ads"))
    assert "unknown" in page
    assert "+" not in page.partition('data-testid="zmon-compare"')[2].partition("<style>")[0]


def test_hardware_page_queries_host_of_the_url(open_page, world):
    app = open_page("hardware", job_id="ads", host="node-1")
    assert selectbox(app, "Host").value == "node-1"
    assert any('zmon:host_cpu_busy:ratio{host="node-1"}' in promql for promql in world.queries)


def test_only_zmon_alerts_are_queried(open_page, world):
    open_page("cluster")
    (query,) = {promql for promql in world.queries if "ALERTS" in promql}
    assert 'alertname=~"Zmon.+"' in query


def test_host_can_be_deselected_without_jobs(open_page, world):
    world.jobs = []
    world.moment = EMPTY
    app = open_page("hardware", host="node-1")
    selectbox(app, "Host").select(hosts.WHOLE_JOB).run()
    assert "host" not in app.query_params


def test_error_of_hub_is_shown_without_advice_about_its_url(open_page, world):
    world.job_error = "no agent reports a job ads"
    page = page_text(open_page("ranks", job_id="ads"))
    assert "no agent reports a job ads" in page
    assert "is ZMON_HUB_URL right?" not in page


@pytest.mark.parametrize("view", ["job", "ranks", "hardware", "compare", "scaling"])
def test_names_in_label_of_link_are_escaped(open_page, view):
    app = open_page(view, job_id="![x](http://127.0.0.1:9/x.png) *b*", host="![y](http://127.0.0.1:9/y.png)")
    (label,) = [popover.proto.popover.label for popover in app.get("popover")]
    assert label.startswith(r"\!\[x\]\(http\:\/\/127")
    assert "![" not in label


def test_rank_beyond_world_size_is_reported(open_page, world):
    assert "There is no rank 99: ads has 2." in page_text(open_page("ranks", job_id="ads", rank="99"))


@pytest.mark.parametrize("view", VIEWS[:-1])  # Armed sends the requests of `zmon doctor`, all in parallel
def test_view_sends_few_queries_to_prometheus_that_hangs(open_page, monkeypatch, view):
    sent = []

    def answer(path, query):
        sent.append(query)
        time.sleep(0.3)

    hanging = FakeServer(answer)
    monkeypatch.setattr("dashboards.queries.TIMEOUT_SECONDS", 0.2)
    monkeypatch.setenv("ZMON_PROMETHEUS_URL", hanging.url)
    open_page(view, job_id="ads", rank="1", other="video")
    assert 1 <= len(sent) <= 2  # of this refresh and of the next
    hanging.close()


def test_unknown_job_to_compare_with_stays_selected(open_page):
    app = open_page("compare", job_id="ads", other="gone")
    assert selectbox(app, "Compare with").value == "gone"


def test_communication_page_calls_traffic_between_hosts_unknown(open_page):
    assert "Traffic between two hosts is unknown" in page_text(open_page("communication", job_id="ads"))


def test_hardware_page_shows_gpu_utilization_of_hosts_and_unknown_in_grey(open_page):
    page = page_text(open_page("hardware", job_id="ads"))
    assert 'title="GPU 0 50.0 %, GPU 1 unknown, GPU 2 50.0 %' in page
    assert f"{BLUE}80 0% 12.5%,{GREY} 12.5% 25%,{BLUE}80 25% 37.5%" in page


@pytest.mark.parametrize("view", ["cluster", "job", "ranks", "incidents"])
def test_finding_of_a_severity_that_only_a_newer_hub_knows_is_shown(open_page, world, view):
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


def test_requests_of_the_banner_are_sent_together(open_page, world, monkeypatch):
    """The hub answers neither request before it has both."""
    both = threading.Barrier(2)

    def answer(path: str, query: dict[str, str]) -> object:
        if path.endswith("/jobs") or "active" in query:
            both.wait(10)
        return world.hub(path, query)

    hub = FakeServer(answer)
    monkeypatch.setenv("ZMON_HUB_URL", hub.url)
    assert "HEALTHY" in page_text(open_page("job", job_id="ads"))
    hub.close()
