"""Run a job as a rank that `zmon run` watches, in a process that has imported torch already.

Usage: `watched_rank.py JOB [arguments of the job]`.
"""

import runpy
import sys
from pathlib import Path

from zmon.probe.hooks import watch

if __name__ == "__main__":
    watch()  # what zmon's sitecustomize does as soon as torch is imported
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
