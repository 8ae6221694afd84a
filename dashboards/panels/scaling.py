"""How efficient is the job, held against what was recorded of jobs of its name?"""

from dashboards.panels.panel import Panel

EFFICIENCY = Panel(
    key="efficiency",
    question="How efficient is it, scaled from the fewest ranks?",
    unit="share",
    legend="{what} ({scaling})",
    marked=True,
    absent="it needs a baseline: `zmon scaling --baseline NAME`, or an earlier run at another size",
    promql="""
label_replace(max by (scaling) (zmon_job_efficiency_ratio{job_id=$job}), "what", "now", "", "")
or label_replace(
  max by (scaling) (zmon_job_baseline_efficiency_ratio{job_id=$job}), "what", "recorded", "", "")
""",
)

GOODPUT = Panel(
    key="goodput",
    question="How much of its time were steps that it kept?",
    unit="share",
    legend="goodput",
    promql="""
max(zmon_job_goodput_ratio{job_id=$job})
""",
)

PANELS = (EFFICIENCY, GOODPUT)
