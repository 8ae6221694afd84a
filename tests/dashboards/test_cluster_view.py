"""Tests of the cluster page: its jobs, its alerts, and the GPU time of all jobs."""

import re

import pytest

from tests.build import ended_job
from tests.dashboards.recorded import ALERTS, EMPTY, LARGE, NOW
from tests.dashboards.world import INCIDENT, JOB, STALL, changed, page_text


def figure(app, label: str) -> str:
    """Return the text of the figure with this label in the summary of GPU time."""
    return re.search(f"<dt>{label}</dt><dd>(.*?)</dd>", page_text(app).partition("zmon-cluster")[2])[1]


def jobs_table(page: str) -> str:
    """Return the part of the page that begins with the table of jobs."""
    return page.partition("zmon-jobs")[2]


def test_cluster_page_lists_jobs_and_alerts(open_page, world):
    world.jobs = [JOB, changed(JOB, job_id="video", state="stalled")]
    world.moment = ALERTS
    page = page_text(open_page("cluster"))
    assert "job?job_id=video" in jobs_table(page)
    assert "ZmonStall" in page.partition('data-testid="zmon-firing"')[2].partition("zmon-jobs")[0]


def test_cluster_page_without_alerts_and_accounts_has_no_list_of_alerts_and_unknown_shares(open_page, world):
    world.moment = EMPTY
    app = open_page("cluster")
    assert "No alert fires." in page_text(app)
    assert [name for name in ("zmon-firing", "zmon-ends") if name in page_text(app)] == []
    assert figure(app, "Ideal, last 24 h") == "unknown <small>not recorded</small>"
    assert "the hub knows no GPU time of a job" in page_text(app)
    assert figure(app, "Held by idle jobs so far") == "unknown <small>no agent knows who holds GPUs</small>"


def test_banner_of_cluster_page_is_about_the_stalled_job(open_page, world):
    world.jobs = [JOB, changed(JOB, job_id="video", state="stalled")]
    page = page_text(open_page("cluster"))
    assert page.index(">video<") < page.index("zmon-jobs")


def test_stalled_job_has_no_step_time_and_a_rate_of_zero(open_page, world):
    world.jobs = [changed(JOB, state="stalled")]
    assert "<td>604</td><td>none</td><td>0</td>" in page_text(open_page("cluster"))


def test_cluster_page_without_findings_counts_jobs_by_state(open_page, world):
    world.jobs = [JOB, changed(JOB, job_id="video"), changed(JOB, job_id="old", state="done")]
    assert "3 jobs: 2 train, 1 done" in page_text(open_page("cluster"))


def test_cluster_page_shows_ended_jobs_first_and_with_their_reason(open_page, world):
    end = ended_job(time=NOW - 3 * 3600)
    gone = changed(JOB, job_id="video", state="exited", ranks_seen=0, samples_per_second=None, ended=end)
    world.jobs = [JOB, gone]
    page = page_text(open_page("cluster"))
    assert "2 jobs: 1 train, 1 failed" in page
    assert "<b>video</b> ended by rank_exited: rank 2 on node-1 exited at step 118" in page
    assert "<td>failed</td><td>rank_exited, ended 3 h ago</td><td>604</td><td>–</td><td>–</td>" in page
    assert jobs_table(page).index("job_id=video") < jobs_table(page).index("job_id=ads")


@pytest.mark.parametrize(("ago", "word"), [(3500, "FAILED"), (3700, "HEALTHY")])
def test_job_that_a_fault_ended_is_the_headline_for_an_hour(open_page, world, ago, word):
    gone = changed(JOB, job_id="video", state="exited", ranks_seen=0, ended=ended_job(time=NOW - ago))
    world.jobs = [JOB, gone]
    page = page_text(open_page("cluster"))
    assert f"</span> {word} " in page
    assert "<b>video</b> ended by rank_exited" in page


def test_cluster_page_shows_the_gpu_time_of_all_jobs_from_ideal_to_real(open_page, world):
    account = {"forward": 3 * 3600.0, "all_to_all": 3600.0}
    world.jobs = [changed(JOB, gpu_seconds=account), changed(JOB, job_id="video", gpu_seconds={"stall": 4 * 3600.0})]
    page = page_text(open_page("cluster"))
    assert "<b>8 GPU-h</b> of GPU time in 2 jobs, over all launches, <b>3 GPU-h</b> of it ideal: <b>37.5 %</b>" in page
    assert "stall <b>4 GPU-h</b> <small>50.0 %</small>" in page


def test_cluster_page_sums_what_incidents_of_today_cost(open_page, world):
    at = {"onset": NOW - 60.0, "detected": NOW - 58.0}
    yesterday = {"onset": NOW - 90_000.0, "resolved": NOW - 89_000.0}
    world.incidents = [
        changed(INCIDENT, id="a", **at, resolved=NOW - 10.0, lost_gpu_hours=1.5),
        changed(INCIDENT, id="b", **at, resolved=NOW - 10.0),
        changed(INCIDENT, id="c", **yesterday, lost_gpu_hours=100.0),
        changed(INCIDENT, id=STALL.id, **at, lost_gpu_hours=0.1),
    ]
    world.findings = [changed(STALL, **at, lost_gpu_hours=0.5)]  # it is open, and costs more by now
    lost = figure(open_page("cluster"), "Lost to incidents today")
    assert lost == "2 GPU-h <small>3 incidents, 1 of unknown cost</small>"


@pytest.mark.parametrize(("incidents", "text"), [([], "0 GPU-h <small>0 incidents</small>"), ([INCIDENT], "unknown")])
def test_cost_of_today_is_zero_only_if_nothing_happened(open_page, world, incidents, text):
    world.incidents = incidents
    assert figure(open_page("cluster"), "Lost to incidents today") == text


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        pytest.param(ALERTS, "4 GPU-h", id="eight GPUs for half an hour"),
        pytest.param(LARGE, "0 GPU-h", id="none is idle"),
    ],
)
def test_cluster_page_shows_the_gpu_time_that_idle_jobs_hold(open_page, world, moment, text):
    world.moment = moment
    assert figure(open_page("cluster"), "Held by idle jobs so far") == text


def test_cluster_page_shows_the_trend_of_the_ideal_share(open_page):
    app = open_page("cluster")
    assert re.fullmatch(r"[1-9]\d\.\d %", figure(app, "Ideal, last 24 h"))
    assert figure(app, "Ideal, 24 h before") == "unknown <small>not recorded</small>"


def test_charts_cover_the_shortest_range_with_the_age_of_the_oldest_job(open_page, world):
    world.jobs = [changed(JOB, time={"forward": 30.0}), changed(JOB, job_id="video", time={"forward": 3000.0})]
    open_page("cluster", range="6h")
    (request,) = [dict(query) for _, *query in world.requests if "zmon_job_gpu_seconds_total" in dict(query)["query"]]
    assert int(request["end"]) - int(request["start"]) == 3600  # the shortest that has the 50 minutes of video
