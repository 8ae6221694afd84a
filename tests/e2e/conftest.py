"""Run one stack for all end-to-end tests: real Prometheus, Alertmanager, agent, hub, dashboard, and a webhook.

One job trains on it during all tests. A test that stops one of its ranks must continue that rank. A test that needs a
job to start or to end starts a job of its own. The time categories of ended jobs are checked after each module.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from lab.stage.webhook import Webhook
from tests.e2e.browser import CHROMIUM, FLAGS, open_tab
from tests.e2e.endings import EndingJobs
from tests.e2e.running_stack import (
    HOST,
    Job,
    Jobs,
    Lifetime,
    RunningStack,
    assert_categories_sum_to_lifetime,
    shorten_intervals,
    wait_for,
)
from tests.places import REPOSITORY
from zmon.offline import measured_files
from zmon.scaling.peaks import DevicePeaks, processors_name

FOLDER = Path(__file__).parent
PAUSE_SECONDS = 0.1  # pause in each step of a job that tests only watch
TRAINER = ("-m", "trainer", "--preset", "demo")
TRAINER_WITH_PAUSES = (str(FOLDER / "trainer_with_pauses.py"), str(PAUSE_SECONDS), "--preset", "demo")
# Rates that no machine of tests has, so that the ratios are below 1.
PEAK_FLOPS, MEMORY_BANDWIDTH = 1e13, 1e12


@pytest.fixture(scope="package")
def webhook() -> Iterator[Webhook]:
    """A receiver for Alertmanager."""
    with contextlib.closing(Webhook()) as webhook:
        yield webhook


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory, webhook: Webhook) -> Iterator[RunningStack]:
    """A running `zmon up`, with short intervals for Prometheus and Alertmanager."""
    directory = tmp_path_factory.mktemp("stack")
    env = {
        **os.environ,
        "ZMON_DATA_DIR": str(directory / "data"),
        "ZMON_BOX_DIR": str(directory / "boxes"),
        "ZMON_HOST": HOST,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(REPOSITORY),
        "ZMON_PEAKS": str(write_peaks(directory / "peaks.yaml")),
    }
    command = [sys.executable, "-m", "zmon", "up", "--ready-file", str(directory / "ready.json")]
    command += ["--webhook", webhook.url]
    with (directory / "up.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        is_ready = (directory / "ready.json").exists
        wait_for(f"the stack is up, see {directory}/up.log", lambda: is_ready() or process.poll() is not None, 90)
        assert process.poll() is None, (directory / "up.log").read_text()
        running = RunningStack(json.loads((directory / "ready.json").read_text()), env, webhook)
        shorten_intervals(running, directory)
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10)


def write_peaks(path: Path) -> Path:
    """Write the peaks of this machine's processors, as a site would give them to its hub."""
    device = processors_name(Path("/proc/cpuinfo").read_text())
    measured_files.write_peaks(path, {device: DevicePeaks({"float32": PEAK_FLOPS}, MEMORY_BANDWIDTH, "made up")})
    return path


@pytest.fixture(scope="module")
def lifetimes(stack: RunningStack) -> Iterator[list[Lifetime]]:
    """The lifetimes of all jobs that end in a module; their time categories are checked after the last test."""
    lifetimes: list[Lifetime] = []
    yield lifetimes
    for lifetime in lifetimes:
        assert_categories_sum_to_lifetime(stack, lifetime)


@pytest.fixture
def start_job(
    stack: RunningStack, lifetimes: list[Lifetime], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Job]]:
    """Return a function that starts the bundled trainer or a script under torchrun; the jobs end after the test."""
    jobs = Jobs(stack, tmp_path, lifetimes)
    name = request.node.name.replace("[", "-").replace("]", "")[:50]

    def start(*arguments: str, ranks: int = 4, launcher: tuple[str, ...] = ()) -> Job:
        return jobs.start(f"{name}-{len(jobs.started)}", arguments or TRAINER, ranks, launcher)

    yield start
    jobs.end()


@pytest.fixture
def jobs(stack: RunningStack, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EndingJobs]:
    """The jobs of a test that end by a fault or by their owner; none of them outlives it."""
    name = request.node.name.removeprefix("test_").replace("[", "-").replace("]", "")
    jobs = EndingJobs(stack, tmp_path, name[-50:].strip("_-"))
    yield jobs
    jobs.end()


@pytest.fixture(scope="package")
def recovering_jobs(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """The jobs that recover: one shared job, or a new one after a failed test has ended it."""
    lifetimes: list[Lifetime] = []
    jobs = Jobs(stack, tmp_path_factory.mktemp("recovering"), lifetimes)
    yield jobs
    jobs.end()
    for lifetime in lifetimes:
        assert_categories_sum_to_lifetime(stack, lifetime)


def await_healthy_job(stack: RunningStack, jobs: Jobs) -> Job:
    """Wait until the shared job has done its first steps and has no open finding; return the job."""
    if not jobs.started or jobs.started[-1].process.poll() is not None:
        stack.await_steps(jobs.start(f"recovering-{len(jobs.started)}", TRAINER_WITH_PAUSES, 4))
    job = jobs.started[-1]
    wait_for(f"no finding about {job.job_id} is open", lambda: not stack.findings(job.job_id), 30)
    return job


@pytest.fixture
def training(stack: RunningStack, recovering_jobs: Jobs) -> Job:
    """The shared job, healthy. A test must continue each rank that it stops."""
    return await_healthy_job(stack, recovering_jobs)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab on a laptop."""
    with open_tab(browser) as tab:
        yield tab
