"""The results of `zmon doctor` for the hub, Prometheus, rules and alert routes, shared by all viewers."""

import asyncio
import os
from pathlib import Path

import streamlit as st

from dashboards.http_options import read_config
from zmon.doctor import Check, Login, examine_cluster
from zmon.schema.http_config import VARIABLE

CACHE_SECONDS = 15  # the results change slowly, and the checks make about a dozen requests


@st.cache_resource(ttl=CACHE_SECONDS, show_spinner=False)
def run_checks(hub_url: str, prometheus_url: str) -> tuple[Check, ...]:
    """Run every check that does not depend on the local machine. It returns even if no server answers."""
    try:
        http = read_config()
    except (OSError, ValueError) as error:
        result = f"cannot be asked: the file in {VARIABLE} is unusable: {error}"
        return (Check("hub and Prometheus", False, result, "docs/deploy/security.md has all keys."),)
    return tuple(asyncio.run(examine_cluster(hub_url.rstrip("/"), prometheus_url.rstrip("/"), _login(), http)))


def _login() -> Login | None:
    """Return the login of the Alertmanager that `zmon up` started together with this dashboard, or None."""
    url = os.environ.get("ZMON_ALERTMANAGER_URL")
    if not url:
        return None
    return Login(url, os.environ["ZMON_ALERTMANAGER_USER"], Path(os.environ["ZMON_ALERTMANAGER_PASSWORD_FILE"]))
