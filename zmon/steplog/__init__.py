"""The step log: every step of every rank on disk, available even without Prometheus.

The agent writes it with `writer`. `reader` reads the steps, `table` exports them as rows, and `format` defines the
files. `files` names, locks and writes the files of all daemons, and tells whether the clock may expire them.
"""

from zmon.steplog.reader import Chunk, RunSteps, read_runs
from zmon.steplog.writer import StepLog

FOLDER = "steps"  # a directory of the data directory

__all__ = ["FOLDER", "Chunk", "RunSteps", "StepLog", "read_runs"]
