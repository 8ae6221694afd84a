"""Tests of `GET /api/v1/evidence`: of which start of a rank it is, and who may read it.

tests/golden/test_agent.py has the answers about ranks that live, are dead or unknown.
"""

import os

import pytest

from tests.agent.agent_client import get_json
from tests.boxes import IDENTITY
from tests.hostile.users import BOB
from zmon.schema.api import EvidenceRequest
from zmon.web.asker import Asker
from zmon.web.responses import Refusal

EVIDENCE = "/api/v1/evidence/job/0"
OTHER_MACHINE = "10.0.0.3 is not a loopback address"


async def test_evidence_is_of_the_newest_launch_by_default(make_live_box, serve):
    make_live_box(attempt=0, run_uid="aa" * 16, start_unix=1e9)
    make_live_box(attempt=1, run_uid="bb" * 16, start_unix=2e9)
    async with serve() as client:
        assert (await get_json(client, f"{EVIDENCE}?stacks=0"))["run_uid"] == "bb" * 16
        assert (await get_json(client, f"{EVIDENCE}?stacks=0&run={'aa' * 16}"))["run_uid"] == "aa" * 16


async def test_evidence_without_the_source_stderr_has_the_reason(make_live_box, serve):
    make_live_box()
    async with serve(without=frozenset(("stderr",))) as client:
        answer = await get_json(client, f"{EVIDENCE}?stacks=0")
        assert (answer["stderr_tail"], answer["stderr_error"]) == (None, "the agent runs --without stderr")


@pytest.mark.parametrize(
    ("asker", "reason"),
    [
        pytest.param(Asker(None, OTHER_MACHINE), OTHER_MACHINE, id="another machine"),
        pytest.param(
            Asker(BOB), f"uid {BOB} may not read the evidence of uid {os.geteuid()}: see --hub-user", id="another user"
        ),
    ],
)
async def test_evidence_is_refused_to_other_machines_and_users(make_live_box, serve, asker, reason):
    make_live_box()
    async with serve() as client:
        with pytest.raises(Refusal, match=reason) as refusal:
            await client.agent.evidence(EvidenceRequest("job", "0", stacks=False), asker)
    assert refusal.value.status == 403


async def test_hub_user_gets_evidence_of_all_users(make_live_box, serve):
    make_live_box()
    async with serve(hub_users=frozenset({BOB})) as client:
        answer = await client.agent.evidence(EvidenceRequest("job", "0", stacks=False), Asker(BOB))
    assert answer.run_uid == IDENTITY.run_uid
