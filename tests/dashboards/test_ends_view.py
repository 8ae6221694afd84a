"""Tests of the table of launches that ended, on the pages Cluster and Job."""

from dataclasses import replace

import msgspec

from dashboards.views.ends import MAX_ENDS
from tests.build import finding, finished, killed, snapshot
from tests.dashboards.recorded import NOW
from tests.dashboards.world import page_text
from zmon.job.outcome import ended_launch
from zmon.schema.ended_launch import Restart

DONE = replace(snapshot(*(finished(rank, 9.0, step=1200, steps=600) for rank in range(4))), job_id="ads", time=NOW)
FAILED = replace(snapshot(*(killed(rank, 30.0, max_restarts=3) for rank in range(4))), job_id="video", time=NOW)


def ends():
    failed = ended_launch(FAILED, finding(summary="rank 2 <b>exited</b>"), None)
    return [
        ended_launch(DONE, None, None),
        msgspec.structs.replace(failed, restart=Restart(1, 190, {"init": 40.0, "relaunch": 2.0})),
    ]


def test_cluster_page_lists_ends_of_all_jobs(open_page, world):
    world.ends = ends()
    table = page_text(open_page("cluster")).partition("zmon-ends")[2]
    assert "<td>done</td>" in table
    assert "601 to 1,200" in table
    assert "all 4 ranks finished at step 1200" in table
    assert table.index("job_id=ads") < table.index("job_id=video")
    assert "rank 2 &lt;b&gt;exited&lt;/b&gt;; restart 1 of 3 resumed from step 190 after 42 s (init 40 s)" in table


def test_job_page_lists_ends_of_its_job(open_page, world):
    world.ends = ends()
    table = page_text(open_page()).partition("zmon-ends")[2]
    assert "<td>done</td>" in table
    assert "<td>failed</td>" not in table


def test_only_the_newest_ends_are_listed(open_page, world):
    world.ends = ends() * MAX_ENDS
    app = open_page("cluster")
    assert page_text(app).count("<td>failed</td>") == MAX_ENDS // 2
    assert any(f"{MAX_ENDS} earlier ends: `zmon ends` lists them." in caption.value for caption in app.caption)


def test_older_hub_without_ends_is_said_in_one_line(open_page, world):
    world.ends = None
    assert "Ends of launches: unknown" in page_text(open_page("cluster"))


def test_job_page_has_median_and_longest_phase_of_its_recoveries(open_page, world):
    restarts = [Restart(1, 190, {"init": seconds, "relaunch": 2.0}) for seconds in (40.0, 50.0, 60.0)]
    failed = ended_launch(replace(FAILED, job_id="ads"), finding(cause="rank_exited"), None)
    world.ends = [msgspec.structs.replace(failed, restart=restart) for restart in restarts]
    captions = [caption.value for caption in open_page().caption]
    quantiles = "median 52 s, 95 % quantile 1 min 1 s"
    assert f"Recovery after rank_exited, 3 times: {quantiles}; most of it is init, 50 s on average." in captions
