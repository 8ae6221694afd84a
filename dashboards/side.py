"""One side of the page Compare: step time, time categories, throughput and size of a job, over a time range."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dashboards.gpu_time import minute
from dashboards.queries import Prometheus, Sample, quoted

LOOKBACK = "7d"  # jobs are listed if they had series in this time
NUM_STEPS = "(max(increase(zmon_job_step_duration_seconds_count{job_id=$job}[$range])) > 0)"
STEP_SECONDS = f"max(increase(zmon_job_step_duration_seconds_sum{{job_id=$job}}[$range])) / {NUM_STEPS}"
CAUSES = (
    f"max by (cause) (increase(zmon_job_time_seconds_total{{job_id=$job}}[$range])) / on () group_left () {NUM_STEPS}"
)
SAMPLES = "max(avg_over_time(zmon:job_samples:rate{job_id=$job}[$range]))"
EFFICIENCY = "max(avg_over_time(zmon_job_efficiency_ratio{job_id=$job}[$range]))"
# `last_time` is up to a minute after the last sample of a job that ended, when its series are gone.
RANKS = (
    "max by (world_size) (zmon_job_info{job_id=$job})"
    " or on () max by (world_size) (last_over_time(zmon_job_info{job_id=$job}[2m]))"
)
JOBS = f"group by (job_id) (last_over_time(zmon_job_info[{LOOKBACK}]))"
LAST_TIME = f"max(last_over_time(timestamp(zmon_job_info{{job_id=$job}})[{LOOKBACK}:1m]))"
PROMQL_BY_FIGURE = {
    "step": STEP_SECONDS,
    "wall-clock per step": CAUSES,
    "samples/s": SAMPLES,
    "efficiency": EFFICIENCY,
    "ranks": RANKS,
}
QUERIES = (*PROMQL_BY_FIGURE.values(), JOBS, LAST_TIME)


@dataclass(frozen=True)
class Side:
    """The figures of one job over a time range that ends at `until`. None is unknown."""

    job_id: str
    until: int  # unix seconds
    step_seconds: float | None = None
    samples_per_second: float | None = None
    efficiency: float | None = None
    num_ranks: int | None = None
    causes: dict[str, float] = field(default_factory=dict)  # seconds of wall-clock for each step


def side(prometheus: Prometheus, job_id: str, until: int, seconds: int) -> Side:
    """Return the figures of the `seconds` before `until`. Raises Unreachable."""

    def query(promql: str) -> list[Sample]:
        return prometheus.query_at(promql.replace("$job", quoted(job_id)).replace("$range", f"{seconds}s"), until)

    sizes = [sample.labels.get("world_size", "") for sample in query(RANKS)]
    return Side(
        job_id,
        until,
        step_seconds=_first_value(query(STEP_SECONDS)),
        samples_per_second=_first_value(query(SAMPLES)),
        efficiency=_first_value(query(EFFICIENCY)),
        num_ranks=max((int(size) for size in sizes if size.isdigit()), default=None),
        causes={sample.labels["cause"]: sample.value for sample in query(CAUSES)},
    )


def jobs(prometheus: Prometheus, now: float) -> list[str]:
    """Return the IDs of jobs with series in the last 7 days, sorted. Raises Unreachable."""
    return sorted(sample.labels["job_id"] for sample in prometheus.query_at(JOBS, minute(now)))


def last_time(prometheus: Prometheus, job_id: str, until: int) -> int | None:
    """Return the last minute before `until` in which the job had series, or None. Raises Unreachable."""
    samples = prometheus.query_at(LAST_TIME.replace("$job", quoted(job_id)), minute(until + 59))  # rounded up
    last = _first_value(samples)
    return None if last is None else min(until, int(last) + 59)  # LAST_TIME looks only once a minute


def _first_value(samples: Sequence[Sample]) -> float | None:
    return next((sample.value for sample in samples), None)
