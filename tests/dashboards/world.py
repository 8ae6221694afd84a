"""A fake hub, and the recorded Prometheus, over HTTP. A test sets what the hub reports, and the moment of its pages."""

import re
from dataclasses import replace
from typing import TypeVar

import msgspec
import urllib3
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from tests.dashboards.recorded import NOW
from zmon.job.headline import with_headline
from zmon.schema import api
from zmon.schema.act import Intent
from zmon.schema.ended_launch import EndedLaunch
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.incident import IncidentSummary
from zmon.schema.job import JobView

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


RANKS = [
    api.RankRow(
        rank=rank, host="node-1", pid=4710 + rank, alive=True, process_state="S", exit_status=None, activity="train",
        phase="forward", step=604, op=None, sequence=None, state_seconds=0.01, overdue_seconds=0.0, self_seconds=0.05,
        exposed_seconds=0.03,
    )
    for rank in (0, 1)
]  # fmt: skip
SCALING = api.ScalingAnswer(
    job_id="ads", name="ranker", unknown="", what_ifs={"net": "bandwidth between hosts"},
    points=[api.CurvePoint(ranks=1, samples=512, seconds=0.05, half_width_seconds=None, by="x", recorded=0.0,
                           samples_per_second=10240.0, causes={})],
    now=api.SizeNow(ranks=2, samples=1024, seconds=0.0832, samples_per_second=24615.0),
    sizes=[
        api.SizeRow(2, 1024, api.StepAnswer(0.06, {"own": 0.05, "all_to_all": 0.01}, 17066.0),
                    efficiency=api.EfficiencyAnswer(0.9, "weak")),
        api.SizeRow(16, 8192, api.StepAnswer(unknown="nobody has measured how fast all_to_all is between hosts"),
                    efficiency=api.EfficiencyAnswer(unknown="nobody knows")),
    ],
)  # fmt: skip
INCIDENT = IncidentSummary(
    id=STALL.id, job_id=STALL.job_id, detector=STALL.detector, cause=STALL.cause, severity=STALL.severity,
    ranks=STALL.ranks, hosts=STALL.hosts, onset=STALL.onset, detected=STALL.detected, summary=STALL.summary,
    path="/data/incidents/f1",
)  # fmt: skip


class World:
    """The state that a page sees: of a hub and a recorded Prometheus. A test changes it, then opens a page."""

    def __init__(self, recorded: str) -> None:
        self.moment = NOW  # a moment of the recorded Prometheus
        self.jobs: list[JobView] = [JOB]
        self.findings: list[Finding] = []
        self.past: list[Finding] = []  # resolved findings of the job
        self.incidents: list[IncidentSummary] = []
        self.intents: list[Intent] | None = []  # None: an older hub
        self.ends: list[EndedLaunch] | None = []  # None: an older hub
        self.scaling: api.ScalingAnswer = SCALING
        self.ranks: api.RankList | None = None  # the answer about ranks; None: two healthy ranks
        self.hub_is_blind = False
        self.as_of: float | None = None
        self.job_error = ""  # the error of the hub to requests about one job
        self.queries: list[str] = []  # PromQL
        self.requests: list[tuple] = []  # to Prometheus: path and parameters
        self.hub_requests: list[tuple[str, dict[str, str]]] = []
        self._recorded = recorded
        self._pool = urllib3.PoolManager(maxsize=8)

    def hub(self, path: str, query: dict[str, str]) -> object:
        """Return the answer of the hub."""
        self.hub_requests.append((path, query))
        match path.removeprefix("/api/v1/").split("/"):
            case ["jobs"]:
                jobs = [with_headline(job, self.findings) for job in self.jobs]
                return api.JobList(jobs, self.hub_is_blind, self.as_of)
            case ["jobs", _, _] if self.job_error:
                return api.Problem(self.job_error)
            case ["jobs", job_id, "ranks"]:
                healthy = api.RankSummary(len(RANKS), 0, 0, (), {"train": len(RANKS)})
                return self.ranks or api.RankList(job_id, RANKS, len(RANKS), healthy)
            case ["jobs", _, "scaling"]:
                return self.scaling
            case ["incidents"]:
                return api.IncidentList(self.incidents)
            case ["ends"] if self.ends is not None:
                ends = [end for end in self.ends if query.get("job_id", end.job_id) == end.job_id]
                return api.EndList(ends[: int(query["limit"])], len(ends))
            case ["intents"] if self.intents is not None:
                intents = [intent for intent in self.intents if intent.job_id == query["job_id"]]
                return api.IntentList(intents[: int(query["limit"])], len(intents))
            case ["incidents", _, "report.html"]:
                return b"<h1>what was kept</h1>"
            case _:
                findings = self.findings + ([] if "active" in query else self.past)
                if query.get("evidence") == "0":
                    findings = [replace(finding, evidence=Evidence()) for finding in findings]
                return api.FindingList(findings)

    def prometheus(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Return the answer of the recorded Prometheus. A query without a time is about the moment of the page."""
        if "query" in query:
            self.queries.append(query["query"])
            self.requests.append((path, *sorted(query.items())))
        if path.endswith("/query"):
            query = {"time": str(self.moment)} | query
        answer = self._pool.request("GET", f"{self._recorded}{path}", fields=query)
        return answer.status, answer.data


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
