"""Tests that an hour in one Prometheus, and the same hour from two shards in VictoriaMetrics, give the same answers.

Every alert fires at the same times. Every recorded series and every chart has the same series and the same values. The
values of rate, increase and changes differ a little: VictoriaMetrics computes them from the sample before the window
on, and Prometheus extrapolates to the ends of the window. docs/deploy/long-term.md has the differences in figures.

`python -m tests.dashboards.stores.test_same_answers` prints them.
"""

import contextlib
import re
import tempfile
from collections import Counter, defaultdict
from math import isnan
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

import pytest
import requests
import yaml

from dashboards import glance, marks, side
from dashboards.address import Span
from dashboards.intervals import CLUSTER
from dashboards.panels import ALL, Selection
from dashboards.panels.job import LOSS
from dashboards.queries import Prometheus, quoted
from dashboards.rules.render import rendered
from dashboards.views import hosts, time_bar
from tests.dashboards.stores import hour, remote_write
from tests.dashboards.stores.answers import difference, firing, over_time
from tests.dashboards.stores.servers import prometheus, victoria
from zmon.schema.scraping import duration_seconds

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # promtool tests the same rules in every run

BATCH_SECONDS = 300
SAME = 1e-6  # VictoriaMetrics rounds the values of a block to a common exponent, and a difference of two loses digits
START, END = hour.START, hour.START + hour.SECONDS
CHARTS_START = START + 900  # the first charts would only show that nothing was known before
SHARD_OF = {"node-000:9780": "0", "node-001:9780": "0", "node-002:9780": "1"}
RATES = re.compile(r"\b(rate|increase|changes)\(")
SELECTIONS = {
    "few": Selection("ads", window=75, range=900, num_ranks=24, num_hosts=3),
    "rank": Selection("ads", rank=3, host="node-000", window=75, range=900, num_ranks=24, num_hosts=3),
    "many": Selection("ads", window=75, range=900, num_ranks=1000, num_hosts=100),
}
PAGES = {
    "ranks": glance.RANKS, "jobs": glance.JOBS, "agents": glance.AGENTS,
    "heartbeat": f"clamp_max({glance.heartbeat(CLUSTER)}, 1)",
    "intervals": glance.INTERVALS, "activities": marks.ACTIVITIES, "gpus": hosts.GPUS, "processors": hosts.PROCESSORS,
    "host ranks": hosts.RANKS, "hosts": hosts.NAMES, "time bar": time_bar.TIME_PER_STEP,
    **{f"side {number}": promql for number, promql in enumerate(side.QUERIES)},
}  # fmt: skip


class Stores(NamedTuple):
    """The URLs of both."""

    prometheus: str
    victoria: str

    def over_time(self, promql, start, every):
        """Return the answers of both at each step, or evaluation."""
        return tuple(over_time(url, promql, start, END, every) for url in self)


