"""A fake Prometheus and a fake hub over HTTP. A test sets the state that they report."""

import contextlib
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from zmon.job.headline import with_headline
from zmon.schema.api import (
    CurvePoint,
    EfficiencyAnswer,
    FindingList,
    IncidentList,
    JobList,
    Problem,
    RankList,
    RankRow,
    RankSummary,
    ScalingAnswer,
    SizeNow,
    SizeRow,
    StepAnswer,
)
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.incident import IncidentSummary
from zmon.schema.job import JobView
from zmon.schema.scraping import MADE_FOR

T = TypeVar("T")

JOB = JobView(
    job_id="ads", attempt=0, world_size=2, ranks_seen=2, state="train", step=604, step_seconds=0.0832,
    step_seconds_p95=0.09, samples_per_second=24615.0, report={"loss": 0.4512}, time={}, hosts=("node-1",), labels={},
    findings=(),
)  # fmt: skip
STALL = Finding(
    id="f1", job_id="ads", detector="stall", cause="rank_frozen", severity="critical", ranks=(1,), hosts=("node-1",),
    op="all_to_all", sequence=1812, step=604, onset=0.0, detected=0.0, confidence=0.97,
    summary="rank 1 is stopped (state T) <for> 3.2 s", detail="On node-1: `kill -CONT 4711`",
    runbook="docs/runbooks.md#rank_frozen",
)  # fmt: skip


def changed(value: T, **fields: object) -> T:
    """Return a copy with these fields changed."""
    return msgspec.structs.replace(value, **fields) if isinstance(value, msgspec.Struct) else replace(value, **fields)


