"""Tests of the agent's /metrics: which ranks the page shows. tests/metrics/ has its values."""

from tests.agent.agent_client import get_metrics, get_snapshot


async def test_page_has_the_content_type_of_prometheus(serve):
    async with serve() as client, client.get("/metrics") as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_metrics_show_the_newest_attempt_only(make_live_box, serve):
    make_live_box(0, attempt=0).steps(3, 1.0)
    make_live_box(0, attempt=1, start_unix=1_000.0).steps(5)  # the clock was set back meanwhile
    async with serve() as client:
        lines = [line for line in (await get_metrics(client)).splitlines() if line.startswith("zmon_steps_total")]
        assert lines == ['zmon_steps_total{host="node-a",job_id="job",rank="0"} 5.0']


async def test_metrics_of_a_dead_rank_end_after_half_a_minute(make_live_box, serve):
    fresh, old = make_live_box(0), make_live_box(1, seconds_ago=40)
    for phase in (0, 1):  # one write for each state slot, because the clock of a real rank never goes back
        old.timeline.phase(phase)
    for box in (fresh, old):
        box.holder.end()
    async with serve() as client:
        page = await get_metrics(client)
        assert 'rank="0"' in page
        assert 'rank="1"' not in page
        assert {state.rank for state in (await get_snapshot(client)).ranks} == {0, 1}  # the hub still gets both ranks
