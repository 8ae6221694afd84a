"""Panels of the page Job: step time, time categories, throughput, loss and other reported figures."""

from dashboards.panels.panel import Panel

STEP_TIME = Panel(
    key="step_time",
    question="How long does a step take, and how long should it take?",
    unit="seconds",
    legend="{what}",
    has_marks=True,
    promql="""
label_replace(
  max(avg_over_time(zmon:job_step_seconds:median{job_id=$job}[$window])), "what", "median of the ranks", "", "")
or label_replace(
  histogram_quantile(0.95, max by (le) (rate(zmon_job_step_duration_seconds_bucket{job_id=$job}[$window]))),
  "what", "p95, from buckets", "", "")
or label_replace(
  sum by (by) (max by (by, cause) (zmon_job_expected_step_seconds{job_id=$job})),
  "what", "$1 at this size", "by", "(.+)")
""",
)

WHERE = Panel(
    key="where",
    question="Where does the time of the job go?",
    unit="share",
    legend="{cause}",
    shape="areas",
    promql="""
max by (cause) (rate(zmon_job_time_seconds_total{job_id=$job}[$window]))
/ on () group_left () (sum(max by (cause) (rate(zmon_job_time_seconds_total{job_id=$job}[$window]))) > 0)
""",
)

THROUGHPUT = Panel(
    key="throughput",
    question="How many samples per second does the job train on?",
    unit="samples/s",
    legend="all ranks",
    why_absent="a job reports its samples with `zmon.work(samples=…)`",
    promql="max(avg_over_time(zmon:job_samples:rate{job_id=$job}[$window]))",
)

LOSS = Panel(
    key="loss",
    question="Does the loss fall?",
    unit="",
    legend="{key}",
    from_zero=False,
    shows_nan=True,
    has_marks=True,
    why_absent="a job reports its loss with `zmon.report(loss=…)`",
    promql='zmon:job_report:mean{job_id=$job, key=~"loss|normalized_entropy"}',
)

QUALITY = Panel(
    key="quality",
    question="Which other figures does the job report?",
    unit="",
    legend="{key}",
    from_zero=False,
    shows_nan=True,
    why_absent="a job reports other figures with `zmon.report(auc=…)`",
    promql='zmon:job_report:mean{job_id=$job, key!~"loss|normalized_entropy"}',
)

READS = Panel(
    key="storage_reads",
    question="How fast do the ranks and their loader processes read from storage?",
    unit="bytes/s",
    legend="all hosts",
    why_absent="the agent may not read /proc/PID/io of the ranks",
    promql="max(avg_over_time(zmon:job_storage_read_bytes:rate{job_id=$job}[$window]))",
)

PANELS = (STEP_TIME, WHERE, THROUGHPUT, LOSS, QUALITY, READS)
