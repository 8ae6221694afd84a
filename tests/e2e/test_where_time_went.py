"""Test of the account of a job with delays. Each delay is in its own time category; all sum to the job's lifetime."""

import json
import time
import warnings
from pathlib import Path

import pytest

from tests.e2e.running_stack import SETTLED_SECONDS, wait_for
from tests.jobs.conftest import ABORTED_AT_THE_END, TRIES

pytestmark = pytest.mark.slow  # the other modules check the sum for each of their jobs

FOLDER = Path(__file__).parent
SECONDS = 0.3
ORDERS = {
    "data": (10, 29, SECONDS),
    "forward": (30, 49, SECONDS),  # on rank 1 alone
    "all_reduce": (50, 69, SECONDS),
    "checkpoint": (0, 999, 3.0),
}
INJECTED = {"data": 20 * SECONDS, "imbalance": 20 * SECONDS, "all_reduce": 20 * SECONDS, "checkpoint": 3.0, "eval": 2.0}


@pytest.mark.timeout(TRIES * 100)
def test_each_delay_is_in_its_own_time_category(stack, start_job, tmp_path):
    for number in range(TRIES):  # repeated if torch itself aborted a rank that had ended
        bounds_file = tmp_path / f"bounds-{number}"
        script = (str(FOLDER / "delayed.py"), json.dumps(ORDERS), str(FOLDER / "timed_job.py"), str(bounds_file))
        job = start_job(*script, ranks=2)
        wait_for(f"the job ends, see {job.log}", lambda job=job: job.process.poll() is not None, 90)
        if ABORTED_AT_THE_END not in job.log.read_text():
            break
        warnings.warn("torch aborted a rank at its very end", stacklevel=1)
    assert job.process.returncode == 0, job.log.read_text()
    view = wait_for("it is done", lambda: (v := stack.job(job.job_id)) and v["state"] == "done" and v, 10)
    time.sleep(SETTLED_SECONDS)
    view = stack.job(job.job_id)
    assert view is not None
    for category, seconds in INJECTED.items():
        assert view["time"][category] == pytest.approx(seconds, rel=0.1), (category, view["time"])
    lifetime = {bound: float(seconds) for bound, seconds in map(str.split, bounds_file.read_text().splitlines())}
    assert 0.999 * lifetime["inside"] <= sum(view["time"].values()) <= 1.001 * lifetime["outside"], lifetime
    assert sum(view["gpu_seconds"].values()) == pytest.approx(2 * sum(view["time"].values()))
