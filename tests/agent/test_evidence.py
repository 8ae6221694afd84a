"""Tests of `GET /api/v1/evidence`: the stack, the collectives in flight and the stderr of one rank."""

import os

import pytest

from tests.agent.agent_client import get_json, poll
from tests.hostile.users import BOB
from zmon.schema.api import EvidenceRequest
from zmon.web.asker import Asker
from zmon.web.responses import Refusal

EVIDENCE = "/api/v1/evidence/job/0"


async def test_rank_has_a_stack_and_collectives_and_without_stacks_only_those(start_rank, tmp_path, serve):
    rank = start_rank(
        """
        import time, zmon
        assert zmon.attach()
        import torch
        import torch.distributed as dist
        dist.init_process_group("gloo", init_method="file://" + __file__ + ".store", rank=0, world_size=1)
        dist.all_reduce(torch.ones(3))
        def guilty_line():
            print("reduced", flush=True)
            time.sleep(60)
        guilty_line()
        """,
        ZMON_BOX_DIR=str(tmp_path),
    )
    rank.says("reduced")
    async with serve() as client:
        answer = await get_json(client, EVIDENCE)
        assert (answer["job_id"], answer["rank"], answer["pid"]) == ("job", 0, rank.pid)
        assert "guilty_line" in answer["stack"]
        assert answer["stack_error"] is None
        # A thread of torch retires the operation a moment later.
        answer = await poll(
            lambda: get_json(client, f"{EVIDENCE}?stacks=0"), accept=lambda answer: answer["flight"]["last"]
        )
        assert answer["flight"] == {"pending": [], "num_pending": 0, "last": {"gloo:0": 1}}
        assert (answer["flight_error"], answer["stack"]) == (None, None)


@pytest.mark.parametrize(
    ("without", "part", "error", "reason"),
    [
        pytest.param(
            (), "flight", "flight_error", "the job has no worker server (torch < 2.9?)", id="no worker server"
        ),
        pytest.param(
            ("stderr",), "stderr_tail", "stderr_error", "the agent runs --without stderr", id="no stderr source"
        ),
    ],
)
async def test_evidence_without_a_part_has_the_reason(make_live_box, serve, without, part, error, reason):
    make_live_box()
    async with serve(without=frozenset(without)) as client:
        answer = await get_json(client, EVIDENCE)
        assert (answer[part], answer[error]) == (None, reason)


async def test_evidence_of_an_unknown_rank_is_404_with_a_next_step(make_live_box, serve):
    make_live_box()
    async with serve() as client:
        for path in ("/api/v1/evidence/job/7", "/api/v1/evidence/other/0"):
            assert "zmon status" in (await get_json(client, path, 404))["error"]


async def test_evidence_of_a_dead_rank_has_stderr_and_no_stack(start_rank, tmp_path, serve):
    """`start_rank` redirects the stderr of the rank to a file, which the agent reads."""
    rank = start_rank(
        """
        import sys, time, zmon.probe
        assert zmon.probe.attach_box()
        print("ValueError: bad batch 17", file=sys.stderr, flush=True)
        time.sleep(60)
        """,
        ZMON_BOX_DIR=str(tmp_path),
    )
    rank.says("ValueError")
    async with serve() as client:

        async def evidence():
            return await get_json(client, EVIDENCE)

        assert "bad batch 17" in (await poll(evidence, accept=lambda answer: answer["stderr_tail"]))["stderr_tail"]
        rank.signal(9)
        rank.wait()
        answer = await poll(evidence, accept=lambda answer: not answer["alive"])
        assert "bad batch 17" in answer["stderr_tail"]
        assert (answer["stack"], answer["stack_error"], answer["flight_error"], answer["pid"]) == (
            None, "its process is gone", "its process is gone", None,
        )  # fmt: skip


async def test_evidence_is_of_the_newest_launch_by_default(make_live_box, serve):
    make_live_box(attempt=0, run_uid="aa" * 16, start_unix=1e9)
    make_live_box(attempt=1, run_uid="bb" * 16, start_unix=2e9)
    async with serve() as client:
        assert (await get_json(client, f"{EVIDENCE}?stacks=0"))["run_uid"] == "bb" * 16
        assert (await get_json(client, f"{EVIDENCE}?stacks=0&run={'aa' * 16}"))["run_uid"] == "aa" * 16


OTHER_MACHINE = "10.0.0.3 is not a loopback address"


@pytest.mark.parametrize(
    ("asker", "reason"),
    [
        pytest.param(Asker(None, OTHER_MACHINE), OTHER_MACHINE, id="another machine"),
        pytest.param(
            Asker(BOB), f"uid {BOB} may not read the evidence of uid {os.geteuid()}: see --hub-user", id="another user"
        ),
    ],
)
async def test_evidence_is_refused(make_live_box, serve, asker, reason):
    make_live_box()
    async with serve() as client:
        with pytest.raises(Refusal, match=reason) as refusal:
            await client.agent.evidence(EvidenceRequest("job", "0", stacks=False), asker)
    assert refusal.value.status == 403


async def test_hub_user_gets_evidence_of_all_users(make_live_box, serve):
    make_live_box()
    async with serve(hub_users=frozenset({BOB})) as client:
        answer = await client.agent.evidence(EvidenceRequest("job", "0", stacks=False), Asker(BOB))
    assert answer.run_uid
