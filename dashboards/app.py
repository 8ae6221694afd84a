"""The pages of the dashboard. Start it with `zmon dashboard`, or `streamlit run dashboards/app.py`."""

from collections.abc import Callable

import streamlit as st

from dashboards.address import Address
from dashboards.views import armed, cluster, communication, compare, frame, hardware, incidents, job, ranks, scaling

st.set_page_config(page_title="zmon", page_icon="🚦", layout="wide")

VIEWS = {  # by the path of the URL, in the order of the links: function, title, and True if it shows one job
    "cluster": (cluster.show, "Cluster", False),
    "job": (job.show, "Job", True),
    "ranks": (ranks.show, "Ranks", True),
    "communication": (communication.show, "Communication", True),
    "scaling": (scaling.show, "Scaling", True),
    "hardware": (hardware.show, "Hardware", True),
    "incidents": (incidents.show, "Incidents", True),
    "compare": (compare.show, "Compare", True),
    "armed": (armed.show, "Armed", False),
}
pages: list[st.Page] = []


def page(view: frame.View, title: str, *, shows_one_job: bool) -> Callable[[], None]:
    """Return the function that Streamlit calls to draw the page."""
    return lambda: frame.show(view, pages, title, shows_one_job=shows_one_job)


def home() -> None:
    """Redirect a URL without a path to the job in its query, or to the list of all jobs."""
    address = Address.read(st.query_params)
    st.switch_page(pages[list(VIEWS).index("job" if address.job_id else "cluster")], query_params=address.params())


pages += [
    st.Page(page(view, title, shows_one_job=shows_one_job), title=title, url_path=path)
    for path, (view, title, shows_one_job) in VIEWS.items()
]
st.navigation([st.Page(home, title="zmon", default=True), *pages], position="hidden").run()
