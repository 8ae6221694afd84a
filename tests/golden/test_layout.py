"""Test that compares the layout of a box with its golden: a change needs the next version in zmon/box/versions.py.

A box stores the number of a word and has a place for each measure, so readers of another layout must refuse it.
"""

from __future__ import annotations

import json

from tests.golden.compare import GOLDEN, check
from zmon.box import layout
from zmon.box.versions import CURRENT
from zmon.schema.measures import WORDS


def test_layout_is_that_of_its_version():
    now = {
        "version": CURRENT.version,
        "file_size": CURRENT.file_size,
        "words": {per: list(words) for per, words in WORDS.items() if per},
        "measures": {name: [slots.start, slots.stop] for name, slots in layout.SLOTS.items()},
        "of_the_step": [layout.STEP_AMOUNTS.start, layout.STEP_AMOUNTS.stop],
    }
    golden = json.loads((GOLDEN / "layout.json").read_text())
    assert now == golden or now["version"] != golden["version"], "another layout needs another version: raise it"
    check("layout", now)
