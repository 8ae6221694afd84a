"""Tests of the hardware page: the tiles of hosts."""

from dashboards.colours import BLUE, GREY
from tests.dashboards.world import page_text


def test_hardware_page_shows_gpu_utilization_of_hosts_and_unknown_in_grey(open_page):
    page = page_text(open_page("hardware", job_id="ads"))
    assert 'title="GPU 0 50.0 %, GPU 1 unknown, GPU 2 50.0 %' in page
    assert f"{BLUE}80 0% 12.5%,{GREY} 12.5% 25%,{BLUE}80 25% 37.5%" in page
