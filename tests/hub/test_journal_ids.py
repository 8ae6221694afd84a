"""Tests of the ids of findings: each opening has its own, also after older findings were forgotten."""

import pytest

from tests.build import NOW, finding, opened_id
from tests.hub.journals import open_and_resolve, resolve
from zmon.hub import journal as journal_module
from zmon.hub.journal import Journal


def test_id_of_a_finding_that_was_forgotten_is_not_used_again(journal_path, monkeypatch):
    """Its incident is on disk for longer, and links lead to it."""
    monkeypatch.setattr(journal_module, "MAX_RESOLVED", 2)
    ids = set()
    for time in (NOW, NOW - 1000, NOW + 1000):
        journal = Journal(journal_path)
        journal.open_or_update(finding(id="a"), time)
        ids |= {f.id for f in journal.active()}
        resolve(journal, time + 5)
        open_and_resolve(journal, 3, time + 10)
        assert not any(f.id.startswith("a-") for f in Journal(journal_path).all())
    assert len(ids) == 3


@pytest.mark.parametrize("earlier", ["a", "a-2"])
def test_ids_of_another_version_are_read(journal, journal_path, earlier):
    journal.open_or_update(finding(id="a"), NOW)
    journal_path.write_text(journal_path.read_text().replace(opened_id("a"), earlier))
    restarted = Journal(journal_path)
    assert not restarted.open_or_update(finding(id="a"), NOW + 1, separate=True)
    assert [f.id for f in restarted.active()] == [earlier]
    resolve(restarted, NOW + 5)
    assert restarted.open_or_update(finding(id="a"), NOW + 99, separate=True)
    assert [f.id for f in restarted.all()] == [earlier, opened_id("a", NOW + 99)]
