"""Tests of the dashboard benchmark: its synthetic history, its fake hub, and its report."""

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

import dashboards
from bench.dashboard import blocks, queries, report, rounds, victoria
from bench.dashboard.fake_hub import FakeHub
from bench.dashboard.scene import JOB, LARGE_RANKS, SLOW, Scene, by_word
from bench.dashboard.synthetic import AT_AN_INSTANT, everything
from dashboards.panels import ALL
from dashboards.panels.panel import SERIES
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


class Sample(NamedTuple):
    """A line of the history: a value of a series at a time in seconds."""

    series: str  # with its labels
    value: float
    time: int

    @property
    def name(self) -> str:
        return self.series[: self.series.index("{")]


def successive_samples(history: Path) -> Iterator[tuple[Sample, Sample]]:
    """Yield every two successive samples of each series."""
    last: dict[str, Sample] = {}
    for line in history.read_text().splitlines()[:-1]:
        series, value, time = line.rsplit(" ", 2)
        sample = Sample(series, float(value), int(time))
        if series in last:
            yield last[series], sample
        last[series] = sample


def test_counters_never_fall(history):
    for before, sample in successive_samples(history):
        if sample.name.endswith(("_total", ":total", "_bucket")):
            assert sample.value >= before.value, sample


def test_recorded_series_have_the_interval_of_their_rules(history):
    seconds = recording_seconds(SCENE.intervals)
    for before, sample in successive_samples(history):
        if sample.name.startswith("zmon:rank_"):
            assert sample.time - before.time == seconds[sample.name], sample


def test_slow_rank_has_more_self_time_and_less_exposed_time():
    ranks = [SCENE.rank(SLOW, rank) for rank in (SCENE.culprit, SCENE.culprit - 1)]
    (slow, other), (slow_exposed, other_exposed) = (
        [sum(by_word(rank, prefix).values()) for rank in ranks] for prefix in ("phase_", "exposed_")
    )
    assert slow > 2 * other
    assert slow_exposed < other_exposed / 2


TIMES = np.arange(SCENE.start, SCENE.end, 7)


def test_seconds_by_kind_sum_to_elapsed_time():
    assert SCENE.seconds_by_kind(TIMES).sum(axis=0) == pytest.approx(TIMES - SCENE.start)


def test_seconds_by_kind_never_fall():
    assert (np.diff(SCENE.seconds_by_kind(TIMES)) >= 0).all()


async def _answers(path: str, scene: Scene = SCENE) -> bytes:
    async with TestClient(TestServer(FakeHub(scene).app())) as client:
        response = await client.get(path)
        assert response.status == 200, path
        return await response.read()


@pytest.mark.parametrize(
    ("path", "answer"), [("healthz", HubHealth), ("api/v1/jobs", JobList), (f"api/v1/jobs/{JOB}/ranks", RankList)]
)
def test_fake_hub_answers_have_types_of_the_hub(path, answer):
    content = msgspec.json.decode(asyncio.run(_answers(f"/{path}")), type=answer)
    assert len(getattr(content, {"healthz": "agents"}.get(path, path.rpartition("/")[2]))) > 0


def test_job_of_fake_hub_is_as_old_as_its_history():
    """Charts begin with the job. If it were young, they would be nearly empty, and drawn faster than real ones."""
    now = int(time.time())
    scene = Scene(num_ranks=4, hours=1 / 6, now=now, ahead_seconds=60)
    job = json.loads(asyncio.run(_answers("/api/v1/jobs", scene)))["jobs"][0]
    assert sum(job["time"].values()) == pytest.approx(now - scene.start, abs=5)


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
    """Return the series of a job that is just large."""
    scene = Scene(num_ranks=LARGE_RANKS + 8, hours=1 / 6, now=SCENE.now, ahead_seconds=60)
    return scene, list(everything(scene))


def test_large_job_has_series_of_agents_only_at_an_instant_and_of_ranks_in_detail(large):
    scene, series = large
    agents = [entry for entry in series if entry.labels.get("job") == "zmon-agent"]
    others = [entry for entry in agents if entry.labels.get("rank") == "100"]
    assert {entry.name for entry in others} == set(AT_AN_INSTANT)
    assert {entry.labels["host"] for entry in others} == {"node-0012"}
    assert {entry.name for entry in agents if entry.labels.get("rank") == str(scene.culprit)} > set(AT_AN_INSTANT)
    assert len({entry.labels["rank"] for entry in agents if entry.name == "zmon_rank_info"}) == scene.num_ranks


def test_large_job_has_five_recorded_series_per_rank_at_the_interval_of_a_cluster(large):
    scene, series = large
    rank_series = [entry for entry in series if entry.name.startswith("zmon:rank_")]
    assert len(rank_series) == 5 * scene.num_ranks
    assert {entry.every for entry in rank_series} == {15}


def test_large_job_has_every_series_of_views(large):
    scene, series = large
    views = queries.by_view(scene, "1h", scene.now)
    promql = " ".join(_unquoted(query.promql) for view_queries in views.values() for query in view_queries)
    assert set(SERIES.findall(promql)) <= {entry.name for entry in series}
    assert "zmon:job_host_own:gap" in promql


def test_host_that_stands_out_is_the_one_of_the_slow_rank(large):
    scene, series = large
    gaps = [entry for entry in series if entry.name == "zmon:job_host_own:gap"]
    largest = max(gaps, key=lambda entry: np.nan_to_num(entry.by_kind[SLOW]))
    assert largest.labels["host"] == scene.hosts[scene.culprit // 8]


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
    report.parts(
        {rounds.FIRST: served, rounds.AGAIN: served, **prometheus},
        {rounds.CLICK_FIRST: click, rounds.CLICK_AGAIN: {"armed": [0.145]}},
    )
    assert re.findall(r"\d+ ms|unknown", capsys.readouterr().out.splitlines()[-1]) == [
        "40 ms", "45 ms", "unknown", "1 ms", "145 ms", "45 ms", "100 ms", "1 ms",
    ]  # fmt: skip
