"""The pages of the dashboard. Start it with `zmon dashboard`, or `streamlit run dashboards/app.py`."""

from collections.abc import Callable
from typing import NamedTuple

import streamlit as st

from dashboards.address import Address
from dashboards.views import armed, cluster, communication, compare, frame, hardware, incidents, job, ranks, scaling

st.set_page_config(page_title="zmon", page_icon="🚦", layout="wide")


class Page(NamedTuple):
    """One page: the function that draws its view, and its title."""

    view: frame.View
    title: str
    shows_one_job: bool = True


PAGES = {  # by the path of the URL, in the order of the links
    "cluster": Page(cluster.show, "Cluster", shows_one_job=False),
    "job": Page(job.show, "Job"),
    "ranks": Page(ranks.show, "Ranks"),
    "communication": Page(communication.show, "Communication"),
    "scaling": Page(scaling.show, "Scaling"),
    "hardware": Page(hardware.show, "Hardware"),
    "incidents": Page(incidents.show, "Incidents"),
    "compare": Page(compare.show, "Compare"),
    "armed": Page(armed.show, "Armed", shows_one_job=False),
}
streamlit_pages: dict[str, st.Page] = {}


def drawing(page: Page) -> Callable[[], None]:
    """Return the function that Streamlit calls to draw the page."""
    return lambda: frame.show(page.view, list(streamlit_pages.values()), page.title, shows_one_job=page.shows_one_job)


def home() -> None:
    """Redirect a URL without a path to the job in its query, or to the list of all jobs."""
    address = Address.read(st.query_params)
    st.switch_page(streamlit_pages["job" if address.job_id else "cluster"], query_params=address.params())


for path, page in PAGES.items():
    streamlit_pages[path] = st.Page(drawing(page), title=page.title, url_path=path)
st.navigation([st.Page(home, title="zmon", default=True), *streamlit_pages.values()], position="hidden").run()
