"""Tests of a rank that is stopped at a known place of its step: the finding names the place, with both probe edges."""

import sys
from pathlib import Path

import pytest

from tests.e2e.endings import TORCHRUN, await_finding
from tests.e2e.running_stack import Job

SCRIPT = str(Path(__file__).with_name("stopped_job.py"))
STRUCK, STEP = 1, 31
# What the finding says of the stopped rank at each place: its phase, its collective, and whether its peers are ahead.
PLACES = {
    "in a collective": ("other", None, True),  # its hook reads the size before it counts the call
    "in the backward pass": ("backward", None, True),
    "in a wait": ("other", "all_reduce", False),
}


@pytest.mark.slow  # it starts six jobs
@pytest.mark.parametrize("edge", ["c", "python"])
@pytest.mark.parametrize("place", PLACES)
def test_finding_names_the_place_at_which_a_rank_stopped(stack, tmp_path, place, edge):
    job_id = f"stopped-{place.split()[-1]}-{edge}"
    env = {**stack.env, "GLOO_SOCKET_IFNAME": "lo", "ZMON_JOB_ID": job_id, "ZMON_EDGE": edge, "PLACE": place}
    job = Job.start(job_id, tmp_path, [sys.executable, *TORCHRUN, SCRIPT], env)
    try:
        finding = await_finding(stack, job_id, cause="rank_frozen", severity="critical")
        edges = {rank["edge"] for rank in stack.ranks(job_id).values()}
    finally:
        job.kill()
    assert edges == {edge}
    assert (finding["ranks"], finding["step"]) == ([STRUCK], STEP)
    ranks = {rank["rank"]: rank for rank in finding["evidence"]["ranks"]}
    struck, peer = ranks[STRUCK], ranks[0]
    is_behind = struck["sequence"] != peer["sequence"]
    assert (struck["phase"], struck["op"], is_behind) == PLACES[place], finding["summary"]
    assert peer["op"] == "all_reduce"
