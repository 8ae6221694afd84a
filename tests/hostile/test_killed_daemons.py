"""SIGKILL of agent and hub at random moments: no counter falls, unless it begins again near 0, as Prometheus expects.

A counter that falls to a part of its value is worse than one that is lost: `increase` adds the whole rest again.
"""

import contextlib
import os
import random
import subprocess
import sys
import time

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(240)]  # tests/hub/test_accounts.py is quick

KILLS = 6
LONGEST_LIFE_SECONDS = 7.0  # the hub writes accounts every 5 s
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
SCRAPE_SECONDS = 0.2
NEAR_ZERO = 0.1  # of the value before, for a counter that is not restored
RESTORED = {  # from the hub's disk, and from the ranks' boxes
    "zmon_job_time_seconds_total", "zmon_job_gpu_seconds_total", "zmon_job_step_duration_seconds_bucket",
    "zmon_job_step_duration_seconds_count", "zmon_job_step_duration_seconds_sum",
    "zmon_steps_total", "zmon_samples_total", "zmon_step_seconds_total", "zmon_phase_seconds_total",
}  # fmt: skip
OF_THE_PROCESS = "zmon_agent_cpu_seconds"  # does not begin near 0: the start takes most of it
RANK = """
import itertools, sys, threading, time
import zmon
from zmon import probe
assert probe.attach_box()
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
print("ready", flush=True)
for number in itertools.count():
    if stop.is_set():
        break
    with zmon.step(number):
        zmon.phase("forward" if number % 7 else "data")
        zmon.work(samples=32)
        time.sleep(0.02 if number % 50 else 0.3)
"""


def counters(url):
    """Return the counters of a page but OF_THE_PROCESS, by name and labels; none while the daemon does not answer."""
    try:
        text = requests.get(f"{url}/metrics", timeout=5).text
    except requests.ConnectionError:
        return {}
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        if family.type in ("counter", "histogram") and family.name != OF_THE_PROCESS
        for sample in family.samples
    }


@pytest.fixture
def rank(tmp_path):
    """A rank that trains until the test ends."""
    env = {**os.environ, "ZMON_BOX_DIR": str(tmp_path / "boxes"), "ZMON_JOB_ID": "job"}
    env |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    (tmp_path / "boxes").mkdir(mode=0o700)
    with subprocess.Popen([sys.executable, "-c", RANK], env=env, **PIPES) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.communicate("", timeout=20)


@contextlib.contextmanager
def daemon(log, *command):
    """Run `zmon` with these arguments, and kill it at the end."""
    program = [sys.executable, "-c", "from zmon.cli.main import main; main()", *command]
    with log.open("ab") as file, subprocess.Popen(program, stdout=file, stderr=file) as process:
        try:
            yield process
        finally:
            process.kill()


class Scraper:
    """A Prometheus that remembers which counters fell."""

    def __init__(self, urls):
        """`urls`: those of the daemons by name."""
        self.urls = urls
        self.last = {}  # the newest value of each counter
        self.falls = []  # counters that fell, with the value before and after
        self.names = set()  # of all counters

    def scrape(self, seconds, *wanted):
        """Scrape for this time, and until these daemons have shown the counters of the job."""
        deadline, missing = time.monotonic() + seconds, set(wanted)
        while missing or time.monotonic() < deadline:
            assert time.monotonic() < deadline + 60, f"{missing} shows no counters"
            for name, url in self.urls.items():
                page = counters(url)
                if any(("job_id", "job") in labels for _, *labels in page):
                    missing.discard(name)
                self._compare(page)
            time.sleep(SCRAPE_SECONDS)

    def _compare(self, page):
        for series, value in page.items():
            name, before = series[0], self.last.get(series, 0.0)
            if value < before and (name in RESTORED or value > NEAR_ZERO * before):
                self.falls.append((series, before, value))
            self.names.add(name)
        self.last.update(page)


def test_counters_of_killed_daemons_do_not_fall(tmp_path, rank):
    ports = {name: free_port() for name in ("agent", "hub")}
    urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    commands = {
        "agent": ("agent", "--port", str(ports["agent"]), "--box-dir", str(tmp_path / "boxes")),
        "hub": ("hub", "--port", str(ports["hub"]), "--agents", urls["agent"], "--data-dir", str(tmp_path / "hub")),
    }
    chance = random.Random(14)
    scraper = Scraper(urls)
    with contextlib.ExitStack() as stack:
        running = {name: stack.enter_context(daemon(tmp_path / f"{name}.log", *commands[name])) for name in commands}
        scraper.scrape(2.0, *commands)
        for number in range(KILLS):
            scraper.scrape(chance.uniform(0.2, LONGEST_LIFE_SECONDS))
            name = ("hub", "agent")[number % 2]
            running[name].kill()
            running[name].wait(20)
            running[name] = stack.enter_context(daemon(tmp_path / f"{name}.log", *commands[name]))
            scraper.scrape(0.0, *commands)
    assert scraper.names >= RESTORED
    assert not scraper.falls, "\n".join(map(str, scraper.falls))
