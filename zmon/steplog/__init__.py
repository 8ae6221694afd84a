"""The step log: every step of every rank on disk, so that it is there when Prometheus is not.

`writer` is the agent's end, `reader` takes steps out again, `table` puts them into rows and files, `format` is what
they agree on.
"""

from zmon.steplog.reader import RunSteps, Step, read_runs
from zmon.steplog.writer import StepLog

FOLDER = "steps"  # in the data directory

__all__ = ["FOLDER", "RunSteps", "Step", "StepLog", "read_runs"]
