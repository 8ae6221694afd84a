"""What `zmon doctor` says of hub, Prometheus, rules and pager, asked once a while for all viewers."""

import asyncio

import streamlit as st

from zmon.doctor import Check, examine_cluster

KEPT_SECONDS = 15  # what is armed changes slowly, and to ask takes some dozen questions


@st.cache_resource(ttl=KEPT_SECONDS, max_entries=4, show_spinner=False)
def armed(hub: str, prometheus: str) -> tuple[Check, ...]:
    """Every check that needs nothing of the machine it is made on. Nobody who does not answer makes it fail."""
    return tuple(asyncio.run(examine_cluster(hub.rstrip("/"), prometheus.rstrip("/"))))
