"""Tests of the rows of a job's ranks: their order, pages of them, and the summary of all ranks."""

import pytest

from tests.build import JOB, dead, finding, finished, job_steps, rank_state, snapshot, waiting
from tests.hub.fakes import FakeAgent, frozen, healthy, poll
from zmon.detectors.new_finding import rank_row
from zmon.errors import UsageError
from zmon.hub.api.rank_page import rank_page, with_few_rows
from zmon.schema.api import RanksRequest
from zmon.schema.evidence import StallEvidence
from zmon.schema.gathered import FlightRow

STRANGE = snapshot(
    rank_state(0), waiting(1, 3.0), dead(2), waiting(3, 9.0), finished(4), rank_state(5),
    unwatched=[rank_state(6, host="node-b")],
)  # fmt: skip


def page(view=STRANGE, findings=(), **request):
    """Return the answer to a request for the ranks of a job."""
    return rank_page(view, findings, RanksRequest(JOB, **request))


def ranks(answer) -> list[int]:
    """Return the ranks of an answer, in its order."""
    return [row.rank for row in answer.ranks]


def test_answer_has_all_ranks_in_their_order_or_those_of_one_host():
    assert (ranks(page()), page().num_rows) == ([0, 1, 2, 3, 4, 5, 6], 7)
    assert [row.rank for row in page().ranks if not row.watched] == [6]
    answer = page(host="node-b")
    assert (ranks(answer), answer.num_rows, answer.summary.num_ranks) == ([6], 1, 7)


def test_time_since_the_last_step_is_unknown_before_the_first_step():
    starting = rank_state(0, steps=0, step_seconds=40.0, last_step_time=None)
    rows = page(snapshot(starting, rank_state(1, step_seconds=0.5))).ranks
    assert [row.step_seconds for row in rows] == [None, 0.5]


def test_urgent_ranks_are_culprits_then_dead_then_overdue_then_unwatched():
    open_findings = [finding(ranks=(5,), severity="warning"), finding(ranks=(4,), severity="critical")]
    assert ranks(page(findings=open_findings, order="urgency")) == [4, 5, 2, 3, 1, 6, 0]
    assert ranks(page(findings=[finding(ranks=(5,), severity="info")], order="urgency"))[0] == 2
    assert ranks(page(order="urgency", standing_out=True)) == [2, 3, 1, 6]  # rank 4 finished


def test_no_rank_of_a_healthy_job_stands_out():
    answer = page(snapshot(rank_state(0), rank_state(1)), standing_out=True)
    assert (ranks(answer), answer.num_rows, answer.summary.num_standing_out) == ([], 0, 0)


def test_pages_follow_each_other():
    assert ranks(page(limit=3)) == [0, 1, 2]
    assert ranks(page(limit=3, offset=6)) == [6]
    assert ranks(page(limit=3, offset=9)) == []
    assert page(limit=3, offset=9).num_rows == 7


UNKNOWN_TIME = [0, 2, 4, 5, 6]  # the ranks that are in no collective


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("-rank", [6, 5, 4, 3, 2, 1, 0]),
        ("-in_flight_seconds", [3, 1, *UNKNOWN_TIME]),
        ("in_flight_seconds", [1, 3, *UNKNOWN_TIME]),
    ],
)
def test_rows_in_order_of_a_column_have_unknown_values_last(order, expected):
    assert ranks(page(order=order)) == expected


def test_largest_self_time_in_the_last_step_is_first():
    steps = job_steps(1, {"phases": {"forward": 0.1}}, {"phases": {"forward": 0.3}}, ops={"all_to_all": 0.2})
    answer = page(snapshot(rank_state(0), rank_state(1), steps=steps), order="-self_seconds")
    assert ranks(answer) == [1, 0]
    assert (answer.ranks[0].self_seconds, answer.ranks[0].exposed_seconds) == pytest.approx((0.3, 0.2))


def test_unknown_order_is_refused():
    with pytest.raises(UsageError, match="no order colour"):
        page(order="colour")


def test_summary_counts_each_rank_once():
    summary = page(limit=0).summary
    assert summary.by_state == {"train": 2, "overdue": 2, "dead": 1, "done": 1, "unwatched": 1}
    assert (summary.num_ranks, summary.num_standing_out, sum(summary.by_state.values())) == (7, 4, 7)
    within_its_lease = page(snapshot(waiting(0, 1.2), rank_state(1))).summary
    assert within_its_lease.by_state == {"waiting": 1, "train": 1}


def test_first_ranks_that_no_agent_reported_are_named():
    missing = page(snapshot(rank_state(0, world_size=200))).summary
    assert (missing.num_missing, missing.missing[0], len(missing.missing)) == (199, 1, 64)


async def test_hub_answers_with_a_page_of_ranks(start_hub):
    hub_client = await start_hub(FakeAgent(*healthy()))
    await hub_client.passes()
    answer = await hub_client.get(f"/api/v1/jobs/{JOB}/ranks?limit=2&offset=1&order=-rank")
    assert [row["rank"] for row in answer["ranks"]] == [2, 1]
    assert (answer["num_rows"], answer["summary"]["by_state"]) == (4, {"train": 4})


async def test_culprit_of_an_open_finding_is_the_first_urgent_rank(start_hub):
    hub_client = await start_hub(FakeAgent(*frozen()))
    await poll(hub_client.findings)
    answer = await hub_client.get(f"/api/v1/jobs/{JOB}/ranks?limit=1&order=urgency&standing_out=1")
    assert [row["rank"] for row in answer["ranks"]] == [2]


def test_evidence_has_few_rows_the_culprits_first():
    idle = FlightRow(pending=(), num_pending=0)
    rows = tuple(map(rank_row, STRANGE.reported_ranks))
    whole = finding(ranks=(4,), evidence=StallEvidence(ranks=rows, in_flight=dict.fromkeys(("0", "3", "4"), idle)))
    few = with_few_rows(whole, 2).evidence
    assert ([row.rank for row in few.ranks], few.num_ranks_left_out) == ([4, 0], 5)
    assert set(few.in_flight) == {"0", "4"}
    assert with_few_rows(whole, 7) is whole
    assert with_few_rows(finding(evidence={}), 2).evidence.names == ()
