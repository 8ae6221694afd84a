"""The page Job, run by Streamlit's AppTest with a fake Prometheus and a fake hub."""

import time

import pytest

from dashboards.panels import job
from dashboards.panels.scaling import EFFICIENCY
from tests.dashboards.world import JOB, STALL, Fake, changed, choice, number, text

NOWHERE = "http://127.0.0.1:9"  # the discard port: refused at once


def test_a_healthy_job_says_so_with_its_numbers(opened, world):
    app = opened()
    assert "HEALTHY" in text(app)
    assert [number(app, label) for label in ("Step", "Step time", "Samples/s", "Loss", "Ranks watched")] == [
        "604", "83.2 ms", "24,615", "0.451", "2 of 2",
    ]  # fmt: skip


def test_a_stall_names_the_rank_the_cause_and_what_to_do(opened, world):
    world.findings = [changed(STALL, onset=time.time() - 42)]
    world.jobs = [changed(JOB, state="stalled")]
    app = opened()
    page = text(app)
    assert "STALLED" in page
    assert "rank 1 on node-1" in page
    assert "rank_frozen" in page
    assert "<code>kill -CONT 4711</code>" in page
    assert "rank 1</a> ◀ culprit" in page
    assert "open for 42 s" in page or "open for 43 s" in page
    assert number(app, "Step time").startswith("none for 4")
    assert "HEALTHY" not in page


def test_text_of_a_rank_is_escaped(opened, world):
    world.findings = [changed(STALL, summary="<script>alert(1)</script>")]
    assert "<script>" not in text(opened())


def test_a_warning_is_not_a_stall(opened, world):
    world.findings = [changed(STALL, severity="warning", cause="rank_exited")]
    page = text(opened())
    assert "WARNING" in page
    assert "culprit</b>" not in page


def test_no_job_says_how_to_start_one(opened, world):
    world.jobs, world.has_ranks = [], False
    page = text(opened())
    assert "NO JOB" in page
    assert "zmon demo" in page


@pytest.mark.parametrize("dead", ["ZMON_HUB_URL", "ZMON_PROMETHEUS_URL"])
def test_a_server_that_does_not_answer_makes_it_blind_never_healthy(opened, world, monkeypatch, dead):
    monkeypatch.setenv(dead, NOWHERE)
    page = text(opened())
    assert "BLIND" in page
    assert "HEALTHY" not in page
    assert f"is {dead} right?" in page


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://127.0.0.1", "http://[::1"])
def test_a_bad_url_is_one_clear_line(opened, monkeypatch, url):
    monkeypatch.setenv("ZMON_PROMETHEUS_URL", url)
    page = text(opened())
    assert "BLIND" in page
    assert "is ZMON_PROMETHEUS_URL right?" in page


def test_something_else_on_the_port_is_not_a_hub(opened, world, monkeypatch):
    web = Fake(lambda path, query: b"<html>hello</html>")
    monkeypatch.setenv("ZMON_HUB_URL", web.url)
    assert "not with JSON" in text(opened())
    web.close()


def test_a_heartbeat_that_has_stopped_is_blind(opened, world):
    world.heartbeat = False
    page = text(opened())
    assert "BLIND" in page
    assert "no pass for 10 s" in page


def test_a_blind_hub_is_blind(opened, world):
    world.hub_is_blind = True
    assert "BLIND" in text(opened())


def test_blindness_does_not_hide_a_stall(opened, world, monkeypatch):
    world.findings = [STALL]
    monkeypatch.setenv("ZMON_PROMETHEUS_URL", NOWHERE)
    page = text(opened())
    assert "STALLED" in page
    assert "rank 1 on node-1" in page
    assert "ZMON_PROMETHEUS_URL" in page


def test_missing_series_and_numbers_are_unknown_not_zero(opened, world):
    world.has_history = False
    world.jobs = [changed(JOB, step_seconds=None, samples_per_second=None, report={})]
    app = opened()
    assert {number(app, label) for label in ("Step time", "Samples/s", "Loss")} == {"unknown"}
    for panel in (*job.PANELS, EFFICIENCY):
        assert f"unknown: Prometheus has no {panel.series()[0]}" in text(app)


def test_a_rank_that_no_agent_reports_is_unwatched(opened, world):
    world.jobs = [changed(JOB, world_size=3)]
    assert 'zmon-rank-2"' in text(opened())
    assert "unwatched" in text(opened())


def test_the_url_chooses_job_and_range_and_cannot_inject_promql(opened, world):
    app = opened(job_id='x"} or up{a="', range="1h")
    assert "UNKNOWN" in text(app)
    assert [button.label for button in app.button if button.proto.type == "secondary"] == ["1h"]
    assert not [promql for promql in world.queries if 'job_id="x"}' in promql]
    assert any(r'job_id="x\"} or up{a=\""' in promql for promql in world.queries)


def test_a_time_range_is_chosen_with_one_click(opened):
    app = opened(job_id="ads")
    app.button(key="range 1h").click().run()
    assert "1h" in app.query_params["range"]
    app.button(key="range 15m").click().run()
    assert "range" not in app.query_params


def test_a_stalled_job_is_shown_before_a_healthy_one(opened, world):
    world.jobs = [JOB, changed(JOB, job_id="other", state="stalled")]
    world.findings = [changed(STALL, job_id="other")]
    app = opened()
    assert choice(app, "Job").value == "other"
    choice(app, "Job").select("ads").run()
    assert "HEALTHY" in text(app)
    assert "Also critical in other" in text(app)
