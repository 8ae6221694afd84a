"""Tests of the page Job, run by Streamlit's AppTest with a recorded Prometheus and a fake hub."""

import pytest

from dashboards.glance import Glance
from dashboards.views import banner
from dashboards.views.pauses import MAX_PAUSES
from tests.build import ended_job
from tests.dashboards.recorded import EMPTY, NOW, SILENT, SILENT_SELDOM, STORES_NOTHING, UNUSABLE
from tests.dashboards.world import JOB, STALL, banner_value, changed, page_text, selectbox
from tests.http_server import FakeServer
from zmon.job.headline import with_headline
from zmon.schema.job import Progress, TimeLeft
from zmon.schema.pause import HealedPause, Place

NOWHERE = "http://127.0.0.1:9"  # the discard port: refused at once


def test_healthy_job_shows_headline_and_numbers(open_page, world):
    world.past = [changed(STALL, id="f0", onset=1000.0, detected=1001.0, resolved=1060.0)]
    app = open_page()
    page = page_text(app)
    assert "HEALTHY" in page
    assert page.count("<span>step 7,318 ended 200 ms ago</span>") == 2
    assert [name for name in ("zmon-pauses", "zmon-ends", "zmon-then", "<dt>Time left</dt>") if name in page] == []
    assert [banner_value(app, label) for label in ("Step", "Step time", "Samples/s", "Loss", "Ranks watched")] == [
        "604", "83.2 ms", "24,615", "0.451", "2 of 2",
    ]  # fmt: skip


def test_job_with_planned_steps_shows_progress_and_time_left(open_page, world):
    world.jobs = [changed(JOB, progress=Progress(50_000, 604, TimeLeft(11_400.0, 10_200.0, 13_200.0)))]
    app = open_page()
    assert banner_value(app, "Step") == "604 of 50,000 (1 %)"
    assert banner_value(app, "Time left") == "about 3 h 10 min"
    assert "2 h 50 min to 3 h 40 min" in page_text(app)


def test_job_links_to_the_page_of_its_run(open_page, world):
    world.jobs = [changed(JOB, labels={"run_page": "https://wandb.ai/ann/ads/runs/1jx1ud12"})]
    page = page_text(open_page())
    assert 'href="https://wandb.ai/ann/ads/runs/1jx1ud12" target="_blank" rel="noopener noreferrer"' in page


@pytest.mark.parametrize("url", ["javascript:alert(1)", '"><script>alert(1)</script>', "https://ann:secret@wandb.ai/"])
def test_hostile_run_page_is_not_shown(open_page, world, url):
    world.jobs = [changed(JOB, labels={"run_page": url})]
    page = page_text(open_page())
    assert "zmon-run-page" not in page
    assert url not in page


def test_unknown_time_left_has_no_number(open_page, world):
    world.jobs = [changed(JOB, progress=Progress(1000, 604, unknown="while the job is stalled"))]
    page = page_text(open_page())
    assert "<dt>Time left</dt>" not in page
    assert "Time left unknown while the job is stalled." in page


def test_stalled_job_shows_culprit_cause_and_next_step(open_page, world):
    world.findings = [changed(STALL, onset=NOW - 42)]
    world.jobs = [changed(JOB, state="stalled")]
    app = open_page()
    page = page_text(app)
    for text in ("STALLED", "rank_frozen", "<code>kill -CONT 4711</code>", "rank 1</a> ◀ culprit", "open for 42 s"):
        assert text in page
    assert banner_value(app, "Step time") == "none for 42 s"
    assert "HEALTHY" not in page


def test_warning_shows_headline_without_culprit_tile(open_page, world):
    world.findings = [changed(STALL, severity="warning", cause="rank_exited")]
    page = page_text(open_page())
    assert "WARNING" in page
    assert "culprit</b>" not in page


def test_pauses_that_healed_are_listed_by_place_the_longest_first(open_page, world):
    pauses = [
        HealedPause(Place("other", f"<module> at save.py:{line}"), seconds, number, NOW - 3 * 3600)
        for line, seconds, number in ((7, 3.0, 1), (88, 12.0, 41))
    ]
    world.jobs = [changed(JOB, pauses=tuple(pauses))]
    page = page_text(open_page())
    table = page.partition("zmon-pauses")[2]
    assert "<td>other, <code>&lt;module&gt; at save.py:88</code></td><td>12 s</td><td>41</td>" in table
    assert table.index("save.py:88") < table.index("save.py:7<")
    assert "<td>3 h ago</td>" in table
    assert "GET /api/v1/jobs" in page


def test_only_the_longest_pauses_are_listed(open_page, world):
    places = [Place("data", f"read() at loader.py:{line}") for line in range(20)]
    world.jobs = [changed(JOB, pauses=tuple(HealedPause(place, 2.0, 1, NOW) for place in places))]
    app = open_page()
    assert page_text(app).count("loader.py:") == MAX_PAUSES
    assert any("12 places with shorter pauses are not shown." in caption.value for caption in app.caption)


def test_page_without_jobs_shows_command_that_starts_job(open_page, world):
    world.jobs = []
    world.moment = EMPTY
    page = page_text(open_page())
    assert "NO JOB" in page
    assert "zmon demo" in page


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://127.0.0.1", "http://[::1"])
def test_invalid_prometheus_url_shows_blind_and_name_of_its_variable(open_page, monkeypatch, url):
    monkeypatch.setenv("ZMON_PROMETHEUS_URL", url)
    page = page_text(open_page())
    assert "BLIND" in page
    assert "is ZMON_PROMETHEUS_URL right?" in page


def test_hub_url_of_server_without_json_is_reported(open_page, world, monkeypatch):
    web = FakeServer(lambda path, query: b"<html>hello</html>")
    monkeypatch.setenv("ZMON_HUB_URL", web.url)
    assert "not with JSON" in page_text(open_page())
    web.close()


