"""Who is waited for, how busy is each rank, and what does one of them do?"""

from dashboards.panels.panel import Panel

# Where nobody works and nobody waits, nobody is waited for: the row of a job that is done is empty, not light.
# What a rank has waited in the collective it is inside of is in no counter before that is over.
WAITING = Panel(
    key="waiting",
    question="Who waits for others? The light row is waited for",
    unit="share",
    legend="rank {rank}",
    shape="rows",
    grows="ranks",
    absent="it takes 20 s to be known, and ranks that exchange nothing wait for nobody",
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
)

OWN = Panel(
    key="own",
    question="Who is busy with work of its own? The light row is the slowest",
    unit="share",
    legend="rank {rank}",
    shape="rows",
    grows="ranks",
    light_is="high",
    absent="it takes 20 s to be known",
    promql="""
clamp_max(max by (rank, host) (rate(zmon:rank_self_seconds:total{job_id=$job$of_host}[$window])), 1)
""",
    many="max by (host) (avg_over_time(zmon:job_host_own:max{job_id=$job$of_host}[$window]))",
)

MEMORY = Panel(
    key="memory",
    question="How much memory does each rank hold?",
    unit="bytes",
    legend="rank {rank} ({kind})",
    grows="ranks",
    many="max by (spread, kind) (zmon:job_rank_memory:spread{job_id=$job})",
    promql="""
max by (rank, kind) (zmon:rank_memory:bytes{job_id=$job$of_host})
""",
)

# What took a minute is counted once it is over: for that moment a rank would do more than one thing at a time.
RANK_TIME = Panel(
    key="rank_time",
    question="What does this rank spend its time on?",
    unit="share",
    legend="{part}",
    shape="areas",
    promql="""
clamp_max(label_replace(
  sum by (phase) (rate(zmon_phase_seconds_total{job_id=$job, rank=$rank}[$window])), "part", "$1", "phase", "(.+)")
or label_replace(
  sum by (op) (rate(zmon_collective_exposed_seconds_total{job_id=$job, rank=$rank}[$window])),
  "part", "wait: $1", "op", "(.+)"), 1)
""",
)

RANK_MEMORY = Panel(
    key="rank_memory",
    question="How much memory does this rank hold?",
    unit="bytes",
    legend="{kind}",
    promql="""
label_replace(max(zmon_process_resident_bytes{job_id=$job, rank=$rank}), "kind", "process", "", "")
or label_replace(
  max by (kind) (zmon_device_memory_bytes{job_id=$job, rank=$rank}), "kind", "GPU, $1", "kind", "(.+)")
""",
)

PANELS = (WAITING, OWN, MEMORY)
ONE_RANK = (RANK_TIME, RANK_MEMORY)
