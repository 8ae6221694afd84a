"""Incident capsules: the hub's records of what was known about each incident.

`zmon/schema/incident.py` defines a capsule. `collector` decides when a capsule is written, and `agent_data` gathers its
data. `capsule_builder`, `moments` and `steps` build it (pure), and `capsule_store` stores it. `report` and `plots` make
its page, with the text formats of `words`.
"""

from zmon.hub.incidents.capsule_builder import capsule
from zmon.hub.incidents.capsule_store import CapsuleStore

__all__ = ["CapsuleStore", "capsule"]
