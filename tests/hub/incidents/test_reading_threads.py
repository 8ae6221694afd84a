"""Test that requests for incidents do not crash a hub that has read none before: each is answered by a thread."""

from tests.decoding_threads import decode_in_threads

SETUP = """
import tempfile
from pathlib import Path
from zmon.hub.incidents.capsule_store import CapsuleStore

folder = CapsuleStore(Path(tempfile.mkdtemp()))
incident = folder.root / "0123456789abcdef-01234567"
incident.mkdir(parents=True)
for name in ("capsule.json", "finding.json"):
    (incident / name).write_text("{}")
"""


def test_first_incidents_can_be_read_by_threads_at_once():
    decode_in_threads(SETUP, "folder.read(incident.name) if number % 2 else folder.summaries()")
