"""Tests that compare the modules that `import zmon` loads in a job with their golden list.

The environment of a job has torch, and none of the packages that daemons and commands need. So every module that a rank
imports uses the standard library only.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.golden.compare import check_text

PROJECT = Path(__file__).parents[2]
LOADED = """
import sys
sys.modules["torch"] = None
before = set(sys.modules)
import zmon
others = sys.modules.keys() - before - {"__mp_main__"}  # multiprocessing's name for this script
others -= {"zmon.probe.edge.classes", "zmon.probe.edge.native"}  # only where the C edge was built
print(*sorted(n for n in others if n.partition(".")[0] not in sys.stdlib_module_names), sep="\\n")
"""


def python(*arguments: str) -> str:
    """Run a fresh interpreter in the project's folder and return its output."""
    command = [sys.executable, *arguments]
    completed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_import_loads_only_zmon_and_the_standard_library():
    loaded = python("-c", LOADED)
    foreign = [name for name in loaded.split() if name.partition(".")[0] != "zmon"]
    assert foreign == [], "a job has only the standard library and torch"
    check_text("import_zmon.txt", loaded)


def test_import_loads_the_same_modules_without_site_packages():
    assert python("-S", "-E", "-c", LOADED) == python("-c", LOADED)
