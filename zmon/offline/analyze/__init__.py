"""Analysis of a job from its step log alone, with the detectors and time categories of the hub."""

from __future__ import annotations

from zmon.offline.analyze.replay import Attempt, FindingSpan, is_conclusive, play
from zmon.offline.analyze.rows import StepTable, read

__all__ = ["Attempt", "FindingSpan", "StepTable", "is_conclusive", "play", "read"]