def load(url, shards):
    """Send the hour to a store, and return its numbers of samples by name. With shards, the hub is in both of them."""
    batches = defaultdict(list)
    sent = Counter()
    for labels, samples in (*hour.hour(), *hour.recorded()):
        instance = labels.get("instance")
        names = [""] if not shards or not instance else [SHARD_OF[instance]] if instance in SHARD_OF else ["0", "1"]
        parts = defaultdict(list)
        for time, value in samples:
            parts[int(time - START) // BATCH_SECONDS].append((time, value))
        for number, part in parts.items():
            batches[number] += [({**labels, "shard": name}, part) for name in names]
        sent[labels["__name__"]] += len(names) * sum(not isnan(value) for _, value in samples)  # the last one ends it
    for _, batch in sorted(batches.items()):
        remote_write.send(f"{url}/api/v1/write", batch)
    return sent


def wait_until_shown(url, sent):
    """Wait until queries of VictoriaMetrics show all samples: sometimes, a name has none for a moment after a flush."""
    requests.get(f"{url}/internal/force_flush", timeout=30).raise_for_status()
    deadline = monotonic() + 30
    for name, number in sent.items():
        form = {"query": f"sum(count_over_time({name}[{hour.SECONDS + 1}s]))", "time": END}
        while shown(f"{url}/api/v1/query", form) < number:
            assert monotonic() < deadline, f"not all samples of {name} are shown"
            sleep(0.1)


def shown(url, form):
    """Return the value that an instant query answers with, or zero."""
    answer = requests.post(url, form, timeout=30).json()["data"]["result"]
    return float(answer[0]["value"][1]) if answer else 0


@contextlib.contextmanager
def loaded():
    """Start both stores with the hour."""
    with (
        tempfile.TemporaryDirectory(prefix="zmon-stores-") as folder,
        prometheus(Path(folder) / "prometheus") as (one, _),
        victoria(Path(folder) / "victoria") as other,
    ):
        load(one, shards=False)
        wait_until_shown(other, load(other, shards=True))
        yield Stores(one, other)


@pytest.fixture(scope="module")
def stores():
    with loaded() as both:
        yield both


RULES = [
    (rule, int(duration_seconds(group["interval"])))
    for text in rendered(CLUSTER).values()
    for group in yaml.safe_load(text)["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: (rule, every) for rule, every in RULES if "alert" in rule}
RECORDS = [
    pytest.param(rule["expr"], every, id=f"{rule['record']} {'-'.join(rule.get('labels', {}).values())}".strip())
    for rule, every in RULES
    if "record" in rule and rule["record"] != "zmon:shard_agent:scraped_seconds"  # of each shard
]
CHARTS = [
    pytest.param(panel.query(selection), id=f"{panel.key} {name}")
    for panel in ALL
    for name, selection in SELECTIONS.items()
]
NEVER = {"ZmonShardDown", "ZmonSamplesMissing"}  # in this hour no shard dies (test_shards.py), and no disk is full


@pytest.mark.parametrize("name", ALERTS)
def test_alert_fires_at_the_same_times(stores, name):
    rule, every = ALERTS[name]
    pending = duration_seconds(rule.get("for", "0s"))
    in_prometheus, in_victoria = (
        firing(answer, every, pending) for answer in stores.over_time(rule["expr"], START, every)
    )
    assert bool(in_prometheus) == (name not in NEVER)
    assert len(in_prometheus) == len(in_victoria)
    # The heartbeat of a hub that is back changes at its second scrape, and for VictoriaMetrics at its first one.
    most = every + (2 * hour.HUB_SECONDS if name == "ZmonHubDown" else 0)
    assert [pair for pair in zip(in_prometheus, in_victoria, strict=True) if not pair[0].is_near(pair[1], most)] == []


def assert_same(promql, answers):
    """Assert that both answers have the same series and about the same values."""
    differing = difference(*answers)
    if not RATES.search(promql):
        assert (differing.only_in_one, differing.worst < SAME) == (0, True), differing
    else:
        assert differing.only_in_one <= 0.02 * differing.num_points, differing
        assert differing.median < 0.01, differing
        assert differing.nine_of_ten < 0.06, differing


@pytest.mark.parametrize(("promql", "every"), RECORDS)
def test_recorded_series_has_the_same_values(stores, promql, every):
    assert_same(promql, stores.over_time(promql, START, every))


@pytest.mark.parametrize("promql", CHARTS)
def test_chart_has_the_same_values(stores, promql):
    assert_same(promql, stores.over_time(promql, CHARTS_START, hour.AGENT_SECONDS))


@pytest.mark.parametrize("name", PAGES)
def test_page_has_the_same_values(stores, name):
    promql = PAGES[name].replace("$job", quoted("ads")).replace("$range", "900s").replace("{$host}", "")
    assert_same(promql, stores.over_time(promql, CHARTS_START, 60))


def test_chart_has_no_gaps_if_the_store_keeps_a_cache_of_answers(tmp_path):
    """For this cache, VictoriaMetrics moves the times of long answers to multiples of the step."""
    begin = int(START) // 20 * 20 + 10
    with victoria(tmp_path / "victoria", "-search.latencyOffset=0s") as url:
        samples = [(begin + second, 1.0) for second in range(0, 1260, 10)]
        remote_write.send(f"{url}/api/v1/write", [({"__name__": "zmon_test"}, samples)])
        requests.get(f"{url}/internal/force_flush", timeout=30).raise_for_status()
        table = Prometheus(url).query_range("zmon_test", "{__name__}", Span(begin, begin + 1200, 20)).table
    assert table["value"].tolist() == [1.0] * 61


def test_client_of_the_dashboard_reads_both(stores):
    span = Span(int(CHARTS_START), int(END), hour.AGENT_SECONDS)
    in_prometheus, in_victoria = (
        Prometheus(url).query_range(LOSS.query(SELECTIONS["few"]), LOSS.legend, span).table for url in stores
    )
    assert in_prometheus["series"].tolist() == in_victoria["series"].tolist() != []
    assert in_prometheus["value"].tolist() == pytest.approx(in_victoria["value"].tolist(), rel=SAME)
    at_end = [sorted(map(repr, Prometheus(url).query_at(glance.JOBS, int(END)))) for url in stores]
    assert at_end[0] == at_end[1] != []


def main():
    """Print the differences as a table, the largest first."""
    with loaded() as both:
        queries = [(f"recorded {param.id}", param.values[0], START, param.values[1]) for param in RECORDS]
        queries += [(f"chart {param.id}", param.values[0], CHARTS_START, hour.AGENT_SECONDS) for param in CHARTS]
        rows = [(name, difference(*both.over_time(*query))) for name, *query in queries]
    same = [name for name, gap in rows if gap.worst < SAME and not gap.only_in_one]
    print(f"{len(same)} of {len(rows)} queries have the same answers")
    for name, gap in sorted(rows, key=lambda row: -row[1].median):
        if name not in same:
            print(
                f"{name:50} {gap.num_points:6} points, {gap.only_in_one:3} in one only; median {gap.median:.2%}, "
                f"nine of ten {gap.nine_of_ten:.2%}, worst {gap.worst:.0%}"
            )


if __name__ == "__main__":
    main()
