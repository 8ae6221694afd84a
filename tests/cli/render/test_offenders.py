"""Tests of the list of hosts that are culprits again and again."""

from tests.build import NOW
from zmon.cli.render.offenders import by_host, offenders_table
from zmon.schema.incident import IncidentSummary


def summary(number, *hosts, cause="rank_frozen", cost=None):
    return IncidentSummary(
        f"f{number}", "job", "stall", cause, "critical", (), hosts, NOW + number, NOW + number, "", lost_gpu_hours=cost
    )


def test_worst_host_is_first_with_causes_cost_and_last_incident():
    offenders = by_host(
        [
            summary(1, "node-a", cost=1.0),
            summary(2, "node-b", cost=5.0),
            summary(3, "node-a", cause="rank_exited", cost=0.5),
            summary(4, "node-a"),
        ]
    )
    assert [(o.host, o.incidents, o.lost_gpu_hours) for o in offenders] == [("node-a", 3, 1.5), ("node-b", 1, 5.0)]
    assert offenders[0].causes == {"rank_frozen": 2, "rank_exited": 1}
    assert (offenders[0].last, offenders[0].last_incident) == (NOW + 4, "f4")


def test_incident_counts_once_for_each_host():
    (offender,) = by_host([summary(1, "node-a", "node-a"), summary(2)])
    assert (offender.host, offender.incidents, offender.lost_gpu_hours) == ("node-a", 1, None)  # the cost is unknown
    assert [o.host for o in by_host([summary(2, "cheap", cost=1.0), summary(1, "dear", cost=2.0)])] == ["dear", "cheap"]


def test_table_without_hosts_says_why_it_is_empty():
    assert str(offenders_table([])) == "no incidents that name a host"
