"""zmon watches synchronous distributed training: who stalled the job, why, and what it costs.

This is the door for trainers; everything else is a daemon or the `zmon` command.
"""

from zmon.probe import activity, phase, plan, report, step, work
from zmon.probe.hooks import attach

__all__ = ["activity", "attach", "phase", "plan", "report", "step", "work"]
__version__ = "0.1.0"
