"""A fixture: a notice whose text comes from a hostile job."""

import pytest

from zmon.notify.notices import ENDS, Notice


@pytest.fixture
def notice():
    body = "rank 2 exited: <b>bad</b> <!channel> @everyone \x1b[31m\nNext: restart"
    return Notice("end 1", ENDS, "llm-7", {}, "llm-7 failed after 3 h", body, outcome="failed")
