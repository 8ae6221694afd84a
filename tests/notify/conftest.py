"""A fixture: a notice whose text comes from a hostile job."""

import pytest

from zmon.notify.notices import ENDS, Notice


@pytest.fixture
def notice():
    """The notice that a job failed, whose last words have markup, mentions of people and an escape sequence."""
    return Notice(
        id="end 1",
        kind=ENDS,
        job_id="llm-7",
        labels={},
        title="llm-7 failed after 3 h",
        body="rank 2 exited: <b>bad</b> <!channel> @everyone \x1b[31m\nNext: restart",
        outcome="failed",
    )
