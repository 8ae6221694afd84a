"""Panels of the page Ranks: exposed time, self time and memory of all ranks, and the time of one rank."""

from dashboards.panels.panel import NUM_OUTLIERS, Panel

ALL_HOSTS = "all hosts: "  # the beginning of the name of a row about all hosts
# `%s` stands for `waiting` or `own` in these queries.
ALL_HOSTS_ROWS = f"""
label_replace(label_replace(
  max by (spread) (avg_over_time(zmon:job_host_%s:spread{{job_id=$job}}[$window])),
  "host", "{ALL_HOSTS}$1", "spread", "(.+)"), "spread", "", "", "")
"""
# The largest difference to the median host in the time range. `@ end()`: it is evaluated once, not for each point.
GAP = "max by (host) (max_over_time(zmon:job_host_%s:gap{job_id=$job$of_host}[$range] @ end()))"
OUTLIERS = f"topk({NUM_OUTLIERS}, {GAP})"

# The rows of a job that is done are empty, not light: a value is shown only while some rank works or waits.
WHILE_BUSY = "\nand on () max_over_time(zmon:job_busy:max{job_id=$job}[$window])\n"

# The counter of exposed time includes a collective only after it ended, so the age of a collective in flight is added.
WAITING = Panel(
    key="waiting",
    question="Which rank does everybody wait for? (light: it waits least)",
    unit="share",
    legend="rank {rank}",
    shape="rows",
    grows_with="ranks",
    why_absent="the first value appears when Prometheus has recorded two counters, "
    "and ranks without collectives have none",
    promql="""
clamp_max(
  max by (rank, host) (rate(zmon:rank_waiting_seconds:total{job_id=$job$of_host}[$window]))
  + on (rank, host) clamp_max(max by (rank, host) (zmon:rank_in_flight:seconds{job_id=$job$of_host}) / $seconds, 1),
  1)"""
    + WHILE_BUSY,
    summary_promql="max by (host) (avg_over_time(zmon:job_host_waiting:min{job_id=$job$of_host}[$window]))"
    + WHILE_BUSY,
    summary_legend="{host}",
    outlier_promql=OUTLIERS % "waiting",
    all_hosts_promql=ALL_HOSTS_ROWS.strip() % "waiting" + WHILE_BUSY,
)

SELF_TIME = Panel(
    key="own",
    question="Which rank is the slowest? (light: most self time)",
    unit="share",
    legend="rank {rank}",
    shape="rows",
    grows_with="ranks",
    light_values="high",
    why_absent="the first value appears when Prometheus has recorded two counters",
    promql="clamp_max(max by (rank, host) (rate(zmon:rank_self_seconds:total{job_id=$job$of_host}[$window])), 1)",
    summary_promql="max by (host) (avg_over_time(zmon:job_host_own:max{job_id=$job$of_host}[$window]))",
    summary_legend="{host}",
    outlier_promql=OUTLIERS % "own",
    all_hosts_promql=ALL_HOSTS_ROWS % "own",
)

MEMORY = Panel(
    key="memory",
    question="How much memory does each rank use?",
    unit="bytes",
    legend="rank {rank} ({kind})",
    grows_with="ranks",
    line_noun="ranks",
    summary_promql="max by (spread, kind) (zmon:job_rank_memory:spread{job_id=$job})",
    summary_legend="{spread} {kind}",
    promql="max by (rank, kind) (zmon:rank_memory:bytes{job_id=$job$of_host})",
)

# A phase or collective is counted when it ends. After one of a minute the rate exceeds 1 for a moment: it is clamped.
RANK_TIME = Panel(
    key="rank_time",
    question="What does this rank spend its time on?",
    unit="share",
    legend="{part}",
    shape="areas",
    promql="""
clamp_max(label_replace(
  max by (phase) (rate(zmon_phase_seconds_total{job_id=$job, rank=$rank}[$window])), "part", "$1", "phase", "(.+)")
or label_replace(
  max by (op) (rate(zmon_collective_exposed_seconds_total{job_id=$job, rank=$rank}[$window])),
  "part", "wait: $1", "op", "(.+)"), 1)
""",
)

RANK_MEMORY = Panel(
    key="rank_memory",
    question="How much memory does this rank use?",
    unit="bytes",
    legend="{kind}",
    promql="""
label_replace(max(zmon_process_resident_bytes{job_id=$job, rank=$rank}), "kind", "process", "", "")
or label_replace(
  max by (kind) (zmon_device_memory_bytes{job_id=$job, rank=$rank}), "kind", "GPU, $1", "kind", "(.+)")
""",
)

PANELS = (WAITING, SELF_TIME, MEMORY)
ONE_RANK = (RANK_TIME, RANK_MEMORY)
