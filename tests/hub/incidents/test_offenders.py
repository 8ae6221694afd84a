"""Tests of the list of hosts that are culprits again and again."""

from tests.build import NOW
from zmon.cli.render.incident import by_host
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


def test_incident_with_several_culprits_on_a_host_counts_once():
    assert [o.incidents for o in by_host([summary(1, "node-a", "node-a")])] == [1]


def test_cost_is_unknown_without_data():
    assert by_host([summary(1, "node-a")])[0].lost_gpu_hours is None


def test_higher_cost_is_first_among_equal_counts():
    assert [o.host for o in by_host([summary(2, "cheap", cost=1.0), summary(1, "dear", cost=2.0)])] == ["dear", "cheap"]


def test_incident_without_host_is_not_counted():
    assert by_host([summary(1)]) == []
