"""Panels of the page Ranks: exposed time, self time and memory of all ranks, and the time of one rank."""

from dashboards.panels.panel import NUM_STANDING_OUT, Panel

# A value is shown only while some rank works or waits, so the rows of a job that is done are empty, not light.
# The counter of exposed time includes a collective only after it ended, so the age of a collective in flight is added.
ALL_HOSTS = "all hosts: "  # the beginning of the name of a row about all hosts
BAND = f"""
label_replace(label_replace(
  max by (spread) (avg_over_time(zmon:job_host_%s:spread{{job_id=$job}}[$window])),
  "host", "{ALL_HOSTS}$1", "spread", "(.+)"), "spread", "", "", "")
"""
# With `@ end()` it is evaluated once, not for each point.
GAP = "max by (host) (max_over_time(zmon:job_host_%s:gap{job_id=$job$of_host}[$range] @ end()))"
STANDING_OUT = f"topk({NUM_STANDING_OUT}, {GAP})"

WAITING = Panel(
    key="waiting",
    question="Which rank does everybody wait for? (light: it waits least)",
    unit="share",
    legend="rank {rank}",
    shape="rows",
    grows="ranks",
    absent="the first value appears when Prometheus has recorded two counters, and ranks without collectives have none",
    promql="""
clamp_max(
  max by (rank, host) (rate(zmon:rank_waiting_seconds:total{job_id=$job$of_host}[$window]))
  + on (rank, host) clamp_max(max by (rank, host) (zmon:rank_in_flight:seconds{job_id=$job$of_host}) / $seconds, 1),
  1)
and on () max_over_time(zmon:job_busy:max{job_id=$job}[$window])
""",
    many="""
max by (host) (avg_over_time(zmon:job_host_waiting:min{job_id=$job$of_host}[$window]))
and on () max_over_time(zmon:job_busy:max{job_id=$job}[$window])
""",
    standing_out=STANDING_OUT % "waiting",
    band=f"{BAND.strip() % 'waiting'}\nand on () max_over_time(zmon:job_busy:max{{job_id=$job}}[$window])",
)

SELF_TIME = Panel(
    key="own",
    question="Which rank is the slowest? (light: most self time)",
    unit="share",
    legend="rank {rank}",
    shape="rows",
    grows="ranks",
    light_is="high",
    absent="the first value appears when Prometheus has recorded two counters",
    promql="clamp_max(max by (rank, host) (rate(zmon:rank_self_seconds:total{job_id=$job$of_host}[$window])), 1)",
    many="max by (host) (avg_over_time(zmon:job_host_own:max{job_id=$job$of_host}[$window]))",
    standing_out=STANDING_OUT % "own",
    band=BAND % "own",
)

MEMORY = Panel(
    key="memory",
    question="How much memory does each rank use?",
    unit="bytes",
    legend="rank {rank} ({kind})",
    grows="ranks",
    noun="ranks",
    many="max by (spread, kind) (zmon:job_rank_memory:spread{job_id=$job})",
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
