"""An environment that has torch but not the dependencies of zmon, and a job of two ranks in it."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import venv
import warnings
from collections.abc import Sequence
from pathlib import Path

from tests.boxes import read_totals
from tests.ranks import ABORTED_AT_THE_END, TRIES
from zmon.box import box_path
from zmon.box.reader import BoxReader

JOB = """
import importlib.util
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
for package in ("msgspec", "aiohttp", "psutil", "prometheus_client", "yaml", "numpy"):
    assert importlib.util.find_spec(package) is None, package
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def make_environment(folder: Path) -> Path:
    """Make an environment with torch and the packages that torch needs; return its Python."""
    venv.create(folder, symlinks=True, with_pip=False)
    site = next((folder / "lib").glob("python*/site-packages"))
    for package in _required_packages("torch", set()):
        distribution = importlib.metadata.distribution(package)
        top_names = {path.parts[0] for path in distribution.files or ()} - {"..", "__pycache__"}
        for name in top_names:
            if not (site / name).exists():
                (site / name).symlink_to(Path(str(distribution.locate_file(name))))
    return folder / "bin/python"


def assert_ranks_are_watched(zmon_run: Sequence[str], python: Path, tmp_path: Path, **env: str) -> None:
    """Run two ranks with this Python under `zmon run`, and check the steps and collectives in their boxes."""
    script = tmp_path / "job.py"
    script.write_text(JOB)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ZMON_", "PYTHON"))}
    clean |= {"ZMON_BOX_DIR": str(tmp_path / "boxes"), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    launch = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    command = [*zmon_run, "--job-id", "job", "--", *map(str, launch)]
    for _ in range(TRIES):
        done = subprocess.run(
            command, env=clean | env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        if ABORTED_AT_THE_END not in done.stderr:
            break
        warnings.warn("torch aborted a rank at its very end", stacklevel=1)
        shutil.rmtree(tmp_path / "boxes")
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        reader = BoxReader(box_path(tmp_path / "boxes", "job", 0, rank))
        totals, activity = read_totals(reader), reader.now().activity
        reader.close()
        assert (totals.steps, activity) == (12, "done")
        assert totals.measures.ops["all_reduce"].count >= 12


def _required_packages(package: str, known: set[str]) -> set[str]:
    """Add this package and the installed packages that it needs to `known`; return `known`."""
    if package in known:
        return known
    known.add(package)
    for requirement in importlib.metadata.requires(package) or ():
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        if "extra ==" not in requirement:
            try:
                importlib.metadata.distribution(name)
            except importlib.metadata.PackageNotFoundError:
                continue
            _required_packages(name, known)
    return known
