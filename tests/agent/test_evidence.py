"""What one rank is stuck in, over the agent's door."""

from tests.agent.asking import get, until


def test_evidence_of_a_real_rank_has_its_stack(start_rank, tmp_path, ask):
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
        found = await get(client, "/api/v1/evidence/job/0")
        assert (found["job_id"], found["rank"], found["pid"]) == ("job", 0, rank.pid)
        assert "guilty_line" in found["stack"]
        assert found["stack_error"] is None

    ask(scenario)


def test_evidence_of_a_real_rank_has_what_is_in_flight_and_stacks_only_on_demand(start_rank, tmp_path, ask):
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
        async def retired():
            found = await get(client, "/api/v1/evidence/job/0?stacks=0")
            return found if found["flight"]["last"] else None  # the thread that reduces retires it a moment later

        found = await until(retired)
        assert found["flight"] == {"pending": [], "num_pending": 0, "last": {"gloo:0": 1}}
        assert (found["flight_error"], found["stack"]) == (None, None)

    ask(scenario)


def test_evidence_of_a_rank_without_a_server_says_so(live, ask):
    live()

    async def scenario(client):
        found = await get(client, "/api/v1/evidence/job/0")
        assert (found["flight"], found["flight_error"]) == (None, "the job has no worker server (torch < 2.9?)")

    ask(scenario)


def test_evidence_of_nobody_is_not_found_in_one_line(live, ask):
    live()

    async def scenario(client):
        for path in ("/api/v1/evidence/job/7", "/api/v1/evidence/other/0"):
            found = await get(client, path, 404)
            assert "zmon status" in found["error"]

    ask(scenario)


def test_dead_rank_has_no_stack_but_its_last_lines(start_rank, tmp_path, ask):
    """What it wrote where it may be read by nobody but us: the log of the test."""
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
        async def said():
            return (await get(client, "/api/v1/evidence/job/0"))["stderr_tail"]

        assert "bad batch 17" in await until(said)
        rank.signal(9)
        rank.wait()

        async def dead():
            found = await get(client, "/api/v1/evidence/job/0")
            return found if not found["alive"] else None

        found = await until(dead)
        assert "bad batch 17" in found["stderr_tail"]
        assert (found["stack"], found["stack_error"], found["flight_error"], found["pid"]) == (
            None, "its process is gone", "its process is gone", None,
        )  # fmt: skip

    ask(scenario)


def test_evidence_is_of_the_newest_start_unless_another_is_asked_for(live, ask):
    live(attempt=0, run_uid="aa" * 16, start_unix=1e9)
    live(attempt=1, run_uid="bb" * 16, start_unix=2e9)

    async def scenario(client):
        newest = await get(client, "/api/v1/evidence/job/0?stacks=0")
        assert newest["run_uid"] == "bb" * 16
        earlier = await get(client, f"/api/v1/evidence/job/0?stacks=0&run={'aa' * 16}")
        assert earlier["run_uid"] == "aa" * 16

    ask(scenario)


def test_last_lines_can_be_left_off(live, ask):
    live()

    async def scenario(client):
        found = await get(client, "/api/v1/evidence/job/0")
        assert (found["stderr_tail"], found["stderr_error"]) == (None, "the agent runs --without stderr")

    ask(scenario, without=frozenset({"stderr"}))
