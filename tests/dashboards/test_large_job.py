"""Tests of pages about a job of 16,384 ranks: what they draw and request does not grow with the job."""

import pytest

from tests.dashboards.recorded import EMPTY, LARGE, NUM_HOSTS
from tests.dashboards.world import JOB, RANKS, STALL, changed, page_text, selectbox
from zmon.schema.api import RankList, RankSummary

NUM_RANKS = 16_384
HOSTS = tuple(f"node-{number:04d}" for number in range(NUM_HOSTS))
MANY = changed(JOB, world_size=NUM_RANKS, ranks_seen=NUM_RANKS, hosts=HOSTS)
QUIET = RankSummary(NUM_RANKS, 0, 0, (), {"train": NUM_RANKS})
SECOND_PAGE = RankList("ads", [changed(RANKS[0], rank=rank) for rank in range(50, 100)], NUM_RANKS, QUIET)
VIEWS = ("cluster", "job", "ranks", "communication", "scaling", "hardware", "incidents", "compare")


@pytest.fixture
def large(world):
    world.jobs = [MANY]
    world.ranks = RankList("ads", [], 0, QUIET)
    world.moment = LARGE
    return world


def rank_queries(world) -> list[dict[str, str]]:
    return [query for path, query in world.hub_requests if path.endswith("/ranks")]


@pytest.mark.parametrize("view", VIEWS)
def test_no_page_requests_all_ranks(open_page, large, view):
    large.findings = [STALL]
    open_page(view, job_id="ads")
    assert all(0 <= int(query.get("limit", -1)) <= 50 for query in rank_queries(large))
    assert not any("zmon_rank_info|" in promql or "zmon_activity{" in promql for promql in large.queries)
    evidence = [q for path, q in large.hub_requests if path.endswith("/findings") and q.get("evidence") != "0"]
    assert all(int(query["evidence_ranks"]) <= 16 for query in evidence)


def test_tiles_of_a_quiet_job_are_one_bar_and_a_sentence(open_page, large):
    app = open_page("job", job_id="ads")
    page = page_text(app)
    assert "16,384 ranks: <b>16,384</b> training" in page
    assert 'data-testid="zmon-rank-' not in page
    assert any("No rank stands out" in caption.value for caption in app.caption)
    assert rank_queries(large) == [{"limit": "24", "order": "urgency", "standing_out": "1"}]


def test_tiles_show_the_ranks_that_stand_out(open_page, large):
    dead = changed(RANKS[0], rank=100, alive=False, process_state=None)
    summary = changed(QUIET, num_standing_out=2, by_state={"dead": 1, "unwatched": 1, "train": NUM_RANKS - 2})
    large.ranks = RankList("ads", [dead, changed(RANKS[0], rank=101, watched=False)], 2, summary)
    page = page_text(open_page("job", job_id="ads"))
    assert "<b>1</b> dead · <b>1</b> unwatched · <b>16,382</b> training" in page
    assert page.count('data-testid="zmon-rank-') == 2
    assert "<i>dead</i>" in page
    assert "<i>unwatched</i>" in page


def test_ranks_that_nobody_reports_are_unwatched(open_page, large):
    summary = changed(QUIET, num_missing=9000, missing=tuple(range(64)), by_state={"train": 1})
    large.ranks = RankList("ads", [], 0, summary)
    app = open_page("job", job_id="ads")
    assert "9,001 ranks: <b>9,000</b> unwatched · <b>1</b> training" in page_text(app)
    assert page_text(app).count('data-testid="zmon-rank-') == 24
    assert any(caption.value == "The 24 most urgent of 9,000 ranks that stand out." for caption in app.caption)


def test_tiles_are_unknown_if_the_hub_rejects_the_request(open_page, large):
    large.job_error = "no agent reports a job ads"
    assert "no agent reports a job ads" in page_text(open_page("job", job_id="ads"))


def test_table_has_one_page_of_ranks_in_the_order_of_the_url(open_page, large):
    large.ranks = SECOND_PAGE
    app = open_page("ranks", job_id="ads", order="-self_seconds", first="50", host="node-0003")
    assert rank_queries(large) == [{"limit": "50", "offset": "50", "order": "-self_seconds", "host": "node-0003"}]
    assert list(app.dataframe[0].value["rank"]) == list(range(50, 100))
    assert any(caption.value == "Ranks 51 to 100 of 16,384 on node-0003" for caption in app.caption)


def test_buttons_turn_pages(open_page, large):
    large.ranks = SECOND_PAGE
    app = open_page("ranks", job_id="ads", first="50")
    buttons = {button.label: button for button in app.button}
    assert not buttons["Previous"].disabled
    buttons["Next"].click().run()
    assert app.query_params["first"] == "100"
    selectbox(app, "Order").set_value("rank").run()
    assert app.query_params["order"] == "rank"
    assert "first" not in app.query_params


def test_buttons_beyond_the_pages_are_disabled(open_page, large):
    large.ranks = RankList("ads", [RANKS[0]], 1, QUIET)
    buttons = {button.label: button for button in open_page("ranks", job_id="ads").button}
    assert buttons["Previous"].disabled
    assert buttons["Next"].disabled


def test_tiles_of_many_hosts_are_the_least_busy_ones(open_page, large):
    app = open_page("hardware", job_id="ads")
    page = page_text(app)
    assert page.count("host=node-") == 28
    assert page.index(">node-0000<") < page.index(">node-0027<")
    summary = "The 28 least busy of 2,048 hosts. Of all hosts, the median value is 45.0 %, the largest value is 90.0 %."
    assert any(summary in caption.value for caption in app.caption)
    gpu_queries = [promql for promql in large.queries if promql.startswith("max by (host, gpu) (zmon:gpu_utilization")]
    assert 'host=~"node' in gpu_queries[0]


def test_heat_map_of_many_hosts_queries_culprits_too(open_page, large):
    large.findings = [changed(STALL, hosts=("node-1", "node-2"))]
    open_page("ranks", job_id="ads")
    (query,) = [promql for promql in large.queries if "avg_over_time(zmon:job_host_own:max" in promql]
    assert 'host=~"node\\\\-0007|node\\\\-1|node\\\\-2"' in query
    assert "zmon:job_host_own:spread" in query


def test_heat_map_of_many_hosts_has_all_if_no_rule_says_which_stand_out(open_page, large):
    large.moment = EMPTY
    open_page("ranks", job_id="ads")
    (query,) = [promql for promql in large.queries if "avg_over_time(zmon:job_host_own:max" in promql]
    assert "host=~" not in query
