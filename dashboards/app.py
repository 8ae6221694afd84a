"""The dashboard: which pages there are. Start it with `zmon dashboard`, or `streamlit run dashboards/app.py`."""

import streamlit as st

from dashboards.views import job

st.set_page_config(page_title="zmon", page_icon="🚦", layout="wide")
st.navigation([st.Page(job.page, title="Job", url_path="job", default=True)], position="hidden").run()
