"""The load time of each view of the dashboard, for a job with a thousand ranks.

    python -m bench.dashboard [--ranks N] [--store NAME] [--viewers N] [--rounds N]

The store is a real Prometheus, or with `--store victoriametrics` a real VictoriaMetrics, with hours of synthetic
history. The hub is simulated, the dashboard is started as users do, and the browser is a real Chromium. Times end when
the whole view is drawn. "first" means that the dashboard's cache has no answer for the time range, so the store reads
all of it. "again" means that the cache has the answer. On a shared machine, trust the ratios within a run more than the
milliseconds.

At full size it takes 3 to 4 minutes to generate the history, and 9 minutes for four rounds. A job with more than 2,048
ranks, such as `--ranks 16384`, has the scrape intervals of a cluster, and mostly recorded series.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from pathlib import Path

from bench.dashboard import browser, history, queries, report, rounds, serving
from bench.dashboard.scene import Scene
from bench.dashboard.sharing import measure_crowds
from bench.rows import load_line, parser_of

_HOURS = 6  # of history; the views have a time range of this length
_AHEAD_SECONDS = 7200  # the history continues this long after now, so that there is data while the benchmark runs
_CROWD_DIVISOR = 4  # with a crowd, only a fourth of the rounds is measured: they are slow if the server is overloaded


def main() -> None:
    """Generate the history, start all servers, measure and print the tables."""
    parser = parser_of(__doc__)
    parser.add_argument("--ranks", type=int, default=1024, help="ranks of the job (1024)")
    parser.add_argument("--store", default=history.PROMETHEUS, choices=history.STORES, help="what keeps the history")
    parser.add_argument("--viewers", type=int, default=20, help="viewers of the crowd (20)")
    parser.add_argument("--rounds", type=int, default=10, help="measurements of each view (10)")
    arguments = parser.parse_args()
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)  # a run takes long, so each table is printed at once
    with tempfile.TemporaryDirectory(prefix="zmon-bench-") as name:
        folder = Path(name)
        scene = Scene(arguments.ranks, _HOURS, int(time.time()), _AHEAD_SECONDS)
        print(f"generating {scene.hours:g} h of {scene.num_ranks:,} ranks on {len(scene.hosts)} hosts")
        report.history(history.generate(arguments.store, scene, folder, print))
        with (
            serving.store(arguments.store, scene, folder) as prometheus,
            serving.hub(scene) as hub,
            serving.dashboard(hub.url, prometheus.url) as dashboard,
        ):
            measure(scene, folder, prometheus, dashboard, arguments.viewers, arguments.rounds)
    print(load_line())


def measure(
    scene: Scene, folder: Path, prometheus: serving.Server, dashboard: serving.Server, viewers: int, num_rounds: int
) -> None:
    """Measure and print: an empty page, the queries, the pages of the server, the views in a browser, and a crowd."""
    range_ = f"{scene.hours:g}h"
    views = rounds.views(range_, scene.culprit)
    moments = rounds.Moments(range_)
    floor = _floor(folder, num_rounds)
    report.empty(floor)
    costs = {
        view: list(queries.measure(prometheus.url, view_queries))
        for view, view_queries in queries.by_view(scene, range_, time.time()).items()
    }
    report.queries(costs)
    served = rounds.load_without_browser(dashboard, prometheus, views, num_rounds, moments)
    with browser.viewer(dashboard.url) as viewer:
        for view in (*views, *rounds.before_clicks(views)):
            viewer.learn(view)
        alone = {
            **rounds.loads(viewer, views, num_rounds, moments),
            **rounds.clicks(viewer, views, num_rounds, moments),
        }
        report.views("one viewer", alone, floor)
        report.parts(served, alone)
        report.crowds(measure_crowds(prometheus, dashboard, views, viewers))
        with rounds.crowd(dashboard.url, views, viewers):
            with_crowd = rounds.clicks(viewer, views, max(1, num_rounds // _CROWD_DIVISOR), moments)
            report.views(f"with {viewers} more viewers", with_crowd, floor)
        report.unknown(viewer.unknown)


def _floor(folder: Path, num_rounds: int) -> rounds.Times:
    """Return the times of an empty page of Streamlit, below which no view can be."""
    empty = browser.View("an empty page", "")
    with serving.empty_page(folder) as server, browser.viewer(server.url) as viewer:
        viewer.learn(empty)
        times: rounds.Times = {kind: {empty.name: []} for kind in (rounds.FIRST, rounds.AGAIN)}
        for _ in range(num_rounds):
            with viewer.tab() as page:
                for kind in times:
                    times[kind][empty.name].append(viewer.visit(page, empty))
        return times


if __name__ == "__main__":
    main()
