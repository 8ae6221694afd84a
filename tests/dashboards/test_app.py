"""Does the page tell the truth? The real app, run by Streamlit's own tester against a small fake Prometheus and hub."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from dashboards.panels import PANELS

APP = Path(__file__).parents[2] / "dashboards" / "app.py"
NOWHERE = "http://127.0.0.1:9"  # the discard port: refused at once

JOB = {
    "job_id": "ads", "attempt": 0, "world_size": 2, "ranks_seen": 2, "state": "train", "step": 604,
    "step_seconds": 0.0832, "step_seconds_p95": 0.09, "samples_per_second": 24615.0, "report": {"loss": 0.4512},
    "time": {}, "hosts": ["node-1"],
}  # fmt: skip
STALL = {
    "schema": 1, "id": "f1", "job_id": "ads", "detector": "stall", "cause": "rank_frozen", "severity": "critical",
    "ranks": [1], "hosts": ["node-1"], "op": "all_to_all", "sequence": 1812, "step": 604, "onset": 0.0, "detected": 0.0,
    "confidence": 0.97, "summary": "rank 1 is stopped (state T) <for> 3.2 s", "lost_gpu_hours": None,
    "detail": "On node-1: `kill -CONT 4711`", "evidence": {}, "resolved": None,
    "runbook": "docs/runbooks.md#rank_frozen", "capsule": None,
}  # fmt: skip


class Fake:
    """A JSON server on loopback; `answers` maps a path to what it says."""

    def __init__(self, answers: Callable[[str, dict[str, str]], object]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                split = urlsplit(self.path)
                said = answers(split.path, {key: values[0] for key, values in parse_qs(split.query).items()})
                body = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class World:
    """What Prometheus and the hub say; a test changes what it is about, then opens the page."""

    def __init__(self) -> None:
        self.jobs: list[dict] = [JOB]
        self.findings: list[dict] = []
        self.hub_is_blind = False
        self.heartbeat = self.has_history = self.has_ranks = True
        self.asked: list[str] = []

    def hub(self, path: str, _: dict[str, str]) -> object:
        if path == "/api/v1/jobs":
            return {"schema": 1, "blind": self.hub_is_blind, "jobs": self.jobs}
        return {"schema": 1, "findings": self.findings}

    def prometheus(self, path: str, query: dict[str, str]) -> object:
        promql = query["query"]
        self.asked.append(promql)
        if path.endswith("query_range"):
            return _answer([_series(query)] if self.has_history else [])
        return _answer(self._instant(promql))

    def _instant(self, promql: str) -> list[dict]:
        now = time.time()
        if "zmon_hub_last_pass" in promql:
            return [{"metric": {}, "value": [now, "5"]}] if self.heartbeat else []
        if promql.startswith("up{"):
            return [{"metric": {}, "value": [now, "1"]}]
        if "ALERTS" in promql or not self.has_ranks:
            return []
        if promql.startswith("count by (job_id)"):
            return [{"metric": {"job_id": "ads"}, "value": [now, "2"]}]
        names = {
            "zmon_steps_total": 604,
            "zmon_last_step_timestamp_seconds": now - 0.4,
            "zmon_lease_overdue_seconds": 0,
        }
        ranks = [(name, rank, value, {}) for name, value in names.items() for rank in (0, 1)]
        ranks += [("zmon_activity", rank, 1, {"activity": "train"}) for rank in (0, 1)]
        return [
            {"metric": {"__name__": name, "rank": str(rank), "host": "node-1", **more}, "value": [now, str(value)]}
            for name, rank, value, more in ranks
        ]


def _answer(result: list[dict]) -> dict:
    return {"status": "success", "data": {"result": result}}


def _series(query: dict[str, str]) -> dict:
    end, step = float(query["end"]), float(query["step"])
    return {"metric": {"rank": "0"}, "values": [[end - step, "0.08"], [end, "NaN"]]}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def urls(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    hub, prometheus = Fake(world.hub), Fake(world.prometheus)
    monkeypatch.setenv("ZMON_HUB_URL", hub.url)
    monkeypatch.setenv("ZMON_PROMETHEUS_URL", prometheus.url)
    yield {"hub": hub.url, "prometheus": prometheus.url}
    hub.close()
    prometheus.close()


@pytest.fixture
def opened(urls: dict[str, str]) -> Callable[..., AppTest]:
    def open_page(**query: str) -> AppTest:
        app = AppTest.from_file(APP, default_timeout=20)
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        assert not app.error
        return app

    return open_page


def text(app: AppTest) -> str:
    return "\n".join(str(element.proto.body) for element in app.get("html"))


def number(app: AppTest, label: str) -> str:
    return next(metric.value for metric in app.metric if metric.label == label)


def test_a_healthy_job_says_so_with_its_numbers(opened, world):
    app = opened()
    assert "HEALTHY" in text(app)
    assert [number(app, label) for label in ("Step", "Step time", "Samples/s", "Loss", "Ranks seen")] == [
        "604", "83.2 ms", "24,615", "0.451", "2 of 2",
    ]  # fmt: skip
    assert app.query_params["job_id"] in ("ads", ["ads"])


def test_a_stall_names_the_rank_the_cause_and_what_to_do(opened, world):
    world.findings = [STALL | {"onset": time.time() - 42}]
    world.jobs = [JOB | {"state": "stalled"}]
    app = opened()
    page = text(app)
    assert "STALLED" in page
    assert "rank 1 on node-1" in page
    assert "rank_frozen" in page
    assert "<code>kill -CONT 4711</code>" in page
    assert "rank 1 ◀ culprit" in page
    assert "42 s ago" in page or "43 s ago" in page
    assert number(app, "Step time").startswith("none for 4")
    assert "HEALTHY" not in page


def test_a_rank_is_never_taken_at_its_word(opened, world):
    world.findings = [STALL | {"summary": "<script>alert(1)</script>"}]
    assert "<script>" not in text(opened())


def test_a_warning_is_not_a_stall(opened, world):
    world.findings = [STALL | {"severity": "warning", "cause": "rank_exited"}]
    page = text(opened())
    assert "WARNING" in page
    assert "culprit</b>" not in page


def test_no_job_says_how_to_start_one(opened, world):
    world.jobs, world.has_ranks = [], False
    page = text(opened())
    assert "NO JOB" in page
    assert "zmon demo" in page


@pytest.mark.parametrize("dead", ["ZMON_HUB_URL", "ZMON_PROMETHEUS_URL"])
def test_what_does_not_answer_makes_it_blind_never_healthy(opened, world, monkeypatch, dead):
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
    assert "no JSON" in text(opened())
    web.close()


def test_a_heartbeat_that_stands_still_is_blind(opened, world):
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
    world.jobs = [JOB | {"step_seconds": None, "samples_per_second": None, "report": {}}]
    app = opened()
    assert {number(app, label) for label in ("Step time", "Samples/s", "Loss")} == {"unknown"}
    assert text(app).count("unknown: Prometheus has no such data") == len(PANELS)


def test_a_rank_nobody_reports_is_unseen(opened, world):
    world.jobs = [JOB | {"world_size": 3}]
    assert 'zmon-rank-2"' in text(opened())
    assert "unseen" in text(opened())


def test_the_url_chooses_job_and_range_and_cannot_inject_promql(opened, world):
    app = opened(job_id='x"} or up{a="', range="1h")
    assert "UNKNOWN" in text(app)
    assert app.selectbox(key="range").value == "1h"
    assert not [asked for asked in world.asked if 'job_id="x"}' in asked]
    assert any(r'job_id="x\"} or up{a=\""' in asked for asked in world.asked)


def test_a_stalled_job_is_shown_before_a_healthy_one(opened, world):
    world.jobs = [JOB, JOB | {"job_id": "other", "state": "stalled"}]
    world.findings = [STALL | {"job_id": "other"}]
    app = opened()
    assert app.selectbox(key="job_id").value == "other"
    app.selectbox(key="job_id").select("ads").run()
    assert "HEALTHY" in text(app)
    assert "Also critical in other" in text(app)
