"""For how long did some process of a host have to wait for cores, memory or storage? (PSI "some", Linux
Documentation/accounting/psi.rst)
"""

from __future__ import annotations

from zmon.schema.host import HostWindow


def waited(window: HostWindow) -> dict[str, float]:
    """Seconds of the window by resource; empty where the host does not tell."""
    then, now = window.before.load, window.now.load
    if then is None or now is None:
        return {}
    before = then.pressure_seconds
    return {what: max(seconds - before[what], 0.0) for what, seconds in now.pressure_seconds.items() if what in before}


def waited_ratio(window: HostWindow) -> dict[str, float]:
    """In what part of the window."""
    return {what: seconds / window.seconds for what, seconds in waited(window).items()} if window.seconds > 0 else {}
