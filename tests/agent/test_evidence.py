"""Tests of `GET /api/v1/evidence`: the stack, the collectives in flight and the stderr of one rank."""

import os

import pytest

from tests.agent.agent_client import get_json, poll
from tests.hostile.users import BOB
from zmon.schema.api import EvidenceRequest
from zmon.web.asker import Asker
from zmon.web.server import Refusal


def test_evidence_of_a_real_rank_has_its_stack(start_rank, tmp_path, run_scenario):
    rank = start_rank(
        """
        import time, zmon
        def guilty_line():
            time.sleep(60)
        assert zmon.attach()
        print("attached", flush=True)
        guilty_line()
        """,
        ZMON_BOX_DIR=str(tmp_path),
    )
    rank.says("attached")

    async def scenario(client):
        answer = await get_json(client, "/api/v1/evidence/job/0")
        assert (answer["job_id"], answer["rank"], answer["pid"]) == ("job", 0, rank.pid)
        assert "guilty_line" in answer["stack"]
        assert answer["stack_error"] is None

    run_scenario(scenario)


def test_evidence_has_collectives_in_flight_and_stacks_on_request(start_rank, tmp_path, run_scenario):
    rank = start_rank(
        """
        import time, zmon
        assert zmon.attach()
        import torch
        import torch.distributed as dist
        dist.init_process_group("gloo", init_method="file://" + __file__ + ".store", rank=0, world_size=1)
        dist.all_reduce(torch.ones(3))
        print("reduced", flush=True)
        time.sleep(60)
        """,
        ZMON_BOX_DIR=str(tmp_path),
    )
    rank.says("reduced")

    async def scenario(client):
        async def answer_with_retired_operation():
            answer = await get_json(client, "/api/v1/evidence/job/0?stacks=0")
            return (
                answer if answer["flight"]["last"] else None
            )  # a thread of torch retires the operation a moment later

        answer = await poll(answer_with_retired_operation)
        assert answer["flight"] == {"pending": [], "num_pending": 0, "last": {"gloo:0": 1}}
        assert (answer["flight_error"], answer["stack"]) == (None, None)

    run_scenario(scenario)


def test_evidence_of_a_rank_without_a_worker_server_has_the_reason(make_live_box, run_scenario):
    make_live_box()

    async def scenario(client):
        answer = await get_json(client, "/api/v1/evidence/job/0")
        assert (answer["flight"], answer["flight_error"]) == (None, "the job has no worker server (torch < 2.9?)")

    run_scenario(scenario)


def test_evidence_of_an_unknown_rank_is_404_with_a_next_step(make_live_box, run_scenario):
    make_live_box()

    async def scenario(client):
        for path in ("/api/v1/evidence/job/7", "/api/v1/evidence/other/0"):
            answer = await get_json(client, path, 404)
            assert "zmon status" in answer["error"]

    run_scenario(scenario)


def test_evidence_of_a_dead_rank_has_stderr_and_no_stack(start_rank, tmp_path, run_scenario):
    """The stderr of the rank is a log file of the test."""
    rank = start_rank(
        """
        import sys, time, zmon.probe
        assert zmon.probe.attach_box()
        print("attached", flush=True)
        print("ValueError: bad batch 17", file=sys.stderr, flush=True)
        time.sleep(60)
        """,
        ZMON_BOX_DIR=str(tmp_path),
    )
    rank.says("ValueError")

    async def scenario(client):
        async def stderr_tail():
            return (await get_json(client, "/api/v1/evidence/job/0"))["stderr_tail"]

        assert "bad batch 17" in await poll(stderr_tail)
        rank.signal(9)
        rank.wait()

        async def answer_of_dead_rank():
            answer = await get_json(client, "/api/v1/evidence/job/0")
            return answer if not answer["alive"] else None

        answer = await poll(answer_of_dead_rank)
        assert "bad batch 17" in answer["stderr_tail"]
        assert (answer["stack"], answer["stack_error"], answer["flight_error"], answer["pid"]) == (
            None, "its process is gone", "its process is gone", None,
        )  # fmt: skip

    run_scenario(scenario)


def test_evidence_is_from_the_newest_start_by_default(make_live_box, run_scenario):
    make_live_box(attempt=0, run_uid="aa" * 16, start_unix=1e9)
    make_live_box(attempt=1, run_uid="bb" * 16, start_unix=2e9)

    async def scenario(client):
        newest = await get_json(client, "/api/v1/evidence/job/0?stacks=0")
        assert newest["run_uid"] == "bb" * 16
        earlier = await get_json(client, f"/api/v1/evidence/job/0?stacks=0&run={'aa' * 16}")
        assert earlier["run_uid"] == "aa" * 16

    run_scenario(scenario)


def test_evidence_without_the_stderr_source_has_the_reason(make_live_box, run_scenario):
    make_live_box()

    async def scenario(client):
        answer = await get_json(client, "/api/v1/evidence/job/0")
        assert (answer["stderr_tail"], answer["stderr_error"]) == (None, "the agent runs --without stderr")

    run_scenario(scenario, without=frozenset({"stderr"}))


def test_evidence_is_refused_to_other_machines_and_other_users(make_live_box, run_scenario):
    make_live_box()

    async def scenario(client):
        request = EvidenceRequest("job", "0")
        for asker, line in (
            (Asker(None, "10.0.0.3 is not a loopback address"), "10.0.0.3 is not a loopback address"),
            (Asker(BOB), f"uid {BOB} may not read the evidence of uid {os.geteuid()}: see --hub-user"),
        ):
            with pytest.raises(Refusal, match=line) as refusal:
                await client.agent.evidence(request, asker)
            assert refusal.value.status == 403

    run_scenario(scenario)


def test_evidence_is_given_to_a_hub_user(make_live_box, run_scenario):
    make_live_box()

    async def scenario(client):
        answer = await client.agent.evidence(EvidenceRequest("job", "0", stacks=False), Asker(BOB))
        assert answer.run_uid

    run_scenario(scenario, hub_users=frozenset({BOB}))
