"""How soon each view of the dashboard is there, of a job with a thousand ranks: `python -m bench.dashboard`.

    python -m bench.dashboard [--ranks N] [--hours N] [--viewers N] [--rounds N] [--keep DIR]

A real Prometheus over hours of history that were made up, a hub that is played, the dashboard as people start it, and
a real Chromium. Times are until all of a view is drawn. "first": nobody asked for that time range before, so that
Prometheus reads all of it; "again": somebody did, and viewers share answers. On a machine that others use as well the
ratios within a run say more than the milliseconds. At full size the history took 3 to 4 minutes to make up, and four
rounds 9.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.dashboard import blocks, browser, questions, report, rounds, serving
from bench.dashboard.scene import Scene
from bench.dashboard.sharing import shared
from dashboards.address import RANGES

AHEAD_SECONDS = 7200  # of history that is to come: what is now must have some for as long as this runs
CROWD_PART = 4  # rounds beside a crowd are one in so many: each takes long where it is not served in time


def main() -> None:
    """Make the history, start everything, look, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--hours", type=int, default=6, choices=[int(name[:-1]) for name in RANGES if name[-1] == "h"])
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="where the history lies, and is found by the next run")
    told = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # it takes long: a table is read as soon as it is there
    with _folder(told.keep) as folder:
        made = _history(Scene(told.ranks, told.hours, int(time.time()), AHEAD_SECONDS), folder)
        with (
            serving.prometheus(folder) as prometheus,
            serving.hub(made.scene) as hub,
            serving.dashboard(hub.url, prometheus.url) as dashboard,
        ):
            measure(made.scene, folder, prometheus, dashboard, told.viewers, told.rounds)
    print(f"(load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end)")


def measure(
    scene: Scene, folder: Path, prometheus: serving.Server, dashboard: serving.Server, viewers: int, num_rounds: int
) -> None:
    """From what is asked first to what a person sees."""
    range_ = f"{scene.hours:g}h"
    views, moments = rounds.views(range_, scene.culprit), rounds.Moments(range_)
    floor = _floor(folder, num_rounds)
    report.empty(floor)
    asked = {
        view: list(questions.ask(prometheus.url, those))
        for view, those in questions.of_views(scene, range_, time.time()).items()
    }
    report.asked(asked)
    served = rounds.served(dashboard, prometheus, views, num_rounds, moments)
    with browser.eye(dashboard.url) as eye:
        for view in (*views, *rounds.neutrals(views)):
            eye.learn(view)
        alone = {**rounds.loads(eye, views, num_rounds, moments), **rounds.clicks(eye, views, num_rounds, moments)}
        report.seen("one viewer", alone, floor)
        report.parts(served, alone)
        report.shared(shared(prometheus, dashboard, views, viewers))
        with rounds.crowd(dashboard.url, views, viewers):
            beside = rounds.clicks(eye, views, max(1, num_rounds // CROWD_PART), moments)
            report.seen(f"with {viewers} more viewers", beside, floor)
        report.unknown(eye.unknown)


def _history(scene: Scene, folder: Path) -> blocks.Made:
    made = blocks.kept(folder, scene, time.time())
    if made is None:
        print(f"making {scene.hours:g} h of {scene.num_ranks:,} ranks on {len(scene.hosts)} hosts up")
        made = blocks.make(scene, folder, print)
    report.history(made)
    return made


def _floor(folder: Path, num_rounds: int) -> rounds.Times:
    nothing = browser.View("an empty page", "")
    with serving.empty_page(folder) as server, browser.eye(server.url) as eye:
        eye.learn(nothing)
        times = {kind: {nothing.name: []} for kind in (rounds.FIRST, rounds.AGAIN)}
        for _ in range(num_rounds):
            with eye.tab() as page:
                for kind in times:
                    times[kind][nothing.name].append(eye.visit(page, nothing))
        return times


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="zmon-bench-") as folder:
        yield Path(folder)


if __name__ == "__main__":
    main()
