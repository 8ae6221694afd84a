"""The results of `zmon doctor` for the hub, Prometheus, rules and alert routes, shared by all viewers."""

import asyncio
import os
from pathlib import Path

import streamlit as st

from zmon.doctor import Check, Login, examine_cluster

CACHE_SECONDS = 15  # the results change slowly, and the checks take some dozen requests


@st.cache_resource(ttl=CACHE_SECONDS, max_entries=4, show_spinner=False)
def armed(hub: str, prometheus: str) -> tuple[Check, ...]:
    """Run every check that does not depend on the local machine. It returns even if no server answers."""
    return tuple(asyncio.run(examine_cluster(hub.rstrip("/"), prometheus.rstrip("/"), _login())))


def _login() -> Login | None:
    """Return the login of the Alertmanager that `zmon up` started together with this dashboard, or None."""
    url, user = os.environ.get("ZMON_ALERTMANAGER_URL"), os.environ.get("ZMON_ALERTMANAGER_USER", "")
    return Login(url, user, Path(os.environ.get("ZMON_ALERTMANAGER_PASSWORD_FILE", ""))) if url else None
