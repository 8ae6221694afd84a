"""Execute the notebook of `examples/` with nbclient, and look for its finding."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.frameworks.running import ENVIRONMENT, RUN_SECONDS
from tests.places import REPOSITORY

NOTEBOOK = REPOSITORY / "examples/frozen_rank.ipynb"
EXECUTE = """
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=300).execute()
nbformat.write(notebook, sys.argv[2])
"""
EXPECTED = ("critical: rank_frozen, rank 1\n", "exit code 0, 0, 1,000 steps\n")


def execute(programs: Path, folder: Path) -> str:
    """Execute the notebook. Return the error, or "" if it prints the expected texts."""
    folder.mkdir(parents=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith("ZMON_")}
    env |= ENVIRONMENT | {"PYTHONPATH": str(REPOSITORY), "ZMON_BOX_DIR": str(folder / "boxes"), "HOME": str(folder)}
    out = folder / "executed.ipynb"
    done = subprocess.run(
        [programs / "python", "-c", EXECUTE, NOTEBOOK, out],
        cwd=folder, env=env, capture_output=True, text=True, timeout=RUN_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it failed"])[-1]
    cells = json.loads(out.read_text())["cells"]
    printed = "".join("".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", ()))
    missing = [text for text in EXPECTED if text not in printed]
    return f"it does not print {missing}, but: {printed}" if missing else ""
