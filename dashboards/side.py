"""What a job was like over some time: a step's length and where that went. One of the two sides of a comparison."""

from collections.abc import Callable
from dataclasses import dataclass, field

from dashboards.queries import Prometheus, quoted

LONG_AGO = "7d"  # how far back a job is looked for
STEP = "(max(increase(zmon_job_step_duration_seconds_count{job_id=$job}[$range])) > 0)"
STEP_SECONDS = f"max(increase(zmon_job_step_duration_seconds_sum{{job_id=$job}}[$range])) / {STEP}"
CAUSES = f"max by (cause) (increase(zmon_job_time_seconds_total{{job_id=$job}}[$range])) / on () group_left () {STEP}"
SAMPLES = "max(avg_over_time(zmon:job_samples:rate{job_id=$job}[$range]))"
EFFICIENCY = "max(avg_over_time(zmon_job_efficiency_ratio{job_id=$job}[$range]))"
RANKS = "max by (world_size) (zmon_job_info{job_id=$job})"
JOBS = f"group by (job_id) (last_over_time(zmon_job_info[{LONG_AGO}]))"
LAST_SEEN = f"max(last_over_time(timestamp(zmon_job_info{{job_id=$job}})[{LONG_AGO}:1m]))"
ASKED = {"step": STEP_SECONDS, "of the clock": CAUSES, "samples/s": SAMPLES, "efficiency": EFFICIENCY, "ranks": RANKS}
QUESTIONS = (*ASKED.values(), JOBS, LAST_SEEN)


@dataclass(frozen=True)
class Side:
    """None is unknown."""

    job_id: str
    until: int  # unix seconds
    step_seconds: float | None = None
    samples_per_second: float | None = None
    efficiency: float | None = None
    ranks: int | None = None
    causes: dict[str, float] = field(default_factory=dict)  # seconds of wall-clock for each step


def side(prometheus: Prometheus, job_id: str, until: int, seconds: int) -> Side:
    """Of the time before `until`. Raises Unreachable."""
    ask = _asker(job_id, until, seconds)
    sizes = [sample.labels.get("world_size", "") for sample in prometheus.then(*ask(RANKS))]
    return Side(
        job_id,
        until,
        step_seconds=_first(prometheus, ask(STEP_SECONDS)),
        samples_per_second=_first(prometheus, ask(SAMPLES)),
        efficiency=_first(prometheus, ask(EFFICIENCY)),
        ranks=max((int(size) for size in sizes if size.isdigit()), default=None),
        causes={sample.labels["cause"]: sample.value for sample in prometheus.then(*ask(CAUSES))},
    )


def jobs(prometheus: Prometheus, now: float) -> list[str]:
    """All that were seen in the days before. Raises Unreachable."""
    return sorted(sample.labels["job_id"] for sample in prometheus.then(JOBS, _minute(now)))


def last_seen(prometheus: Prometheus, job_id: str, until: int) -> int | None:
    """When a job was there last before that, to the minute. Raises Unreachable."""
    found = _first(prometheus, (LAST_SEEN.replace("$job", quoted(job_id)), _minute(until + 59)))
    return None if found is None else min(until, int(found) + 59)


def _minute(moment: float) -> int:
    """Questions that look back for days are asked once a minute."""
    return int(moment) // 60 * 60


def _asker(job_id: str, until: int, seconds: int) -> Callable[[str], tuple[str, int]]:
    return lambda promql: (promql.replace("$job", quoted(job_id)).replace("$range", f"{seconds}s"), until)


def _first(prometheus: Prometheus, asked: tuple[str, int]) -> float | None:
    return next((sample.value for sample in prometheus.then(*asked)), None)
