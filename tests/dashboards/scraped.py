"""Rules in promtool, with series as Prometheus scrapes them: a sample at each scrape, and none in between."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dashboards.intervals import Intervals
from dashboards.rules.render import rendered
from tests.dashboards.promtool import complaints_about_answers

AGENTS = ("node-1", "node-2")


def always(now: int) -> bool:
    """Return True: a daemon that always answers."""
    return True


@dataclass(frozen=True)
class Scraping:
    """Two agents and a hub that watch a job with a rank on each node, scraped at these intervals.

    All is well unless a test changes it: the functions of the time in seconds tell when the daemons answer, and by how
    much all ranks exceed their leases. The first scrapes come late, as after a start of Prometheus.
    """

    intervals: Intervals
    until: int  # seconds
    agent: Callable[[int], bool] = always
    last_agent: Callable[[int], bool] = always  # the second agent answers only if `agent` is true as well
    hub: Callable[[int], bool] = always
    overdue: Callable[[int], float] = lambda now: 0.0

    def series(self) -> dict[str, str]:
        """Return all series in promtool's notation, with a value or `_` for each second."""
        series: dict[str, str] = {}
        seconds = self.intervals.agents_seconds
        for rank, host in enumerate(AGENTS):
            target = f'job="zmon-agent", instance="{host}:9780"'
            series[f"up{{{target}}}"] = self._scraped(seconds, lambda now, host=host: float(self._answers(host, now)))
            for name, value in self._agent_page(f'{target}, host="{host}"', f'job_id="ads", rank="{rank}"').items():
                series[name] = self._scraped(
                    seconds, lambda now, host=host, value=value: value(now) if self._answers(host, now) else None
                )
        for name, value in self._hub_page('job="zmon-hub", instance="hub:9781"').items():
            series[name] = self._scraped(
                self.intervals.hub_seconds, lambda now, value=value: value(now) if self.hub(now) else None
            )
        return series

    def _answers(self, host: str, now: int) -> bool:
        return self.agent(now) and (host != AGENTS[-1] or self.last_agent(now))

    def _agent_page(self, host: str, rank: str) -> dict[str, Callable[[int], float]]:
        rank = f"{host}, {rank}"
        return {
            f"zmon_config_reload_success{{{host}}}": lambda now: 1.0,
            f'zmon_boxes_unread{{{host}, kind="version"}}': lambda now: 0.0,
            f'zmon_host_cpu_seconds_total{{{host}, mode="user"}}': lambda now: 0.5 * now,
            f'zmon_host_cpu_seconds_total{{{host}, mode="idle"}}': lambda now: 0.5 * now,
            f"zmon_rank_info{{{rank}}}": lambda now: 1.0,
            f"zmon_lease_overdue_seconds{{{rank}}}": self.overdue,
            f"zmon_samples_total{{{rank}}}": lambda now: 64.0 * now,
            f"zmon_steps_total{{{rank}}}": lambda now: 2.0 * now,
            f"zmon_step_seconds_total{{{rank}}}": lambda now: 1.0 * now,
            f'zmon_phase_seconds_total{{{rank}, phase="forward"}}': lambda now: 0.75 * now,
            f'zmon_collective_exposed_seconds_total{{{rank}, op="all_to_all"}}': lambda now: 0.25 * now,
            f"zmon_collective_inflight_seconds{{{rank}}}": lambda now: 0.0,
        }

    @staticmethod
    def _hub_page(hub: str) -> dict[str, Callable[[int], float]]:
        return {
            f"zmon_hub_last_pass_timestamp_seconds{{{hub}}}": lambda now: 1000.0 + now,
            f'zmon_hub_coverage_ratio{{{hub}, job_id="ads"}}': lambda now: 1.0,
            f'zmon_job_time_seconds_total{{{hub}, job_id="ads", cause="forward"}}': lambda now: 1.0 * now,
        }

    def _scraped(self, seconds: int, value: Callable[[int], float | None]) -> str:
        values = (value(now) if now % seconds == seconds - 1 else "_" for now in range(self.until + 1))
        return " ".join("stale" if sample is None else str(sample) for sample in values)


def complaints_about_rules(
    folder: Path,
    scraping: Scraping,
    files: Sequence[str],
    evaluation_seconds: int,
    expected: Mapping[tuple[str, int], Mapping[str, float]],
) -> str:
    """Evaluate rule files at this interval, as promtool has one for all groups, and return what it complains about.

    `expected` has the value of each series, for each query and the time at which it is asked. The text is empty if all
    answers are as expected.
    """
    for name, text in rendered(scraping.intervals).items():
        (folder / name).write_text(text)
    every = f"{evaluation_seconds}s"
    series = scraping.series()
    return complaints_about_answers(folder, series, expected, "1s", rule_files=[*files], evaluation_interval=every)
