"""Incident capsules: all that was known when something went wrong, kept for whoever asks later.

`record` says what a capsule holds, `building`, `hardware`, `moments` and `steps` make one (pure), `folder` keeps them
on disk, `report` and `plots` show one as a page, `text` at the terminal, `offenders` sums them up by host.
"""

from zmon.hub.incidents.building import capsule
from zmon.hub.incidents.folder import FOLDER, Folder
from zmon.schema.incident import Brief, Capsule, Moment

__all__ = ["FOLDER", "Brief", "Capsule", "Folder", "Moment", "capsule"]