@pytest.mark.parametrize(("moment", "seconds"), [(SILENT, 10), (SILENT_SELDOM, 150)])
def test_stopped_heartbeat_shows_blind_later_if_the_hub_is_scraped_seldom(open_page, world, moment, seconds):
    world.moment = moment
    page = page_text(open_page())
    assert "BLIND" in page
    assert f"no pass for {seconds} s" in page
    assert any(f"zmon_hub_last_pass_timestamp_seconds[{seconds}s]" in promql for promql in world.queries)


def test_prometheus_that_stores_nothing_is_shown_first(open_page, world):
    world.moment = STORES_NOTHING
    page = page_text(open_page())
    assert 0 <= page.index("Prometheus stores no samples") < page.index("finished no pass")


@pytest.mark.parametrize("moment", [EMPTY, *UNUSABLE])
def test_rules_without_usable_intervals_count_as_those_of_one_machine(open_page, world, moment):
    world.moment = moment
    open_page()
    assert any("zmon_hub_last_pass_timestamp_seconds[10s]" in promql for promql in world.queries)


def test_charts_of_agents_that_are_scraped_every_15_s_have_longer_windows(open_page, world):
    open_page(range="5m")
    (samples,) = {promql for promql in world.queries if "zmon:job_samples:rate" in promql}
    (where,) = {promql for promql in world.queries if promql.startswith("max by (cause) (rate(")}
    assert "[75s]" in samples
    assert "[10s]" in where  # the hub is scraped every 2 s


@pytest.mark.parametrize(
    ("state", "findings", "ended", "word"),
    [
        ("train", (), None, "BLIND"),
        ("train", (changed(STALL, severity="warning"),), None, "BLIND"),
        ("stalled", (changed(STALL, severity="warning", cause="input_stall"),), None, "STALLED"),
        ("exited", (STALL,), ended_job(), "FAILED"),
        ("exited", (), ended_job(), "BLIND"),  # it may have started again since
    ],
)
def test_blind_hub_hides_all_but_stalls_and_critical_findings(state, findings, ended, word):
    job = with_headline(changed(JOB, state=state, ended=ended), findings)
    glance = Glance(0.0, job_id="ads", job=job, findings=findings, blind=("no agent",), hub_is_blind=True)
    assert banner.headline(glance).word == word


def test_critical_finding_of_a_job_that_the_hub_does_not_list_yet_is_shown():
    glance = Glance(0.0, job_id="ads", findings=(STALL,), blind=("no agent",), hub_is_blind=True)
    assert (banner.headline(glance).word, banner.main_finding(glance)) == ("CRITICAL", STALL)


def test_missing_numbers_are_shown_as_unknown(open_page, world):
    world.jobs = [changed(JOB, step_seconds=None, samples_per_second=None, report={})]
    app = open_page()
    assert {banner_value(app, label) for label in ("Step time", "Samples/s", "Loss")} == {"unknown"}


def test_rank_that_no_agent_reports_is_shown_as_unwatched(open_page, world):
    world.jobs = [changed(JOB, world_size=3)]
    tile = page_text(open_page()).partition('zmon-rank-2"')[2]
    assert "<i>unwatched</i>" in tile


def test_url_cannot_inject_promql(open_page, world):
    app = open_page(job_id='x"} or up{a="', range="1h")
    assert "UNKNOWN" in page_text(app)
    assert [button.label for button in app.button if button.proto.type == "secondary"] == ["1h"]
    assert not [promql for promql in world.queries if 'job_id="x"}' in promql]
    assert any(r'job_id="x\"} or up{a=\""' in promql for promql in world.queries)


def test_click_on_time_range_sets_url_parameter(open_page):
    app = open_page(job_id="ads")
    app.button(key="range 1h").click().run()
    assert "1h" in app.query_params["range"]
    app.button(key="range 15m").click().run()
    assert "range" not in app.query_params


def test_stalled_job_is_selected_before_healthy_job(open_page, world):
    world.jobs = [JOB, changed(JOB, job_id="other", state="stalled")]
    world.findings = [changed(STALL, job_id="other")]
    app = open_page()
    assert selectbox(app, "Job").value == "other"
    selectbox(app, "Job").select("ads").run()
    assert "HEALTHY" in page_text(app)
    assert "Also critical in other" in page_text(app)


def failed_job(now):
    end = ended_job(time=now - 3 * 3600)
    return changed(JOB, state="exited", ranks_seen=0, step_seconds=None, samples_per_second=None, ended=end)


def test_ended_job_shows_reason_without_numbers_of_a_running_job(open_page, world):
    world.jobs = [failed_job(EMPTY)]
    world.moment = EMPTY
    app = open_page()
    page = page_text(app)
    assert "FAILED" in page
    assert "ended by rank_exited: rank 2 on node-1 exited at step 118: ValueError: bad sample (3 h ago)" in page
    assert "Read the end of rank 2" in page
    assert "incident=f9" in page
    assert [banner_value(app, label) for label in ("Step time", "Samples/s", "Ranks watched")] == ["–", "–", "2 gone"]
    assert "the job has ended" in page


def test_ended_job_is_shown_as_failed_while_prometheus_does_not_answer(open_page, world, monkeypatch):
    """The hub knows how the job ended. On the cluster page other jobs may be stalled."""
    monkeypatch.setenv("ZMON_PROMETHEUS_URL", NOWHERE)
    world.jobs = [failed_job(NOW)]
    page = page_text(open_page())
    assert "FAILED" in page
    assert "ZMON_PROMETHEUS_URL" in page
    cluster = page_text(open_page("cluster"))
    assert "BLIND" in cluster
    assert "ended by rank_exited" in cluster
