"""The hot path of the probe, in Python or in C.

An edge is the classes that a rank uses at each phase, collective and step. In the C edge each class has two parts. Its
type in C does what happens in every step, and the Python class behind it does the rest, on the same state. Both edges
write the same bytes. A rank runs the C edge if the package has it for this Python; `ZMON_EDGE=python` chooses Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic_ns, time_ns
from typing import NamedTuple

from zmon.box import BoxWriter
from zmon.probe.complaints import complain
from zmon.probe.interface import JobInterface
from zmon.probe.ledger import Ledger
from zmon.probe.rank import RankTimeline


class Edge(NamedTuple):
    """The classes of the hot path, and the name that the box has for them."""

    name: str
    timeline: type[RankTimeline]
    ledger: type[Ledger]

    def make_timeline(
        self,
        box: BoxWriter,
        interface: JobInterface | None = None,
        clock: Callable[[], int] = monotonic_ns,
        start: int = 0,
        unix_clock: Callable[[], int] = time_ns,
    ) -> RankTimeline:
        """Return the timeline of a rank, with its ledger."""
        return self.timeline(box, self.ledger(box, interface, unix_clock), clock, start)


def _load() -> Edge | None:
    """Return the C edge; None if this package has none that fits."""
    try:
        from zmon.probe.edge.classes import CLedger, CTimeline
    except ImportError:  # the package was installed where there is no compiler, or for another Python
        return None
    except Exception as error:  # built from another version of the sources
        complain(
            f"cannot use the C edge of the probe, so this rank runs the Python edge: {error!r}. Install zmon again"
        )
        return None
    return Edge("c", CTimeline, CLedger)


PYTHON = Edge("python", RankTimeline, Ledger)
C = _load()
CHOSEN = PYTHON if C is None or os.environ.get("ZMON_EDGE") == PYTHON.name else C
