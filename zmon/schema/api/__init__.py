"""The type of each HTTP request and answer of agent and hub.

Handlers return these types, and clients decode them. A client ignores a field that a newer daemon adds. Enumerations
are `str`, so a value of a newer daemon passes through.
"""

from zmon.schema.api import endpoints
from zmon.schema.api.agent import (
    AgentHealth,
    AgentHealthRequest,
    EvidenceRequest,
    RankEvidence,
    SnapshotRequest,
    SourceDown,
    Suspects,
    SuspectsRequest,
    Suspicion,
)
from zmon.schema.api.endpoint import Endpoint, Problem
from zmon.schema.api.findings import (
    DetectorList,
    DetectorsRequest,
    DetectorState,
    EndList,
    EndsRequest,
    FindingList,
    FindingsRequest,
    HubHealth,
    HubHealthRequest,
    IncidentList,
    IncidentRequest,
    IncidentsRequest,
    IntentList,
    IntentScore,
    IntentsRequest,
)
from zmon.schema.api.jobs import (
    Amounts,
    JobList,
    JobsRequest,
    PlanRequest,
    PlanRow,
    PlanTable,
    RankList,
    RankRow,
    RanksRequest,
    RankSummary,
)
from zmon.schema.api.scaling import (
    CurvePoint,
    EfficiencyAnswer,
    ScalingAnswer,
    ScalingRequest,
    SizeNow,
    SizeRow,
    StepAnswer,
)

__all__ = [
    "AgentHealth", "AgentHealthRequest", "Amounts", "CurvePoint", "DetectorList", "DetectorState", "DetectorsRequest",
    "EfficiencyAnswer", "EndList", "Endpoint", "EndsRequest", "EvidenceRequest", "FindingList", "FindingsRequest",
    "HubHealth", "HubHealthRequest", "IncidentList", "IncidentRequest", "IncidentsRequest", "IntentList",
    "IntentScore", "IntentsRequest", "JobList", "JobsRequest", "PlanRequest", "PlanRow", "PlanTable", "Problem",
    "RankEvidence", "RankList", "RankRow", "RankSummary", "RanksRequest", "ScalingAnswer", "ScalingRequest", "SizeNow",
    "SizeRow", "SnapshotRequest", "SourceDown", "StepAnswer", "Suspects", "SuspectsRequest", "Suspicion", "endpoints",
]  # fmt: skip
