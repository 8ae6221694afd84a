"""Tests of acts with real jobs: what is ended, what is refused and why, and that nothing is done twice."""

import asyncio
import os
import re
import signal

import msgspec
import pytest

from tests.agent.acts.jobs import ask_for, assert_refused, entries, events, request_for, still_lives
from tests.agent.agent_client import get_metrics, get_snapshot, poll, shows
from zmon.act_stops import ALL, reset, stop, stops
from zmon.agent.acts import Acts, check_asker
from zmon.agent.acts.ledger import FILE
from zmon.schema.act import ACTED, END_JOB, KILL_CULPRIT, REFUSED, STOP_RESTARTS
from zmon.web.asker import Asker
from zmon.web.responses import Refusal


async def test_culprit_is_killed_after_its_audit_line_and_nobody_else(start_job, acting, tmp_path):
    job = start_job(ranks=2)
    job.stop(job.pids[1])  # frozen
    async with acting() as client:
        answer = await ask_for(client, await request_for(client, rank=1))
    assert (answer.result, answer.host, answer.repeated) == (ACTED, "node-a", False)
    assert answer.reason == f"SIGKILL to process {job.pids[1]}, rank 1 of job of uid {os.getuid()}: it has ended"
    assert job.rank_ended(1)
    assert still_lives(job.pids[0])
    announced, done = entries(tmp_path)
    assert (announced.event, done.event, done.line) == ("announced", "done", answer.reason)
    assert (announced.intent, announced.reason, announced.rank) == ("intent-1", "rule r: frozen", 1)
    assert (tmp_path / "data" / FILE).stat().st_mode & 0o777 == 0o600


async def test_repeated_request_has_the_first_answer_also_after_a_restart_of_the_agent(start_job, acting, tmp_path):
    start_job(ranks=2)
    async with acting() as client:
        request = await request_for(client)
        first = await ask_for(client, request)
        again = await ask_for(client, msgspec.structs.replace(request, intent="of another hub"))
    async with acting() as client:
        after_restart = await ask_for(client, request)
    expected = msgspec.structs.replace(first, repeated=True)
    assert (again, after_restart) == (expected, expected)
    assert events(tmp_path) == ["announced", "done"]


async def test_two_hubs_at_the_same_time_are_one_act(start_job, acting, tmp_path):
    start_job(ranks=2)
    async with acting() as client:
        request = await request_for(client)
        answers = await asyncio.gather(*(ask_for(client, request) for _ in range(5)))
    assert sorted(answer.repeated for answer in answers) == [False, True, True, True, True]
    assert {answer.result for answer in answers} == {ACTED}
    assert events(tmp_path) == ["announced", "done"]


async def test_second_act_for_a_job_within_ten_minutes_is_refused(start_job, acting):
    job = start_job(ranks=2)
    async with acting() as client:
        await ask_for(client, await request_for(client, rank=0))
        request = await request_for(client, rank=1)
        answer = await ask_for(client, msgspec.structs.replace(request, intent="another one"))
    assert_refused(answer, f"job of uid {os.getuid()} had an act already: one in 10 minutes", job.pids[1])


async def test_ranks_of_one_intent_are_killed_together(start_job, acting):
    job = start_job(ranks=3)
    async with acting() as client:
        requests = [await request_for(client, rank=rank) for rank in (0, 1)]
        answers = await asyncio.gather(*(ask_for(client, request) for request in requests))
    assert [answer.result for answer in answers] == [ACTED, ACTED]
    assert job.rank_ended(0)
    assert job.rank_ended(1)
    assert still_lives(job.pids[2])


