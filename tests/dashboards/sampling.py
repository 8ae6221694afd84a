"""The interval at which Prometheus gets samples of each series, for given scrape intervals."""

import re
from functools import cache

import yaml

from dashboards.intervals import CLUSTER, ONE_MACHINE, Intervals
from dashboards.rules.render import rendered
from tests.places import REPOSITORY
from zmon import metrics
from zmon.schema.scraping import duration_seconds

# Both sets that are in the repository, those that a site may make, and the shortest and the longest intervals.
SETS = (ONE_MACHINE, CLUSTER, Intervals(30, 30), Intervals(2, 30), Intervals(5, 5), Intervals(1, 1), Intervals(60, 60))
GOLDEN = REPOSITORY / "tests" / "golden"  # pages with every metric
EXPORTED = {
    daemon: set(
        re.findall(r"^# TYPE (\w+) ", (GOLDEN / f"{daemon}_page.txt").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for daemon in ("agent", "hub")
}
HISTOGRAM = [f"{metrics.STEP_HISTOGRAM}{suffix}" for suffix in ("_bucket", "_sum", "_count")]
DAEMONS = {name: {daemon for daemon, names in EXPORTED.items() if name in names} for name in metrics.SPECS} | {
    name: {"hub"} for name in HISTOGRAM
}


def sampling_seconds(intervals: Intervals) -> dict[str, int]:
    """Return the interval by name of the series: of the scrapes of its daemon, or of the group that records it."""
    scraped = {"agent": intervals.agents_seconds, "hub": intervals.hub_seconds}
    seconds = {name: max(scraped[daemon] for daemon in daemons) for name, daemons in DAEMONS.items()}
    seconds["up"] = intervals.agents_seconds  # the rules select only that of agents
    return seconds | {
        rule["record"]: int(duration_seconds(group["interval"]))
        for group in groups(intervals)
        for rule in group["rules"]
        if "record" in rule
    }


@cache
def groups(intervals: Intervals) -> list[dict]:
    """Return all rule groups."""
    documents = (yaml.load(text, Loader=yaml.CSafeLoader) for text in rendered(intervals).values())  # ten times as fast
    return [group for document in documents for group in document["groups"]]


RECORDED = {rule["record"] for group in groups(ONE_MACHINE) for rule in group["rules"] if "record" in rule}
