"""Measure the time for which processes of a host waited for cores, memory or storage.

The source is PSI "some" (Linux Documentation/accounting/psi.rst): at least one process waited.
"""

from __future__ import annotations

from zmon.schema.host import HostWindow


def pressure_seconds(window: HostWindow) -> dict[str, float]:
    """Return the seconds of waiting in the window, by resource; empty if the host does not report them."""
    then, now = window.before.load, window.now.load
    if then is None or now is None:
        return {}
    before = then.pressure_seconds
    return {
        resource: max(seconds - before[resource], 0.0)
        for resource, seconds in now.pressure_seconds.items()
        if resource in before
    }


def pressure_ratio(window: HostWindow) -> dict[str, float]:
    """Return the share of the window in which processes waited, by resource."""
    if window.seconds <= 0:
        return {}
    return {resource: seconds / window.seconds for resource, seconds in pressure_seconds(window).items()}
