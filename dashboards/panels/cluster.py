"""Panels of the page Cluster: what the time of all GPUs is spent on, and how busy the hosts are.

They are drawn as HTML: people open this page first, and the chart library is most of what a new browser loads.
"""

from dashboards.panels.panel import Panel

# Several hubs may report a job: `max by (job_id, cause)` counts it once.
GPU_TIME = Panel(
    key="gpu_time",
    question="What is the time of all GPUs spent on?",
    unit="share",
    is_html=True,
    legend="{cause}",
    shape="areas",
    why_absent="no job has trained in this time",
    promql="""
sum by (cause) (max by (job_id, cause) (rate(zmon_job_gpu_seconds_total[$window])))
/ on () group_left () (sum(max by (job_id, cause) (rate(zmon_job_gpu_seconds_total[$window]))) > 0)
""",
)

HOSTS_BUSY = Panel(
    key="hosts_busy",
    question="How busy are the hosts? (their GPUs, or without GPU metrics their CPUs)",
    unit="share",
    is_html=True,
    legend="{what}",
    promql="""
label_replace(max(zmon:host_busy:ratio), "what", "busiest host", "", "")
or label_replace(quantile(0.5, max by (host) (zmon:host_busy:ratio)), "what", "median host", "", "")
or label_replace(min(max by (host) (zmon:host_busy:ratio)), "what", "least busy host", "", "")
""",
)

# One holder may have GPUs on several hosts. If a host is scraped twice, `max` counts its GPUs once.
GPUS_HELD = Panel(
    key="gpus_held",
    question="Which share of the GPUs that jobs hold has nothing running on it?",
    unit="share",
    is_html=True,
    legend="{kind}",
    shape="areas",
    why_absent="nobody leaves GPUs idle, or no agent knows who holds them",
    promql="""
sum by (kind) (
  max by (host, holder) (zmon_held_gpus)
  * on (host, holder) group_right () (max by (host, holder, kind) (zmon_held_idle_seconds) > bool 0))
/ on () group_left () sum(max by (host, holder) (zmon_held_gpus))
""",
)

PANELS = (GPU_TIME, GPUS_HELD, HOSTS_BUSY)
