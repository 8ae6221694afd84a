"""Panels of the page Scaling: the efficiency of the job, its distance from the peak of its devices, and its goodput."""

from dashboards.panels.panel import Panel

EFFICIENCY = Panel(
    key="efficiency",
    question="What is the scaling efficiency at this size?",
    unit="share",
    legend="{what} ({scaling})",
    has_marks=True,
    why_absent="this chart needs a baseline: run `zmon scaling --baseline NAME`, "
    "or an earlier job of this name at another size",
    promql="""
label_replace(max by (scaling) (zmon_job_efficiency_ratio{job_id=$job}), "what", "now", "", "")
or label_replace(
  max by (scaling) (zmon_job_baseline_efficiency_ratio{job_id=$job}), "what", "recorded", "", "")
""",
)

GOODPUT = Panel(
    key="goodput",
    question="What share of wall-clock time went into steps whose work was kept?",
    unit="share",
    legend="goodput",
    promql="max(zmon_job_goodput_ratio{job_id=$job})",
)

PEAK = Panel(
    key="peak",
    question="How far from the peak of its devices does the job run?",
    unit="share",
    legend="{what}",
    why_absent="the peak of a device is unknown, or the job's operations are (docs/efficiency.md)",
    promql="""
label_replace(
  max by (per) (zmon_job_flops_ratio{job_id=$job, source!="tensor_pipe"}),
  "what", "operations, $1", "per", "(.+)")
or label_replace(
  max by (per) (zmon_job_flops_ratio{job_id=$job, source="tensor_pipe"}),
  "what", "tensor cores, $1", "per", "(.+)")
or label_replace(
  max by (source) (zmon_job_memory_bandwidth_ratio{job_id=$job}), "what", "memory, $1", "source", "(.+)")
or label_replace(max(zmon_job_roofline_ratio{job_id=$job}), "what", "roofline", "", "")
""",
)

PANELS = (EFFICIENCY, PEAK, GOODPUT)
