"""Two users with jobs on one node: both are watched, and neither reaches the box, socket or evidence of the other."""

import asyncio
import itertools
import shutil
from functools import partial

import pytest

from tests.agent.agent_client import get_json, get_snapshot, poll, source_statuses
from tests.agent.conftest import serve
from tests.hostile.users import ANN, BOB, become, get_as, needs_root, run_as
from zmon.box.roots import PLACES

__all__ = ["serve"]  # a fixture
pytestmark = needs_root
SQUATTED_UID = 54321  # without an account; somebody else has made its directory

RANK = """
import importlib, os, sys, time, zmon, torch.distributed
from zmon.probe.hooks import AT_RANK, HOOKS
for name in (*HOOKS, *AT_RANK):  # the user may not be allowed to read this checkout
    importlib.import_module(f"zmon.probe.hooks.{{name}}")
fd = os.open(sys.argv[0] + ".stderr", os.O_WRONLY | os.O_CREAT)
os.fchown(fd, {uid}, -1)
os.dup2(fd, 2)
{become}
print("token=s3cr3t of {uid}", file=sys.stderr, flush=True)
assert zmon.attach()
with zmon.step():
    pass
print("ready", flush=True)
time.sleep(60)
"""


def roots(uid):
    """Return the default directories of boxes of a user."""
    return PLACES.in_shm(uid), PLACES.in_run(uid)


@pytest.fixture
def start_as(start_rank):
    """Return a function that starts a rank of a user in the default directory. Directories are removed afterwards."""
    new_users = {uid for uid in (ANN, BOB) if not any(root.exists() for root in roots(uid))}

    def start(uid, job_id):
        rank = start_rank(RANK.format(uid=uid, become=become(uid)), ZMON_BOX_DIR="", ZMON_JOB_ID=job_id)
        rank.says("ready")
        return rank

    yield start
    for uid in new_users:
        for root in roots(uid):
            shutil.rmtree(root, ignore_errors=True)


def box_of(uid, job_id):
    """Return the path of the only box of a user's job."""
    (path,) = (box for root in roots(uid) for box in root.glob(f"{job_id}/0/rank-0.box"))
    return path


async def evidence_for(uid, client, job_id):
    """Return status and JSON of the answer to a process of this user that asks for the evidence of rank 0 of a job."""
    return await asyncio.to_thread(get_as, uid, str(client.make_url(f"/api/v1/evidence/{job_id}/0")))


async def test_jobs_of_two_users_are_watched_and_private(start_as, serve):
    owners = {"hostile-ann": ANN, "hostile-bob": BOB}
    for job_id, uid in owners.items():
        start_as(uid, job_id)
    async with serve(box_dir=None) as client:
        report = await poll(
            lambda: get_snapshot(client), accept=lambda report: owners.keys() <= {rank.job_id for rank in report.ranks}
        )
        assert {rank.job_id: rank.owner for rank in report.ranks if rank.job_id in owners} == owners
        for (job_id, uid), (foreign_id, owner) in itertools.permutations(owners.items()):
            box, foreign = box_of(uid, job_id), box_of(owner, foreign_id)
            assert run_as(uid, f"result = len(open({str(box)!r}, 'rb').read(8))") == 8
            assert run_as(uid, f"open({str(foreign)!r}, 'rb')") == "PermissionError"
            connect = f"socket.socket(socket.AF_UNIX).connect({str(foreign.with_suffix('.sock'))!r})"
            assert run_as(uid, connect) == "PermissionError"
            own_evidence = partial(evidence_for, uid, client, job_id)
            status, evidence = await poll(own_evidence, accept=lambda answer: answer[1].get("stderr_tail"))
            assert (status, evidence["stack_error"]) == (200, None)
            assert evidence["stderr_tail"] == f"token=[redacted] of {uid}\n"
            status, answer = await evidence_for(uid, client, foreign_id)
            assert (status, "s3cr3t" in str(answer)) == (403, False)
            assert f"uid {uid} may not read the evidence of uid {owner}" in answer["error"]
            assert (await get_json(client, f"/api/v1/evidence/{foreign_id}/0"))["alive"]  # root may


async def test_squatted_directory_is_reported_with_its_owner_and_not_used(start_rank, serve):
    if PLACES.run_is_shared():
        pytest.skip("users have their directories in /run/zmon")
    squatted = PLACES.in_shm(SQUATTED_UID)
    script = f"import zmon.probe\n{become(SQUATTED_UID)}\nprint('attached', zmon.probe.attach_box(), flush=True)"
    run_as(BOB, f"os.mkdir({str(squatted)!r}, 0o777)")
    try:
        rank = start_rank(script, ZMON_BOX_DIR="")
        assert rank.says("attached") == "False"
        assert f"{squatted}: it belongs to uid {BOB}, and this is uid {SQUATTED_UID}" in rank.output
        line = f"{squatted} belongs to uid {BOB}: ranks of uid {SQUATTED_UID}"
        async with serve(box_dir=None) as client:
            assert await poll(
                lambda: source_statuses(client),
                accept=lambda by_name: line in str(by_name.get("boxes", {}).get("dropped")),
            )
    finally:
        squatted.rmdir()