class FakeServer:
    """A JSON server on loopback. `answers` returns the answer to a path and its query."""

    def __init__(self, answers: Callable[[str, dict[str, str]], object]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                split = urlsplit(self.path)
                answer = answers(split.path, {key: values[0] for key, values in parse_qs(split.query).items()})
                body = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
                self.send_response(404 if isinstance(answer, Problem) else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # a page whose request timed out
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


RANKS = [
    RankRow(
        rank=rank, host="node-1", pid=4710 + rank, alive=True, process_state="S", exit_status=None, activity="train",
        phase="forward", step=604, op=None, sequence=None, state_seconds=0.01, overdue_seconds=0.0, self_seconds=0.05,
        exposed_seconds=0.03,
    )
    for rank in (0, 1)
]  # fmt: skip
SCALING = ScalingAnswer(
    job_id="ads", name="ranker", unknown="", what_ifs={"net": "bandwidth between hosts"},
    points=[CurvePoint(ranks=1, samples=512, seconds=0.05, half_width_seconds=None, by="x", recorded=0.0,
                       samples_per_second=10240.0, causes={})],
    now=SizeNow(ranks=2, samples=1024, seconds=0.0832, samples_per_second=24615.0),
    sizes=[
        SizeRow(2, 1024, StepAnswer(0.06, {"own": 0.05, "all_to_all": 0.01}, 17066.0),
                efficiency=EfficiencyAnswer(0.9, "weak")),
        SizeRow(16, 8192, StepAnswer(unknown="nobody has measured how fast all_to_all is between hosts"),
                efficiency=EfficiencyAnswer(unknown="nobody knows")),
    ],
)  # fmt: skip
INCIDENT = IncidentSummary(
    id=STALL.id, job_id=STALL.job_id, detector=STALL.detector, cause=STALL.cause, severity=STALL.severity,
    ranks=STALL.ranks, hosts=STALL.hosts, onset=STALL.onset, detected=STALL.detected, summary=STALL.summary,
    path="/data/incidents/f1",
)  # fmt: skip


class World:
    """The state that Prometheus and the hub report. A test changes it, then opens a page."""

    def __init__(self) -> None:
        self.jobs: list[JobView] = [JOB]
        self.findings: list[Finding] = []
        self.past: list[Finding] = []  # resolved findings of the job
        self.incidents: list[IncidentSummary] = []
        self.scaling: ScalingAnswer = SCALING
        self.ranks: RankList | None = None  # the answer about ranks; None: two healthy ranks
        self.hub_is_blind = False
        self.as_of: float | None = None
        self.made_for: dict[str, float] = {}  # the scrape intervals that the rules are made for, by daemon
        self.heartbeat = self.has_history = self.has_ranks = self.stores_samples = True
        self.delay_seconds = 0.0  # before Prometheus answers a query
        self.delayed_queries: list[str] = []
        self.gpu_utilization = 0.5
        self.num_hosts = 1  # with metrics
        self.has_standing_out = True  # the rules record the hosts that stand out
        self.job_error = ""  # the error of the hub to requests about one job
        self.alerts: list[dict[str, str]] = []  # the labels of alerts that fire
        self.queries: list[str] = []  # PromQL
        self.requests: list[tuple] = []  # to Prometheus: path and parameters
        self.hub_requests: list[tuple[str, dict[str, str]]] = []

    def hub(self, path: str, query: dict[str, str]) -> object:
        """Return the answer of the hub."""
        self.hub_requests.append((path, query))
        match path.removeprefix("/api/v1/").split("/"):
            case ["jobs"]:
                return JobList([with_headline(job, self.findings) for job in self.jobs], self.hub_is_blind, self.as_of)
            case ["jobs", _, _] if self.job_error:
                return Problem(self.job_error)
            case ["jobs", job_id, "ranks"]:
                return self.ranks or RankList(
                    job_id, RANKS, len(RANKS), RankSummary(len(RANKS), 0, 0, (), {"train": len(RANKS)})
                )
            case ["jobs", _, "scaling"]:
                return self.scaling
            case ["incidents"]:
                return IncidentList(self.incidents)
            case ["incidents", _, "report.html"]:
                return b"<h1>what was kept</h1>"
            case _:
                findings = self.findings + ([] if "active" in query else self.past)
                bare = query.get("evidence") == "0"
                return FindingList([replace(finding, evidence=Evidence()) if bare else finding for finding in findings])

    def prometheus(self, path: str, query: dict[str, str]) -> object:
        """Return the answer of Prometheus."""
        if "query" not in query:
            return {"status": "error", "error": "no query"}
        promql = query["query"]
        if self.delay_seconds:
            self.delayed_queries.append(promql)
            time.sleep(self.delay_seconds)
        self.queries.append(promql)
        self.requests.append((path, *sorted(query.items())))
        if path.endswith("query_range"):
            return _answer("matrix", [_series(query)] if self.has_history else [])
        return _answer("vector", self._instant(promql))

    def _instant(self, promql: str) -> list[dict]:
        now = time.time()

        def sample(value: float, **labels: str) -> dict:
            return {"metric": labels, "value": [now, str(value)]}

        if "zmon_hub_last_pass" in promql:
            return [sample(5)] if self.heartbeat else []
        if promql.startswith("absent_over_time(up["):
            return [] if self.stores_samples else [sample(1)]
        if MADE_FOR in promql:
            return [sample(seconds, daemon=daemon) for daemon, seconds in self.made_for.items()]
        if promql.startswith("count(up{"):
            return [sample(1)]
        if "ALERTS" in promql:
            return [sample(1, **labels) for labels in self.alerts]
        if not self.has_ranks:
            return []
        if "by (job_id)" in promql:
            return [sample(2, job_id="ads")]
        if promql.startswith("count("):
            return [sample(self.num_hosts)]
        if promql.startswith("bottomk("):
            return [sample(0.01 * number, host=f"node-{number}") for number in reversed(range(28))]
        if promql.startswith("label_replace(quantile("):
            return [sample(0.5, what="median"), sample(0.9, what="largest")]
        if promql.startswith("topk("):
            return [sample(0.3, host="node-7")] if self.has_standing_out else []
        if "by (host" in promql:
            return [sample(self.gpu_utilization if "gpu" in promql else 0.5, host="node-1", gpu="0")]
        if "by (cause)" in promql:
            return [sample(0.05, cause="forward"), sample(0.03, cause="all_to_all")] if self.has_history else []
        if promql.startswith("max"):
            return [sample(0.0832, world_size="2")] if self.has_history else []
        names = {
            "zmon_steps_total": 604,
            "zmon_last_step_timestamp_seconds": now - 0.4,
            "zmon_lease_overdue_seconds": 0,
        }
        ranks = [(name, rank, value, {}) for name, value in names.items() for rank in (0, 1)]
        ranks += [("zmon_activity", rank, 1, {"activity": "train"}) for rank in (0, 1)]
        return [
            sample(value, __name__=name, rank=str(rank), host="node-1", **more) for name, rank, value, more in ranks
        ]


def _answer(kind: str, result: list[dict]) -> dict:
    return {"status": "success", "data": {"resultType": kind, "result": result}}


def _series(query: dict[str, str]) -> dict:
    end, step = float(query["end"]), float(query["step"])
    return {"metric": {"rank": "0", "host": "node-1"}, "values": [[end - step, "0.08"], [end, "NaN"]]}


def page_text(app: AppTest) -> str:
    """Return the HTML elements of a page."""
    return "\n".join(str(element.proto.body) for element in app.get("html"))


def banner_value(app: AppTest, label: str) -> str:
    """Return the value with this label in the banner."""
    return re.search(f"<dt>{label}</dt><dd>(.*?)</dd>", page_text(app))[1]


def selectbox(app: AppTest, label: str) -> Selectbox:
    """Return the select box with this label."""
    return next(box for box in app.selectbox if box.label == label)


def banner_sections(app: AppTest) -> list[str]:
    """Return the sections of the banner, each of which is an element."""
    return [element.proto.body for element in app.get("html") if "<section" in element.proto.body]
