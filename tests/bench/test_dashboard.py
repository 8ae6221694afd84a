"""The history that the dashboard is measured on: does Prometheus take it, and has it all that is asked for?"""

import asyncio
import json
import re
import subprocess
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

import dashboards
from bench.dashboard import blocks, questions, report, rounds
from bench.dashboard.fake_hub import FakeHub
from bench.dashboard.scene import JOB, SLOW, Scene
from bench.dashboard.synthetic import everything, intervals
from dashboards.panels import ALL
from dashboards.panels.panel import SERIES
from zmon.schema.api import HubHealth, JobList, RankList

SCENE = Scene(num_ranks=4, hours=1 / 6, now=1_800_000_000, ahead_seconds=60)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory):
    file = tmp_path_factory.mktemp("history") / "text.om"
    start = SCENE.now - 600
    assert blocks.write(file, everything(SCENE), SCENE, start, SCENE.end) == len(file.read_text().splitlines()) - 1
    return file


def names(text) -> set[str]:
    return {line[: line.index("{")] for line in text.read_text().splitlines() if not line.startswith("#")}


def test_prometheus_takes_it(text, tmp_path):
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, tmp_path / "blocks"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (block, *_) = (tmp_path / "blocks").iterdir()
    assert json.loads((block / "meta.json").read_text())["stats"]["numSeries"] > 300


def test_every_series_that_a_chart_is_drawn_from_is_there(text):
    asked = {name for panel in ALL for name in (*panel.series(), *SERIES.findall(_unquoted(panel.many)))}
    assert asked <= names(text)


def test_every_series_that_a_view_asks_for_beside_is_there(text):
    views = questions.of_views(SCENE, "1h", SCENE.now)
    asked = {name for those in views.values() for one in those for name in SERIES.findall(_unquoted(one.promql))}
    assert "zmon:gpu_utilization:ratio" in asked
    assert "zmon_job_time_seconds_total" in asked
    assert asked <= names(text)


def test_what_counts_never_falls_and_rules_are_followed(text):
    last: dict[str, tuple[float, int]] = {}
    every = intervals()
    for line in text.read_text().splitlines()[:-1]:
        head, value, time = line.rsplit(" ", 2)
        name = head[: head.index("{")]
        if head in last:
            before, at = last[head]
            if name.endswith(("_total", ":total", "_bucket")):
                assert float(value) >= before, line
            if name.startswith("zmon:rank_"):
                assert int(time) - at == every[name], line
        last[head] = float(value), int(time)


def test_the_slow_rank_works_while_others_wait():
    slow, other = (SCENE.rank(SLOW, rank).measures for rank in (SCENE.culprit, SCENE.culprit - 1))
    assert slow.self_seconds > 2 * other.self_seconds
    assert slow.exposed_seconds < other.exposed_seconds / 2


def test_seconds_of_all_kinds_are_all_seconds():
    times = np.arange(SCENE.start, SCENE.end, 7)
    assert SCENE.spent(times).sum(axis=0) == pytest.approx(times - SCENE.start)
    assert (np.diff(SCENE.spent(times)) >= 0).all()


async def _answers(path: str, scene: Scene = SCENE) -> bytes:
    async with TestClient(TestServer(FakeHub(scene).app())) as client:
        response = await client.get(path)
        assert response.status == 200, path
        return await response.read()


@pytest.mark.parametrize(
    ("path", "answer"),
    [("healthz", HubHealth), ("api/v1/jobs", JobList), (f"api/v1/jobs/{JOB}/ranks", RankList)],
)
def test_the_hub_that_is_played_answers_as_a_real_one(path, answer):
    told = msgspec.json.decode(asyncio.run(_answers(f"/{path}")), type=answer)
    assert len(getattr(told, {"healthz": "agents"}.get(path, path.rpartition("/")[2]))) > 0


def test_the_job_is_as_old_as_its_history():
    """Charts begin where it did: of a young one they would be nearly empty, and drawn at once."""
    now = int(time.time())
    scene = Scene(num_ranks=4, hours=1 / 6, now=now, ahead_seconds=60)
    job = json.loads(asyncio.run(_answers("/api/v1/jobs", scene)))["jobs"][0]
    assert sum(job["time"].values()) == pytest.approx(now - scene.start, abs=5)


def test_it_tells_how_the_job_scales_as_a_real_one():
    told = json.loads(asyncio.run(_answers(f"/api/v1/jobs/{JOB}/scaling?what_if=net%3D2")))
    assert told["points"]
    assert told["what_ifs"]
    assert all(size["predicted"]["seconds"] >= size["what_if"]["seconds"] for size in told["sizes"])


def test_every_view_of_the_dashboard_is_looked_at():
    app = (Path(dashboards.__file__).parent / "app.py").read_text()
    paths = set(re.findall(r'^    "(\w+)": \(', app, re.MULTILINE))
    assert paths == {view.path for view in rounds.views("6h", 3)}


def _unquoted(promql: str) -> str:
    return re.sub(r'"[^"]*"', '""', promql)


def test_what_a_browser_took_is_unknown_where_the_server_alone_took_longer(capsys):
    click, served = {"armed": [0.040]}, {"armed": [0.045]}
    prometheus = {kind: {"armed": [0.001]} for kind in rounds.OF_PROMETHEUS.values()}
    report.parts(
        {rounds.FIRST: served, rounds.AGAIN: served, **prometheus},
        {rounds.CLICK_FIRST: click, rounds.CLICK_AGAIN: {"armed": [0.145]}},
    )
    assert re.findall(r"\d+ ms|unknown", capsys.readouterr().out.splitlines()[-1]) == [
        "40 ms", "45 ms", "unknown", "1 ms", "145 ms", "45 ms", "100 ms", "1 ms",
    ]  # fmt: skip
