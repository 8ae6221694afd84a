"""Tests of the agent's /metrics. The page is valid, and shows the newest attempt of each job.

A rank that died more than half a minute ago is left out.
"""

import subprocess

from tests.agent.agent_client import get_metrics, get_snapshot


def values_of(page, *words):
    """Return the values of the lines of a page that have these words."""
    return [line.split()[1] for line in page.splitlines() if line[0] != "#" and all(word in line for word in words)]


async def test_metrics_of_a_real_rank_pass_promtool_and_keep_nan(start_rank, tmp_path, serve):
    rank = start_rank(
        """
        import time, zmon
        from zmon import probe
        probe.attach_box()
        for _ in range(10):
            with zmon.step():
                zmon.phase("forward")
                zmon.work(samples=32)
        zmon.report(loss=float("nan"), auc=0.7)
        print("trained", flush=True)
        time.sleep(60)
        """,
        ZMON_BOX_DIR=str(tmp_path),
    )
    rank.says("trained")
    async with serve() as client:
        async with client.get("/metrics") as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            page = await answer.text()
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
        labels = '{host="node-a",job_id="job",rank="0"}'
        assert values_of(page, f"zmon_steps_total{labels}") == ["10.0"]
        assert values_of(page, f"zmon_samples_total{labels}") == ["320.0"]
        assert (values_of(page, 'key="loss"'), values_of(page, 'key="auc"')) == (["NaN"], ["0.7"])
        (state,) = (await get_snapshot(client)).ranks
        assert state.report == {"loss": None, "auc": 0.7}  # JSON has no NaN
        assert state.pid == rank.pid


async def test_metrics_show_the_newest_attempt_only(make_live_box, serve):
    make_live_box(0, attempt=0).steps(3, 1.0)
    make_live_box(0, attempt=1, start_unix=1_000.0).steps(5)  # the clock was set back meanwhile
    async with serve() as client:
        assert values_of(await get_metrics(client), "zmon_steps_total") == ["5.0"]


async def test_metrics_of_a_dead_rank_end_after_half_a_minute(make_live_box, serve):
    fresh, old = make_live_box(0), make_live_box(1, seconds_ago=40)
    for phase in (0, 1):  # one write for each state slot, because the clock of a real rank never goes back
        old.timeline.phase(phase)
    for box in (fresh, old):
        box.process.end()
    async with serve() as client:
        page = await get_metrics(client)
        assert 'rank="0"' in page
        assert 'rank="1"' not in page
        assert {state.rank for state in (await get_snapshot(client)).ranks} == {0, 1}  # the hub still gets both ranks
