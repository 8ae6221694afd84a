"""What was wrong with a job, from its step log alone: the hub's detectors and arithmetic, offline."""

from __future__ import annotations

from zmon.offline.analyze.replay import Attempt, Spell, play
from zmon.offline.analyze.rows import StepTable, read

__all__ = ["Attempt", "Spell", "StepTable", "play", "read"]
