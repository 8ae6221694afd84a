"""The results of plays, of drills and of random compositions. For users they are verdicts: see docs/drills.md. Pure."""

from __future__ import annotations

from typing import Literal

Result = Literal[
    "right",  # the cause is true, and so is the culprit if the fault has one
    "late",  # the same, but later than the target
    "quiet",  # nothing critical was published about something harmless, or about an end that looks like the owner's
    "restarted",  # the launcher started the job again before there was a finding
    "no effect",  # the fault changed nothing, so no finding was due
    "unknown",  # no finding has a true cause and names somebody, and none is wrong
    "wrong cause",  # no innocent was named, and the cause is not true
    "wrong",  # of a drill: the cause or the culprit is not the expected one
    "missed",  # the job goes on, and no finding is about the fault
    "false warning",  # a warning about something harmless
    "unpaged",  # the job stands still, and the findings about it are no more than warnings, or no page came
    "wrong act",  # zmon acted although nobody was to blame, or on a rank that was not to blame
    "wrong name",  # a finding named an innocent rank or host, at any time
    "silent",  # the job stands still, and no finding says so
    "false page",  # a page or a critical finding about something that is harmless or that the launcher repaired
    "broken",  # the play itself failed, which says nothing about zmon
    "skipped",  # it could not be played, which says nothing about zmon
]
NEVER: tuple[Result, ...] = ("wrong act", "wrong name", "silent", "false page")  # must not happen in any play