async def test_storm_trips_the_breaker_until_a_person_resets_it(start_job, acting, tmp_path):
    jobs = [start_job(job_id=f"job-{number}") for number in range(6)]
    async with acting() as client:
        answers = [await ask_for(client, await request_for(client, job_id=f"job-{n}")) for n in range(6)]
        assert [answer.result for answer in answers] == [ACTED] * 4 + [REFUSED] * 2
        assert "4 acts on node-a within an hour" in answers[4].reason
        assert "acts are stopped by the agent of node-a" in answers[5].reason
        assert await shows(client, 'zmon_agent_acts_stopped{by="breaker",host="node-a",name="all"} 1.0')
        assert await shows(client, 'zmon_agent_acts_total{act="kill_culprit",host="node-a",result="acted"} 4.0')
        assert await shows(client, 'zmon_agent_acts_total{act="kill_culprit",host="node-a",result="refused"} 2.0')
    assert stops(tmp_path / "data")[ALL].reason.startswith("4 acts on node-a within an hour")
    async with acting() as client:  # neither a restart takes it away, nor does the next request after the reset
        assert "acts are stopped" in (await ask_for(client, await request_for(client, job_id="job-4"))).reason
        reset(tmp_path / "data", ALL)
        assert "within an hour" in (await ask_for(client, await request_for(client, job_id="job-5"))).reason
    assert all(still_lives(job.pids[0]) for job in jobs[4:])


async def test_stop_of_a_person_refuses_everything_and_has_its_reason(start_job, acting, tmp_path):
    job = start_job()
    stop(tmp_path / "data", ALL, "maintenance", "ann")
    async with acting() as client:
        for act in (KILL_CULPRIT, END_JOB, STOP_RESTARTS):
            answer = await ask_for(client, await request_for(client, act))
            assert_refused(answer, "acts are stopped by ann: maintenance. See zmon act reset", job.pids[0])
    assert events(tmp_path) == ["refused"] * 3


async def test_stop_of_one_act_stops_no_other(start_job, acting, tmp_path):
    start_job()
    stop(tmp_path / "data", END_JOB, "not at night", "ann")
    async with acting() as client:
        assert "not at night" in (await ask_for(client, await request_for(client, END_JOB))).reason
        assert (await ask_for(client, await request_for(client))).result == ACTED


async def test_agent_without_the_option_refuses_and_has_no_metric(start_job, acting, tmp_path):
    job = start_job()
    async with acting(allow_actions=False) as client:
        answer = await ask_for(client, await request_for(client))
        assert_refused(answer, "the agent runs without --allow-actions", job.pids[0])
        assert not [line for line in (await get_metrics(client)).splitlines() if re.match("zmon_.*acts", line)]
    assert entries(tmp_path) == []


NO_LEDGERS = {  # what makes the ledger impossible in the folder of the test, options of the agent, and the reason
    "no data directory": (lambda tmp_path: None, {"data_dir": None}, "no data directory"),
    "a file in its place": (lambda tmp_path: (tmp_path / "data").write_text(""), {}, "File exists"),
}


@pytest.mark.parametrize(("prepare", "config", "reason"), NO_LEDGERS.values(), ids=NO_LEDGERS)
async def test_agent_without_a_ledger_refuses(start_job, acting, tmp_path, prepare, config, reason):
    job = start_job()
    prepare(tmp_path)
    async with acting(**config) as client:
        answer = await ask_for(client, await request_for(client))
    assert_refused(answer, reason, job.pids[0])


async def test_agent_whose_ledger_another_agent_has_refuses(start_job, acting, tmp_path):
    job = start_job()
    async with acting() as first:
        request = await request_for(first)
        await poll(lambda: (tmp_path / "data/acts.lock").exists())
        async with acting() as second:
            answer = await ask_for(second, request)
    assert_refused(answer, "another agent has its ledger of acts", job.pids[0])


async def test_agent_that_ends_after_the_audit_sends_no_signal(start_job, acting, end_acts_after, tmp_path):
    job = start_job()
    async with acting() as client:
        request = await request_for(client)
        end_acts_after("announced", client.agent._acts)
        answer = await ask_for(client, request)
    assert_refused(answer, "the agent ends", job.pids[0])
    assert events(tmp_path) == ["announced", "withdrawn"]


async def test_rank_that_has_ended_is_refused(start_job, acting):
    job = start_job(ranks=2)
    async with acting() as client:
        request = await request_for(client)
        os.kill(job.pids[0], signal.SIGKILL)
        assert job.rank_ended(0)
        assert f"rank 0 of job of uid {os.getuid()} has ended" in (await ask_for(client, request)).reason


async def test_request_that_fits_no_rank_of_this_node_is_refused(start_job, acting):
    start_job(ranks=2)
    misfits = [
        ({"run_uid": "ff" * 16}, "is not on this node"),
        ({"rank": 1}, "is not on this node"),
        ({"act": "reboot"}, "an agent does only"),
    ]
    async with acting() as client:
        request = await request_for(client)
        for changes, reason in misfits:
            assert_refused(await ask_for(client, msgspec.structs.replace(request, **changes)), reason)


