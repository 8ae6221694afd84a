"""Incident capsules: the hub's records of what was known about each incident.

`zmon/schema/incident.py` defines a capsule. `collector` and `agent_data` gather the data. `building`, `hardware`,
`moments` and `steps` build a capsule (pure), and `folder` stores it. `report` and `plots` make its page, with texts
from `words`. `offenders` counts incidents by host.
"""

from zmon.hub.incidents.building import capsule
from zmon.hub.incidents.folder import FOLDER, Folder
from zmon.schema.incident import Capsule, IncidentSummary, TimelineEvent

__all__ = ["FOLDER", "Capsule", "Folder", "IncidentSummary", "TimelineEvent", "capsule"]
