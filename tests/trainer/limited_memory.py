"""A script that runs the trainer's command line with a memory limit on rank 1.

Usage: limited_memory.py BYTES OPTION…, as each rank. BYTES is what the rank may take beyond its memory at the start.
"""

import os
import resource
import runpy
import sys
from pathlib import Path

import trainer.scale.run  # noqa: F401  its own memory does not count

if __name__ == "__main__":
    limit_bytes = int(sys.argv.pop(1))
    if os.environ["RANK"] == "1":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + limit_bytes, resource.RLIM_INFINITY))
    runpy.run_module("trainer", run_name="__main__", alter_sys=True)