async def test_rank_of_a_suspended_job_is_refused(start_job, acting):
    job = start_job()
    job.stop(job.launcher.pid)
    async with acting() as client:
        answer = await ask_for(client, await request_for(client))
    reason = f"process {job.launcher.pid} above rank 0 of job of uid {os.getuid()} is stopped: its owner has suspended"
    assert_refused(answer, reason, job.pids[0])


async def test_job_of_another_healer_is_only_observed(start_job, acting):
    """tests/agent/acts/test_processes.py has the variables by which each healer is known."""
    job = start_job(ranks=2, TORCHFT_LIGHTHOUSE="1")
    async with acting() as client:
        for act in (KILL_CULPRIT, END_JOB):
            answer = await ask_for(client, await request_for(client, act))
            assert_refused(answer, "torchft heals this job", *job.pids.values(), job.launcher.pid)


@pytest.mark.parametrize(
    ("asker", "may"),
    [
        pytest.param(Asker(0), True, id="root"),
        pytest.param(Asker(os.geteuid()), True, id="the user of the agent"),
        pytest.param(Asker(4242), True, id="a user of a hub"),
        pytest.param(Asker(4243), False, id="another user"),
        pytest.param(Asker(None, "10.0.0.3 is not a loopback address"), False, id="not over loopback"),
        pytest.param(Asker(None, "", frozenset(("actions",))), True, id="the role actions"),
        pytest.param(Asker(0, "", frozenset(("read", "evidence", "metrics"))), False, id="root with other roles"),
        pytest.param(Asker(4242, "", frozenset(("read",))), False, id="a user of a hub with other roles"),
    ],
)
def test_acts_are_for_the_role_actions_or_without_roles_for_root_the_agents_user_and_hub_users(asker, may):
    """With roles, the role alone counts. Without roles, a user counts, and only over loopback."""
    if may:
        check_asker(asker, {4242})
        return
    with pytest.raises(Refusal, match="acts are for the role actions") as refusal:
        check_asker(asker, {4242})
    assert refusal.value.status == 403


@pytest.mark.parametrize(
    ("allowed", "roles", "why"),
    [
        (False, ("actions",), "the agent runs without --allow-actions"),
        (True, ("read", "evidence"), "the client lacks the role actions"),
        (True, ("read", "actions"), ""),
    ],
)
def test_agent_reports_why_it_refuses_all_acts(tmp_path, allowed, roles, why):
    assert Acts(tmp_path, "node-a", lambda question: None, allowed).refuses(roles) == why


async def test_report_has_why_acts_are_refused(acting):
    for allowed, why in ((True, ""), (False, "the agent runs without --allow-actions")):
        async with acting(allow_actions=allowed) as client:
            assert (await get_snapshot(client)).refuses_acts == why


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        pytest.param(b"{", {}, 400, id="no JSON"),
        pytest.param(b'{"act": "kill_culprit"}', {}, 400, id="fields missing"),
        pytest.param(b"{}" + b" " * 5000, {}, 413, id="too long"),
        pytest.param(b"{}", {"Content-Type": "text/plain"}, 415, id="form of a browser"),
        pytest.param(b"{}", {"Origin": "https://elsewhere.example.org"}, 403, id="page of another site"),
        pytest.param(b"{}", {"Origin": "null"}, 403, id="page without origin"),
    ],
)
async def test_malformed_request_is_refused_with_one_line(acting, body, headers, status):
    async with acting() as client:
        headers = {"Content-Type": "application/json", **headers}
        async with client.post("/api/v1/acts", data=body, headers=headers) as answer:
            assert answer.status == status
            assert (await answer.text()).strip().count("\n") == 0


async def test_acts_cannot_be_asked_for_by_get(acting):
    async with acting() as client, client.get("/api/v1/acts") as answer:
        assert answer.status == 405


async def test_body_that_does_not_arrive_is_refused(acting):
    async with acting() as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.server.port)
        writer.write(b"POST /api/v1/acts HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: 9\r\n\r\n{")
        async with asyncio.timeout(10.0):
            assert b" 408 " in await reader.readline()
        writer.close()
