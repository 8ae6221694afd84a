"""Tests of docs/deploy/long-term.md with real processes: two shards, a router, three stores and vmalert.

Samples of each agent come from one shard. A finding pages from the shards as it does from one Prometheus. A killed
shard pages. The order of the tests matters: the last one kills a shard.
"""

import contextlib
import time
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

import pytest

from tests.dashboards.stores import remote_write
from tests.dashboards.stores.cluster import (
    STORES,
    Pages,
    firing,
    query,
    rule_files,
    scrape_configs,
    shard_config,
    stores,
    vmalert,
)
from tests.dashboards.stores.servers import prometheus

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

QUIET = {"ZmonWatchdog"}


class Cluster(NamedTuple):
    """The servers, with their URLs."""

    pages: Pages
    stores: dict[str, str]
    shards: list[tuple[str, Popen]]  # URL and process of each
    one: str  # a Prometheus that scrapes everything, with all rules
    vmalert: str

    def firing(self):
        """Return the alerts that Alertmanager would get: those of the shards that live, and of vmalert."""
        living = [url for url, process in self.shards if process.poll() is None]
        return set().union(*(firing(url) for url in (*living, self.vmalert)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("cluster")
    pages = Pages()
    with contextlib.ExitStack() as running:
        running.callback(pages.close)
        urls = running.enter_context(stores(folder / "stores"))
        rules = rule_files(folder / "rules", is_sharded=True)
        shards = [
            running.enter_context(
                prometheus(folder / f"shard{n}", shard_config(pages, n, urls["router"], rules["shard.yaml"]))
            )
            for n in (0, 1)
        ]
        alone = {
            "global": {"evaluation_interval": "1s"},
            "scrape_configs": scrape_configs(pages),
            "rule_files": [str(file) for file in rule_files(folder / "rules of one", is_sharded=False).values()],
        }
        del alone["scrape_configs"][0]["relabel_configs"]
        one, _ = running.enter_context(prometheus(folder / "one", alone))
        alerts = running.enter_context(vmalert(folder / "vmalert", urls, rules))
        cluster = Cluster(pages, urls, shards, one, alerts)
        wait_until(lambda: recorded_ranks(one) == recorded_ranks(urls["day"]) == 4)
        yield cluster


def wait_until(condition, seconds=60.0, show=lambda: ""):
    """Wait until the condition is true, and fail with what `show` returns if it never is."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it never became true: {show()}"
        time.sleep(0.2)


def recorded_ranks(url):
    """Return the number of ranks with a recorded series."""
    return query(url, "count(zmon:rank_self_seconds:total)").get((), 0)


def test_each_agent_is_scraped_by_one_shard(cluster):
    by_instance = query(cluster.stores["day"], "count by (instance) (up)")
    expected = {agent.address: 1 for agent in cluster.pages.agents} | {cluster.pages.hub.address: 2}
    assert {dict(labels)["instance"]: number for labels, number in by_instance.items()} == expected


def test_stores_have_what_they_keep(cluster):
    names = {
        store: {dict(labels)["__name__"] for labels in query(url, 'count by (__name__) ({__name__=~"zmon.+"})')}
        for store, url in cluster.stores.items()
        if store in STORES
    }
    raw = {"zmon_phase_seconds_total", "zmon_rank_info", "zmon_build_info"}
    month_series = {
        "zmon:rank_self_seconds:total",
        "zmon:job_step_seconds:median",
        "zmon_job_info",
        "zmon_hub_coverage_ratio",
    }
    assert raw | month_series < names["day"]
    assert month_series < names["month"]
    assert not raw & names["month"]
    assert names["year"] <= {name for name in names["month"] if name.startswith("zmon:job_")}


def test_router_gives_each_store_what_it_keeps(cluster):
    names = "zmon_steps_total", "zmon:job_samples:rate", "zmon_job_info", "zmon:job_time_seconds:total"
    now = time.time()
    series = [({"__name__": name, "job_id": "routed"}, [(now, 1.0)]) for name in names]
    remote_write.send(f"{cluster.stores['router']}/api/v1/write", series)
    expected = {"day": set(names), "month": set(names[1:]), "year": {names[3]}}

    def stored(url):
        by_name = query(url, 'count by (__name__) (last_over_time({job_id="routed"}[5m]))')
        return {dict(labels)["__name__"] for labels in by_name}

    wait_until(lambda: {store: stored(cluster.stores[store]) for store in STORES} == expected)


def test_recorded_series_have_the_same_labels_as_in_one_prometheus(cluster):
    promql = 'count by (__name__, job_id, rank, host) ({job_id="job", __name__=~"zmon:(rank|job)_.+"})'

    def differing():
        return query(cluster.one, promql).keys() ^ query(cluster.stores["day"], promql).keys()

    wait_until(lambda: not differing(), show=differing)


def test_all_is_quiet(cluster):
    wait_until(lambda: firing(cluster.one) == cluster.firing() == QUIET)


def test_finding_pages_from_the_shards_as_from_one_prometheus(cluster):
    cluster.pages.stalled = True
    wait_until(lambda: all(firing(url) == {"ZmonStall"} for url, _ in cluster.shards))
    wait_until(lambda: firing(cluster.one) == cluster.firing() == QUIET | {"ZmonStall"})
    cluster.pages.stalled = False
    wait_until(lambda: firing(cluster.one) == cluster.firing() == QUIET)


def test_findings_page_without_a_killed_shard(cluster):
    cluster.shards[1][1].kill()
    cluster.shards[1][1].wait(20)
    wait_until(lambda: cluster.firing() == QUIET | {"ZmonShardDown"})
    cluster.pages.stalled = True
    wait_until(lambda: cluster.firing() == QUIET | {"ZmonShardDown", "ZmonStall"})
    assert query(cluster.stores["day"], "count by (shard) (zmon:shard_agent:scraped_seconds)")[("shard", "0"),] == 2
