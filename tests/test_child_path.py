"""Tests that no name leads out of a folder."""

from pathlib import Path

import pytest

from zmon.child_path import child_path
from zmon.errors import UsageError

FOLDER = Path("/data/accounts")


def test_path_of_a_name_is_in_the_folder():
    assert child_path(FOLDER, "job-1.x", ".json") == FOLDER / "job-1.x.json"
    assert child_path(FOLDER, "job", ".partial", prefix=".") == FOLDER / ".job.partial"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/etc/passwd", "../x", "a/b", "a\0b", "a\nb", "a\x1b", "x" * 300, "/../../../tmp/x"]
)
def test_name_that_leads_elsewhere_is_refused(name):
    with pytest.raises(UsageError, match="cannot be the name of a file"):
        child_path(FOLDER, name)
