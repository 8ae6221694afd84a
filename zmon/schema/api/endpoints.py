"""The table of all JSON endpoints of agent and hub. Handlers, clients and docs/openapi.json use it."""

from __future__ import annotations

from typing import Any, TypeAlias

from zmon.schema.act import ActAnswer, ActRequest
from zmon.schema.api import agent, findings, jobs, scaling
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.endpoint import Endpoint, Role
from zmon.schema.incident import Capsule

SNAPSHOT = Endpoint(
    "agent", "/api/v1/snapshot", agent.SnapshotRequest, AgentReport, "Every rank and the hardware of one node."
)
SUSPECTS = Endpoint(
    "agent",
    "/api/v1/suspects",
    agent.SuspectsRequest,
    agent.Suspects,
    "Ranks that the hub should look at; a long poll.",
    max_bytes=1 << 20,
)
EVIDENCE = Endpoint(
    "agent",
    "/api/v1/evidence/{job_id}/{rank}",
    agent.EvidenceRequest,
    agent.RankEvidence,
    "Stacks, collectives in flight and the end of stderr of one rank.",
    max_bytes=1 << 20,  # a stack and the end of stderr have at most 24 KiB, a flight record a few more
    role="evidence",
)
AGENT_HEALTH = Endpoint(
    "agent", "/healthz", agent.AgentHealthRequest, agent.AgentHealth, "Health of the agent and of its sources."
)
ACTS = Endpoint(
    "agent",
    "/api/v1/acts",
    ActRequest,
    ActAnswer,
    "End one rank of this node, or its launcher, if the agent decides so.",
    max_bytes=1 << 16,
    role="actions",
    method="POST",
)

JOBS = Endpoint("hub", "/api/v1/jobs", jobs.JobsRequest, jobs.JobList, "Every job that an agent reports.")
RANKS = Endpoint(
    "hub", "/api/v1/jobs/{job_id}/ranks", jobs.RanksRequest, jobs.RankList, "Ranks of one job: all, or one page."
)
PLAN = Endpoint(
    "hub", "/api/v1/jobs/{job_id}/plan", jobs.PlanRequest, jobs.PlanTable, "Plan and measurement, rank by rank."
)
SCALING = Endpoint(
    "hub",
    "/api/v1/jobs/{job_id}/scaling",
    scaling.ScalingRequest,
    scaling.ScalingAnswer,
    "How jobs of this name scale, and predictions for other sizes.",
)
FINDINGS = Endpoint(
    "hub", "/api/v1/findings", findings.FindingsRequest, findings.FindingList, "Findings, newest first."
)
DETECTORS = Endpoint(
    "hub",
    "/api/v1/detectors",
    findings.DetectorsRequest,
    findings.DetectorList,
    "For each detector, the jobs that it can judge.",
)
INCIDENTS = Endpoint(
    "hub", "/api/v1/incidents", findings.IncidentsRequest, findings.IncidentList, "Incidents, newest first."
)
INCIDENT = Endpoint("hub", "/api/v1/incidents/{id}", findings.IncidentRequest, Capsule, "The capsule of one incident.")
ENDS = Endpoint("hub", "/api/v1/ends", findings.EndsRequest, findings.EndList, "Ends of launches, newest first.")
INTENTS = Endpoint(
    "hub", "/api/v1/intents", findings.IntentsRequest, findings.IntentList, "Intents to act, and what became of them."
)
HUB_HEALTH = Endpoint(
    "hub", "/healthz", findings.HubHealthRequest, findings.HubHealth, "Health of the hub and of its agents."
)

Endpoints: TypeAlias = tuple[Endpoint[Any, object], ...]
AGENT: Endpoints = (SNAPSHOT, SUSPECTS, EVIDENCE, AGENT_HEALTH, ACTS)
HUB: Endpoints = (JOBS, RANKS, PLAN, SCALING, FINDINGS, DETECTORS, INCIDENTS, INCIDENT, ENDS, INTENTS, HUB_HEALTH)
METRICS = "/metrics"  # for Prometheus, in its own format
# The role that each path needs. Findings and incidents need `read`, and have evidence only for the role `evidence`.
ROLES: dict[str, Role] = {METRICS: "metrics", **{endpoint.path: endpoint.role for endpoint in (*AGENT, *HUB)}}
