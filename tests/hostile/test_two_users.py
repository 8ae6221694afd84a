"""Two users with jobs on one node: both are watched, and neither reaches the box, socket or evidence of the other."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.agent.agent_client import get_json, get_snapshot, poll, source_statuses
from tests.agent.conftest import run_scenario  # noqa: F401  # a fixture
from tests.hostile.users import ANN, BOB, become, get_as, needs_root, run_as
from zmon.box.roots import PLACES

pytestmark = needs_root

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
    return PLACES.in_shm(uid), PLACES.in_run(uid)


@pytest.fixture
def start_as(start_rank):
    """Start a rank of a user in the default directory; remove the directories of the users afterwards."""
    users = {uid for uid in (ANN, BOB) if not any(root.exists() for root in roots(uid))}

    def start(uid, job_id):
        rank = start_rank(RANK.format(uid=uid, become=become(uid)), ZMON_BOX_DIR="", ZMON_JOB_ID=job_id)
        rank.says("ready")
        return rank

    yield start
    for uid in users:
        for root in roots(uid):
            shutil.rmtree(root, ignore_errors=True)


def box_of(uid, job_id):
    (path,) = (p for root in roots(uid) for p in root.glob(f"{job_id}/0/rank-0.box"))
    return path


def test_jobs_of_two_users_are_watched_and_private(start_as, run_scenario):  # noqa: F811
    start_as(ANN, "hostile-ann")
    start_as(BOB, "hostile-bob")

    async def scenario(client):
        async def both_states():
            states = {state.job_id: state for state in (await get_snapshot(client)).ranks}
            return states if {"hostile-ann", "hostile-bob"} <= states.keys() else None

        states = await poll(both_states)
        owners = {job_id: states[job_id].owner for job_id in ("hostile-ann", "hostile-bob")}
        assert owners == {"hostile-ann": ANN, "hostile-bob": BOB}
        for uid, job_id, foreign_id, owner in (
            (ANN, "hostile-ann", "hostile-bob", BOB),
            (BOB, "hostile-bob", "hostile-ann", ANN),
        ):
            box, foreign = box_of(uid, job_id), box_of(owner, foreign_id)
            assert run_as(uid, f"result = len(open({str(box)!r}, 'rb').read(8))") == 8
            assert run_as(uid, f"open({str(foreign)!r}, 'rb')") == "PermissionError"
            connect = f"socket.socket(socket.AF_UNIX).connect({str(foreign.with_suffix('.sock'))!r})"
            assert run_as(uid, connect) == "PermissionError"
            url = str(client.make_url("/api/v1/evidence"))

            async def own_evidence(uid=uid, url=f"{url}/{job_id}/0"):
                status, answer = await asyncio.to_thread(get_as, uid, url)
                assert status == 200, answer
                return answer if answer["stderr_tail"] else None

            evidence = await poll(own_evidence)
            assert evidence["stderr_tail"] == f"token=[redacted] of {uid}\n"
            assert evidence["stack_error"] is None
            status, answer = await asyncio.to_thread(get_as, uid, f"{url}/{foreign_id}/0")
            assert (status, "s3cr3t" in str(answer)) == (403, False)
            assert f"uid {uid} may not read the evidence of uid {owner}" in answer["error"]
            assert (await get_json(client, f"/api/v1/evidence/{foreign_id}/0"))["alive"]  # root may

    run_scenario(scenario, box_dir=None)


def test_squatted_directory_is_reported_with_its_owner_and_not_used(start_rank, run_scenario):  # noqa: F811
    if PLACES.run_is_shared():
        pytest.skip("users have their directories in /run/zmon")
    squatted = PLACES.in_shm(54321)
    script = f"import zmon.probe\n{become(54321)}\nprint('attached', zmon.probe.attach_box(), flush=True)"
    run_as(BOB, f"os.mkdir({str(squatted)!r}, 0o777)")
    try:
        rank = start_rank(script, ZMON_BOX_DIR="")
        assert rank.says("attached") == "False"
        assert f"{squatted}: it belongs to uid {BOB}, and this is uid 54321" in rank.output

        async def scenario(client):
            async def lines():
                dropped = (await source_statuses(client)).get("boxes", {}).get("dropped", ())
                return [line for line in dropped if f"{squatted} belongs to uid {BOB}: ranks of uid 54321" in line]

            assert await poll(lines)

        run_scenario(scenario, box_dir=None)
    finally:
        Path(squatted).rmdir()
