"""The scrape intervals of agents and hub, from which windows, pauses and recording intervals follow.

Rules, Grafana dashboards and pages have no other source for them. Pages read the intervals from the rules that
Prometheus has loaded (`glance.py`).
"""

from dataclasses import dataclass
from typing import Literal

from zmon.schema.scraping import LONGEST_SECONDS

WINDOW_SAMPLES = 4  # of a window: a rate is known even if one scrape failed and another came late
CHART_SCRAPES = 5  # of the shortest window of a chart: a rate is still known if two scrapes fail
RATE_POINTS = 2  # rate() needs two points of a series
JOBS_SECONDS = 5  # the shortest interval of recording rules for whole jobs: they are a few dozen for each job
RECORDED_SECONDS = 10  # the shortest interval of recording rules for each rank, host or GPU: these are many

Source = Literal[  # of the series of a chart
    "hub",
    "both",  # agents as well, or what is recorded from agents and hub
    "ranks",  # the recorded counters of ranks, of which a chart draws the rate
]


@dataclass(frozen=True)
class Sampled:
    """Series that get a sample every `seconds`, from scrapes or from a recording rule."""

    seconds: int

    def window(self, shortest: int) -> int:
        """Return the seconds of a range over these series: at least `shortest`, and the time of four samples."""
        return max(shortest, WINDOW_SAMPLES * self.seconds)


@dataclass(frozen=True)
class Intervals:
    """The longest intervals at which Prometheus scrapes agents and hub. Shorter ones work as well."""

    agents_seconds: int
    hub_seconds: int

    def __post_init__(self) -> None:
        """Raise ValueError if no rules can be made for these intervals."""
        for daemon, seconds in (("agents", self.agents_seconds), ("hub", self.hub_seconds)):
            if not 1 <= seconds <= LONGEST_SECONDS:
                raise ValueError(f"the scrape interval of the {daemon} must be 1 s to {LONGEST_SECONDS} s: {seconds} s")

    @property
    def agents(self) -> Sampled:
        """The series of agents."""
        return Sampled(self.agents_seconds)

    @property
    def hub(self) -> Sampled:
        """The series of hubs."""
        return Sampled(self.hub_seconds)

    @property
    def slowest(self) -> Sampled:
        """The series of the daemon that is scraped less often, for alerts that compare agents with the hub."""
        return max(self.agents, self.hub, key=lambda sampled: sampled.seconds)

    @property
    def jobs(self) -> Sampled:
        """The series that are recorded for whole jobs."""
        return Sampled(max(JOBS_SECONDS, self.agents_seconds))

    @property
    def recorded(self) -> Sampled:
        """The series that are recorded for each rank, host or GPU."""
        return Sampled(max(RECORDED_SECONDS, self.agents_seconds))

    @property
    def evaluation_seconds(self) -> int:
        """The interval at which alerts on agents and hub are evaluated."""
        return min(self.agents_seconds, self.hub_seconds)

    def pending(self, sampled: Sampled, shortest: int) -> int:
        """Return the seconds for which an alert is pending: at least `shortest`, and two scrapes and an evaluation.

        A single scrape that fails fires no alert.
        """
        return max(shortest, 2 * sampled.seconds + self.evaluation_seconds)

    def chart_window(self, source: Source) -> int:
        """Return the seconds of the shortest window of a chart over series of this source."""
        match source:
            case "hub":
                return CHART_SCRAPES * self.hub_seconds
            case "both":
                return max(CHART_SCRAPES * self.slowest.seconds, self.recorded.seconds)
            case "ranks":
                return RATE_POINTS * self.recorded.seconds


ONE_MACHINE = Intervals(agents_seconds=2, hub_seconds=2)  # as `zmon up` and `zmon demo` scrape
CLUSTER = Intervals(agents_seconds=15, hub_seconds=2)  # as the Helm chart scrapes: a hub is one page, agents are many
