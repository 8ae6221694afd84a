"""A rank of a real job hangs: who and why, within seconds, without a word from the job."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import HOST, Job, Running, wait_for

SCRIPT = Path(__file__).parent / "struck.py"
SECONDS = 5.0  # a lease of 1.5 s, and half of that again for a loaded machine


@pytest.mark.parametrize(
    ("fault", "rank", "cause"),
    [
        ("loader", 1, "input_stall"),
        ("lock", 0, "compute_hang"),
        ("native", 1, "compute_hang"),
        ("left", 2, "compute_hang"),
        ("skip", 2, "collective_mismatch"),
    ],
)
def test_hanging_rank_is_named_with_its_cause(
    stack: Running, start_job: Callable[..., Job], tmp_path: Path, fault: str, rank: int, cause: str
) -> None:
    file = tmp_path / "fault"
    job = start_job(str(SCRIPT), str(file), ranks=4)
    wait_for(f"the job trains, see {job.log}", lambda: (v := stack.job(job.job_id)) and (v["step"] or 0) > 20, 60)
    (tmp_path / "new").write_text(f"{fault} {rank}")
    (tmp_path / "new").rename(file)
    struck = time.time()
    found = wait_for(f"a finding after {fault}", lambda: stack.findings(job.job_id), 2 * SECONDS)
    print(f"{fault}: fault → finding {time.time() - struck:.1f} s")
    assert [(f["cause"], f["ranks"], f["hosts"], f["severity"]) for f in found] == [(cause, [rank], [HOST], "critical")]
