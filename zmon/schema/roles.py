"""The roles of whoever asks a daemon."""

from __future__ import annotations

from typing import Literal

# metrics: /metrics, for Prometheus. read: status, findings and reports, without what jobs print. evidence: stacks,
# stderr and incidents as a whole. actions: reserved for requests that change something; there is none yet.
Role = Literal["metrics", "read", "evidence", "actions"]
# Of a principal of whom the file does not say what they may do. Evidence has what jobs print, so it is given by name.
DEFAULT_ROLES: frozenset[Role] = frozenset(("metrics", "read"))
