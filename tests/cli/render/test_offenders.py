"""Tests of the list of hosts that are culprits again and again."""

from tests.build import NOW
from zmon.cli.render.offenders import by_host, offenders_table
from zmon.schema.incident import IncidentSummary


def summary(number, *hosts, cost=None):
    """Return the summary of an incident that these hosts caused `number` seconds after NOW."""
    when = NOW + number
    return IncidentSummary(
        id=f"f{number}", job_id="job", detector="stall", cause="rank_frozen", severity="critical", ranks=(),
        hosts=hosts, onset=when, detected=when, summary="", lost_gpu_hours=cost,
    )  # fmt: skip


def test_incident_counts_once_for_each_host():
    (offender,) = by_host([summary(1, "node-a", "node-a"), summary(2)])
    assert (offender.host, offender.incidents, offender.lost_gpu_hours) == ("node-a", 1, None)  # the cost is unknown


def test_cost_decides_between_hosts_with_equally_many_incidents():
    assert [o.host for o in by_host([summary(2, "cheap", cost=1.0), summary(1, "dear", cost=2.0)])] == ["dear", "cheap"]


def test_costs_of_a_host_are_added_and_its_last_incident_is_known():
    (offender,) = by_host([summary(1, "node-a", cost=1.0), summary(3, "node-a", cost=0.5), summary(2, "node-a")])
    assert (offender.lost_gpu_hours, offender.last, offender.last_incident) == (1.5, NOW + 3, "f3")


def test_table_without_hosts_says_why_it_is_empty():
    assert str(offenders_table([])) == "no incidents that name a host"
