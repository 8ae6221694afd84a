"""Replay of a recorded step of pipeline-parallel training, and what-ifs with other durations. Pure."""

from __future__ import annotations

from zmon.offline.analyze.pipeline.schedule import Operation, Schedule
from zmon.offline.analyze.pipeline.what_if import PipelineReport, WhatIf, Worker, report, with_replayed_saving

__all__ = ["Operation", "PipelineReport", "Schedule", "WhatIf", "Worker", "report", "with_replayed_saving"]
