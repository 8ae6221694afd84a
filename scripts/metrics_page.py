"""The page of all metrics and measures, from `zmon/metrics/names.py` and `zmon/schema/measures.py`."""

from collections.abc import Iterator

from zmon.metrics import SPECS, STEP_HISTOGRAM, STEP_SECONDS_BOUNDS
from zmon.schema.measures import MEASURES

HEAD = """\
# Metrics

This page lists every metric on `/metrics` of agents and hubs. All values are in base units. An unknown value has no
series; it is never 0. The agent exports the ranks of the newest attempt of a job, until 30 s after its end. The hub
exports jobs and findings. `make generate` makes this page from `zmon/metrics/names.py` and `zmon/schema/measures.py`.
"""
HISTOGRAM = f"""
## Duration of steps, from hubs

The histogram `{STEP_HISTOGRAM}` counts the steps of each job (label `job_id`) by their duration.
The upper bounds of its buckets are 1 ms × 2^k, k = 0 … {len(STEP_SECONDS_BOUNDS) - 1}.
"""
MEASURES_TABLE = """
## Measures

This table has the values that are counted in a step of a rank. The step log, and `totals` in a snapshot, have the same
columns; {} is a phase or an op. The value in a step is one of these:

- *difference*: the difference of the totals at the two ends of the step
- *last*: the total at the end of the step
- *own*: a number that the job or the probe gives for this step; without it, the value is unknown

| measure | unit | column | in a step | metric |
|---|---|---|---|---|
"""
SUBJECTS = {  # the headings of the tables, each by its first metric in the order of SPECS
    "zmon_rank_info": "Ranks, from agents",
    "zmon_nic_receive_bytes_total": "Links, from agents",
    "zmon_gpu_info": "GPUs, from agents",
    "zmon_host_cpu_seconds_total": "Hosts, from agents",
    "zmon_cgroup_memory_used_bytes": "Control groups, from agents",
    "zmon_held_gpus": "GPUs that are held, from agents",
    "zmon_tcp_retransmitted_segments_total": "TCP and storage, from agents",
    "zmon_source_up": "The agent and its sources",
    "zmon_jobs_left_out": "Each daemon",
    "zmon_job_info": "Jobs, from hubs",
    "zmon_finding": "Findings and the hub",
}


def metrics_page() -> str:
    """Return the page of all metrics with type, labels and help text."""
    return "".join([HEAD, *_metrics(), HISTOGRAM, MEASURES_TABLE, *_measures()])


def _metrics() -> Iterator[str]:
    """Yield the tables of metrics, one for each subject."""
    for name, spec in SPECS.items():
        if name in SUBJECTS:
            yield f"\n## {SUBJECTS[name]}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n"
        yield f"| `{name}` | {spec.kind} | {', '.join(f'`{label}`' for label in spec.labels)} | {spec.help} |\n"


def _measures() -> Iterator[str]:
    """Yield the rows of the table of measures."""
    for measure in MEASURES:
        column, metric = (f"`{name}`" if name else "" for name in (measure.column, measure.metric))
        yield f"| {measure.name} | {measure.unit or 'count'} | {column} | {measure.of_step} | {metric} |\n"
