"""Tests of incidents over time: rows of hosts, bars with colour, length and link."""

import re

from dashboards.colours import CAUSES
from dashboards.views.incident_times import MAX_ROWS
from tests.dashboards.recorded import NOW
from tests.dashboards.world import INCIDENT, changed, page_text


def incident(number: int, ago: float, lasted: float | None, **changes: object):
    resolved = None if lasted is None else NOW - ago + lasted
    return changed(INCIDENT, id=f"f{number}", onset=NOW - ago, detected=NOW - ago, resolved=resolved, **changes)


def bars(page: str) -> list[tuple[str, ...]]:
    """Return incident, colour, left and width of each bar, in percent."""
    return re.findall(
        r'incident=(\w+)" target="_self" title="[^"]*" aria-label="[^"]*" style="--tint:(#\w+);'
        r"--track:\d;left:min\(([\d.]+)%,100% - 8px\);width:([\d.]+)%", page,
    )  # fmt: skip


def test_bar_of_an_incident_has_the_colour_of_its_cause_and_its_place_in_time(open_page, world):
    world.incidents = [incident(1, 900, None), incident(2, 1800, 360, cause="host_lost", hosts=("node-2",))]
    page = page_text(open_page("incidents", job_id="ads"))
    assert page.index("<span>node-1</span>") < page.index("<span>node-2</span>")
    assert bars(page) == [
        ("f1", CAUSES["rank_frozen"], "75", "25"), ("f2", CAUSES["host_lost"], "50", "10"),
    ]  # fmt: skip
    assert 'title="rank_frozen rank 1 on node-1 in ads: 14 Nov 22:45:00 UTC, still open"' in page
    assert f'<li style="--tint:{CAUSES["host_lost"]}">host_lost <b>1 ×</b></li>' in page


def test_incidents_at_the_same_time_are_below_each_other(open_page, world):
    world.incidents = [incident(3, 600, 60), incident(2, 900, None), incident(1, 1800, 1000)]  # newest first
    page = page_text(open_page("incidents", job_id="ads"))
    assert re.findall(r"--track:(\d)", page) == ["0", "1", "0"]
    assert '<div style="--tracks:2">' in page


def test_incident_is_in_the_row_of_each_of_its_hosts(open_page, world):
    world.incidents = [incident(1, 900, 60, hosts=("node-1", "node-2")), incident(2, 900, 60, hosts=())]
    page = page_text(open_page("incidents", job_id="ads"))
    assert [bar[0] for bar in bars(page)] == ["f1", "f1", "f2"]
    assert "<span>no host</span>" in page


def test_rows_of_many_hosts_are_those_of_the_newest_incidents(open_page, world):
    world.incidents = [incident(number, 900 + number, 60, hosts=(f"node-{number}",)) for number in range(MAX_ROWS + 3)]
    app = open_page("incidents", job_id="ads")
    assert len(bars(page_text(app))) == MAX_ROWS
    assert any("3 more hosts" in caption.value for caption in app.caption)


def test_incident_that_began_before_the_range_is_cut_off(open_page, world):
    world.incidents = [incident(1, 40 * 86400, None)]
    assert bars(page_text(open_page("incidents", job_id="ads"))) == [("f1", CAUSES["rank_frozen"], "0", "100")]
