"""The charts of a job: one question each, one line to register, and the PromQL that a reader can paste and check.

In the PromQL `$job` stands for the quoted job_id and `$window` for a rate window; `legend` makes a series' name of its
labels. The page computes nothing between Prometheus and the chart.
"""

from dataclasses import dataclass
from typing import Literal

from dashboards.queries import quoted

MANY_RANKS = 12  # as many lines as a reader can still tell apart


@dataclass(frozen=True)
class Panel:
    """One chart. One that `grows` with the job shows largest, median and smallest once there are many ranks."""

    key: str
    question: str
    unit: Literal["seconds", "bytes", "bytes/s", ""]
    legend: str
    promql: str
    stacked: bool = False
    grows: bool = False
    from_zero: bool = True

    def asked(self, job_id: str, window: int, num_ranks: int | None) -> str:
        """The PromQL as it is sent."""
        promql = self.promql.strip().replace("$job", quoted(job_id)).replace("$window", f"{window}s")
        if not self.grows or (num_ranks or 0) <= MANY_RANKS:
            return promql
        spread = {"largest": f"max({promql})", "median": f"quantile(0.5, {promql})", "smallest": f"min({promql})"}
        return "\nor ".join(f'label_replace({asked}, "spread", "{name}", "", "")' for name, asked in spread.items())


STEP_TIME = Panel(
    key="step_time",
    question="How long does a step take, and how long should it?",
    unit="seconds",
    legend="{what}",
    promql="""
label_replace(quantile(0.5,
  rate(zmon_step_seconds_total{job_id=$job}[$window]) / rate(zmon_steps_total{job_id=$job}[$window])),
  "what", "median of the ranks", "", "")
or label_replace(
  max by (by) (sum by (instance, by) (zmon_job_expected_step_seconds{job_id=$job})),
  "what", "$1 at this size", "by", "(.+)")
""",
)

PHASES = Panel(
    key="phases",
    question="Where does a step's time go?",
    unit="seconds",
    legend="{part}",
    stacked=True,
    promql="""
label_replace(
  sum by (phase) (rate(zmon_phase_seconds_total{job_id=$job}[$window]))
  / on () group_left () (sum(rate(zmon_steps_total{job_id=$job}[$window])) > 0), "part", "$1", "phase", "(.+)")
or label_replace(
  sum by (op) (rate(zmon_collective_exposed_seconds_total{job_id=$job}[$window]))
  / on () group_left () (sum(rate(zmon_steps_total{job_id=$job}[$window])) > 0), "part", "wait: $1", "op", "(.+)")
""",
)

ALL_TO_ALL = Panel(
    key="all_to_all",
    question="How much does each rank send in all-to-all?",
    unit="bytes/s",
    legend="rank {rank}",
    grows=True,
    promql="""
sum by (rank) (rate(zmon_collective_bytes_total{job_id=$job, op="all_to_all", direction="sent"}[$window]))
""",
)

NIC = Panel(
    key="nic",
    question="How much does each network card receive?",
    unit="bytes/s",
    legend="{host} {device}",
    grows=True,
    promql="""
sum by (host, device) (
  rate(zmon:nic_receive_bytes:total[$window]) and on (host) zmon_rank_info{job_id=$job})
""",
)

MEMORY = Panel(
    key="memory",
    question="How much memory does each rank hold?",
    unit="bytes",
    legend="rank {rank} ({kind})",
    grows=True,
    promql="""
label_replace(
  max by (rank) (zmon_device_memory_bytes{job_id=$job, kind="allocated"}), "kind", "GPU", "", "")
or on (rank) label_replace(
  max by (rank) (zmon_process_resident_bytes{job_id=$job}), "kind", "process", "", "")
""",
)

LEARNING = Panel(
    key="learning",
    question="Does it learn?",
    unit="",
    legend="{key}",
    from_zero=False,
    promql="""
avg by (key) (zmon_report{job_id=$job, key=~"loss|normalized_entropy"})
""",
)

EFFICIENCY = Panel(
    key="efficiency",
    question="How efficient is it, scaled from the smallest size?",
    unit="",
    legend="{what} ({scaling})",
    promql="""
label_replace(max by (scaling) (zmon_job_efficiency_ratio{job_id=$job}), "what", "now", "", "")
or label_replace(
  max by (scaling) (zmon_job_baseline_efficiency_ratio{job_id=$job}), "what", "recorded", "", "")
""",
)

PANELS = (STEP_TIME, PHASES, EFFICIENCY, ALL_TO_ALL, NIC, MEMORY, LEARNING)
