"""Tests of the cluster page: its jobs, its alerts, and its GPUs."""

from dashboards.colours import BLUE, GREY
from tests.build import ended_job
from tests.dashboards.recorded import ALERTS, NOW
from tests.dashboards.world import JOB, changed, page_text


def test_cluster_page_lists_jobs_and_alerts(open_page, world):
    world.jobs = [JOB, changed(JOB, job_id="video", state="stalled")]
    world.moment = ALERTS
    page = page_text(open_page("cluster"))
    assert "job?job_id=video" in page
    assert "ZmonStall" in page
    assert page.index(">video<") < page.index("zmon-jobs")  # the banner is about this job


def test_cluster_page_shows_no_step_time_of_stalled_job(open_page, world):
    world.jobs = [changed(JOB, state="stalled")]
    assert "<td>none</td><td>0</td>" in page_text(open_page("cluster"))


def test_cluster_page_shows_gpu_utilization_of_hosts_and_unknown_in_grey(open_page):
    page = page_text(open_page("cluster"))
    assert 'title="GPU 0 50.0 %, GPU 1 unknown, GPU 2 50.0 %' in page
    assert f"{BLUE}80 0% 12.5%,{GREY} 12.5% 25%,{BLUE}80 25% 37.5%" in page


def test_cluster_page_without_findings_counts_jobs_by_state(open_page, world):
    world.jobs = [JOB, changed(JOB, job_id="video"), changed(JOB, job_id="old", state="done")]
    assert "3 jobs: 2 train, 1 done" in page_text(open_page("cluster"))


def test_cluster_page_shows_ended_jobs_with_their_reason(open_page, world):
    end = ended_job(time=NOW - 3 * 3600)
    gone = changed(JOB, job_id="video", state="exited", ranks_seen=0, samples_per_second=None, ended=end)
    world.jobs = [JOB, gone]
    page = page_text(open_page("cluster"))
    assert "2 jobs: 1 train, 1 failed" in page
    assert "<b>video</b> ended by rank_exited: rank 2 on node-1 exited at step 118" in page
    assert "<td>failed</td><td>rank_exited, ended 3 h ago</td><td>604</td><td>–</td><td>–</td>" in page
    assert page.index("job_id=video", page.index("zmon-jobs")) < page.index("job_id=ads", page.index("zmon-jobs"))


def test_cluster_page_shows_no_rate_of_a_job_that_is_done(open_page, world):
    world.jobs = [changed(JOB, state="done")]
    assert "<td>–</td><td>–</td>" in page_text(open_page("cluster"))
