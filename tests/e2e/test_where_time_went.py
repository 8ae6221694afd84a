"""A delay in data, in one rank, on the link, in a checkpoint: each has its own share, and all sum to the job's life."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.standing import Job, Running, wait_for
from tests.jobs.conftest import ABORTED_AT_THE_END, TRIES

pytestmark = pytest.mark.slow  # that all of a job's life is told once is checked of every job of the other modules

HERE = Path(__file__).parent
SECONDS = 0.3
ORDERS = {
    "data": (10, 29, SECONDS),
    "forward": (30, 49, SECONDS),  # of rank 1 alone
    "all_reduce": (50, 69, SECONDS),
    "checkpoint": (0, 999, 3.0),
}
INJECTED = {"data": 20 * SECONDS, "imbalance": 20 * SECONDS, "all_reduce": 20 * SECONDS, "checkpoint": 3.0, "eval": 2.0}


@pytest.mark.timeout(TRIES * 100)
def test_each_delay_shows_in_its_own_share(stack: Running, start_job: Callable[..., Job], tmp_path: Path) -> None:
    for number in range(TRIES):  # again where torch itself aborted a rank that was through
        lived = tmp_path / f"lived-{number}"
        script = (str(HERE / "delayed.py"), json.dumps(ORDERS), str(HERE / "timed_job.py"), str(lived))
        job = start_job(*script, ranks=2)
        wait_for(f"the job ends, see {job.log}", lambda job=job: job.process.poll() is not None, 90)
        if ABORTED_AT_THE_END not in job.log.read_text():
            break
        warnings.warn("torch aborted a rank at its very end", stacklevel=1)
    assert job.process.returncode == 0, job.log.read_text()
    view = wait_for("it is done", lambda: (v := stack.job(job.job_id)) and v["state"] == "done" and v, 10)
    wait_for("all is accounted for", lambda: abs(_total(stack, job) - _total(stack, job, 1.5)) < 1e-6, 20)
    view = stack.job(job.job_id)
    assert view is not None
    print({cause: round(seconds, 3) for cause, seconds in view["time"].items()})
    for cause, seconds in INJECTED.items():
        assert view["time"][cause] == pytest.approx(seconds, rel=0.1), cause
    life = {what: float(seconds) for what, seconds in map(str.split, lived.read_text().splitlines())}
    assert 0.999 * life["inside"] <= sum(view["time"].values()) <= 1.001 * life["outside"], life
    assert sum(view["gpu_seconds"].values()) == pytest.approx(2 * sum(view["time"].values()))


def _total(stack: Running, job: Job, after: float = 0.0) -> float:
    time.sleep(after)
    view = stack.job(job.job_id)
    assert view is not None
    return sum(view["time"].values())
