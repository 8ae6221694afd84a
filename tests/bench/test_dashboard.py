"""Tests of the dashboard benchmark: its synthetic history, its fake hub, and its report."""

import asyncio
import json
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

import dashboards
from bench.cluster import RANKS_PER_AGENT
from bench.dashboard import blocks, queries, report, rounds, scene, victoria
from bench.dashboard.fake_hub import FakeHub
from bench.dashboard.scene import JOB, SLOW, Scene, by_word
from bench.dashboard.synthetic import AT_AN_INSTANT, everything
from dashboards.panels import ALL
from dashboards.panels.panel import MAX_ROWS, SERIES
from dashboards.rules.render import recording_seconds
from zmon.schema.api import HubHealth, JobList, RankList

SCENE = Scene(num_ranks=4, hours=1 / 6, now=1_800_000_000, ahead_seconds=60)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory):
    file = tmp_path_factory.mktemp("history") / "text.om"
    start = SCENE.now - 600
    assert blocks.write(file, everything(SCENE), SCENE, start, SCENE.end) == len(file.read_text().splitlines()) - 1
    return file


def series_names(history) -> set[str]:
    return {line[: line.index("{")] for line in history.read_text().splitlines() if not line.startswith("#")}


def test_promtool_accepts_synthetic_history(history, tmp_path):
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", history, tmp_path / "blocks"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (block, *_) = (tmp_path / "blocks").iterdir()
    assert json.loads((block / "meta.json").read_text())["stats"]["numSeries"] > 300


def test_history_has_every_series_of_panels(history):
    queried = {name for panel in ALL for name in (*panel.series(), *SERIES.findall(_unquoted(panel.summary_promql)))}
    assert queried <= series_names(history)


def test_history_has_every_series_of_other_queries_of_views(history):
    views = queries.by_view(SCENE, "1h", SCENE.now)
    every = [query for view_queries in views.values() for query in view_queries]
    queried = {name for query in every for name in SERIES.findall(_unquoted(query.promql))}
    assert "zmon:gpu_utilization:ratio" in queried
    assert "zmon_job_time_seconds_total" in queried
    assert queried <= series_names(history)


