"""The headline of a job, which every screen prints, and the lines about what a screen does not see. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from zmon.format import clock, dated, duration, sentence


@dataclass(frozen=True, slots=True)
class Headline:
    """The condition of a job in one word and one line. Times are unix seconds; the line has no age of its own."""

    word: str  # for example HEALTHY, STALLED, FAILED
    urgency: str  # critical, warning, ok, info (the job has ended) or unknown; a newer hub may have others
    line: str
    finding: str | None = None  # id of the finding that it is about
    as_of: float | None = None  # when the line was written, if the finding has figures that grow
    ended: float | None = None  # when the launch ended that the line is about

    @property
    def is_urgent(self) -> bool:
        """True if somebody should look at the job."""
        return self.urgency in ("critical", "warning")

    def text(self, now: float) -> str:
        """Return the line with its age."""
        if self.ended is not None:
            return f"{self.line} ({duration(now - self.ended)} ago)"
        return dated(self.line, self.as_of, now)


UNKNOWN_STATE = Headline("UNKNOWN", "unknown", "the hub does not know the state of this job")
NO_JOB = Headline("NO JOB", "none", "no training job is known; start one with `zmon run -- CMD` or `zmon demo`")
BLIND = Headline("BLIND", "blind", "zmon does not see everything: the job may be healthy or stalled")


def unseen(
    *, hub_error: str = "", hub_is_blind: bool = False, as_of: float | None = None, prometheus_error: str = ""
) -> tuple[str, ...]:
    """Return a line for each server that a screen lacks: one that does not answer, or a hub that no agent answers.

    `as_of` is the time of the last known state of a blind hub. The lines have no age, so that they do not change while
    somebody reads them."""
    known = "" if as_of is None else f", as of {clock(as_of)}"
    lines = {
        f"{sentence(hub_error)} Until then no culprit is known.": hub_error,
        f"The hub reaches no agent: this is its last known state{known}. Is `zmon agent` running?": hub_is_blind,
        f"{sentence(prometheus_error)} Until then charts and ranks are unknown.": prometheus_error,
    }
    return tuple(line for line, applies in lines.items() if applies)
