"""zmon monitors synchronous distributed training: who stalled the job, why, and what it costs.

This is the public API for trainers. Everything else is a daemon or the `zmon` command.
"""

from zmon.probe import activity, phase, plan, report, step, work
from zmon.probe.hooks import attach

__all__ = ["activity", "attach", "phase", "plan", "report", "step", "work"]
__version__ = "0.1.0"