def samples_by_series(history: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the times in seconds and the values of each series, by its name and labels."""
    samples: dict[str, list[tuple[int, float]]] = {}
    for line in history.read_text().splitlines()[:-1]:
        series, value, time = line.rsplit(" ", 2)
        samples.setdefault(series, []).append((int(time), float(value)))
    return samples


def test_counters_never_fall(history):
    for series, samples in samples_by_series(history).items():
        if series.partition("{")[0].endswith(("_total", ":total", "_bucket")):
            values = [value for _, value in samples]
            assert values == sorted(values), series


def test_recorded_series_have_the_interval_of_their_rules(history):
    seconds = recording_seconds(SCENE.intervals)
    for series, samples in samples_by_series(history).items():
        if series.startswith("zmon:rank_"):
            times = [time for time, _ in samples]
            assert set(np.diff(times)) == {seconds[series.partition("{")[0]]}, series


def test_slow_rank_has_more_self_time_and_less_exposed_time():
    def seconds(rank: int, prefix: str) -> float:
        return sum(by_word(SCENE.rank(SLOW, rank), prefix).values())

    slow, other = SCENE.culprit, SCENE.culprit - 1
    assert seconds(slow, "phase_") > 2 * seconds(other, "phase_")
    assert seconds(slow, "exposed_") < seconds(other, "exposed_") / 2


def test_seconds_by_kind_never_fall_and_sum_to_elapsed_time():
    times = np.arange(SCENE.start, SCENE.end, 7)
    seconds = SCENE.seconds_by_kind(times)
    assert (np.diff(seconds) >= 0).all()
    assert seconds.sum(axis=0) == pytest.approx(times - SCENE.start)


async def _answers(path: str, job: Scene = SCENE) -> bytes:
    async with TestClient(TestServer(FakeHub(job).app())) as client:
        response = await client.get(path)
        assert response.status == 200, path
        return await response.read()


@pytest.mark.parametrize(
    ("path", "answer", "rows"),
    [
        ("/healthz", HubHealth, "agents"),
        ("/api/v1/jobs", JobList, "jobs"),
        (f"/api/v1/jobs/{JOB}/ranks", RankList, "ranks"),
    ],
)
def test_fake_hub_answers_have_types_of_the_hub(path, answer, rows):
    content = msgspec.json.decode(asyncio.run(_answers(path)), type=answer)
    assert len(getattr(content, rows)) > 0


def test_job_of_fake_hub_is_as_old_as_its_history():
    """Charts begin with the job. If it were young, they would be nearly empty, and drawn faster than real ones."""
    now = int(time.time())
    young = replace(SCENE, now=now)
    job, *_ = json.loads(asyncio.run(_answers("/api/v1/jobs", young)))["jobs"]
    assert sum(job["time"].values()) == pytest.approx(now - young.start, abs=5)


def test_fake_hub_predicts_scaling_with_what_if():
    answer = json.loads(asyncio.run(_answers(f"/api/v1/jobs/{JOB}/scaling?what_if=net%3D2")))
    assert answer["points"]
    assert answer["what_ifs"]
    assert all(size["predicted"]["seconds"] >= size["what_if"]["seconds"] for size in answer["sizes"])


def test_every_view_of_the_dashboard_is_measured():
    app = (Path(dashboards.__file__).parent / "app.py").read_text()
    paths = set(re.findall(r'^    "(\w+)": Page\(', app, re.MULTILINE))
    assert paths == {view.path for view in rounds.views("6h", 3)}


@pytest.fixture(scope="module")
def large():
    """Yield a job that is just large, and its series. Its hosts are more than the rows of a heat map."""
    job = Scene(num_ranks=RANKS_PER_AGENT * (MAX_ROWS + 1), hours=1 / 6, now=SCENE.now, ahead_seconds=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scene, "LARGE_RANKS", job.num_ranks - 1)  # a job of 2,049 ranks would take twice the time
        yield job, list(everything(job))


def test_large_job_has_series_of_agents_only_at_an_instant_and_of_ranks_in_detail(large):
    job, series = large
    agents = [entry for entry in series if entry.labels.get("job") == "zmon-agent"]
    others = [entry for entry in agents if entry.labels.get("rank") == "100"]
    assert {entry.name for entry in others} == set(AT_AN_INSTANT)
    assert {entry.labels["host"] for entry in others} == {"node-0012"}
    assert {entry.name for entry in agents if entry.labels.get("rank") == str(job.culprit)} > set(AT_AN_INSTANT)
    assert len({entry.labels["rank"] for entry in agents if entry.name == "zmon_rank_info"}) == job.num_ranks


def test_large_job_has_five_recorded_series_per_rank_at_the_interval_of_a_cluster(large):
    job, series = large
    rank_series = [entry for entry in series if entry.name.startswith("zmon:rank_")]
    assert len(rank_series) == 5 * job.num_ranks
    assert {entry.every for entry in rank_series} == {15}


def test_large_job_has_every_series_of_views(large):
    job, series = large
    views = queries.by_view(job, "1h", job.now)
    promql = " ".join(_unquoted(query.promql) for view_queries in views.values() for query in view_queries)
    assert set(SERIES.findall(promql)) <= {entry.name for entry in series}
    assert "zmon:job_host_own:gap" in promql


def test_host_that_stands_out_is_the_one_of_the_slow_rank(large):
    job, series = large
    gaps = [entry for entry in series if entry.name == "zmon:job_host_own:gap"]
    largest = max(gaps, key=lambda entry: np.nan_to_num(entry.by_kind[SLOW]))
    assert largest.labels["host"] == job.hosts[job.culprit // RANKS_PER_AGENT]


def test_lines_for_victoriametrics_have_all_samples_in_milliseconds():
    content, samples = victoria.write(everything(SCENE), SCENE)
    lines = [json.loads(line) for line in content.splitlines()]
    assert samples == sum(len(line["values"]) for line in lines) == sum(len(line["timestamps"]) for line in lines)
    assert {line["metric"]["__name__"] for line in lines} >= {"zmon:rank_self_seconds:total", "zmon_rank_info"}
    assert all(SCENE.start * 1000 <= line["timestamps"][0] < SCENE.end * 1000 for line in lines)


def _unquoted(promql: str) -> str:
    return re.sub(r'"[^"]*"', '""', promql)


def test_browser_time_is_unknown_if_server_took_longer_than_click(capsys):
    click = {"armed": [0.040]}
    served = {"armed": [0.045]}
    prometheus = {kind: {"armed": [0.001]} for kind in rounds.OF_PROMETHEUS.values()}
    clicks = {rounds.CLICK_FIRST: click, rounds.CLICK_AGAIN: {"armed": [0.145]}}
    report.parts({rounds.FIRST: served, rounds.AGAIN: served, **prometheus}, clicks)
    assert re.findall(r"\d+ ms|unknown", capsys.readouterr().out.splitlines()[-1]) == [
        "40 ms", "45 ms", "unknown", "1 ms", "145 ms", "45 ms", "100 ms", "1 ms",
    ]  # fmt: skip
