"""What do ranks exchange, how fast, how much of it do they wait for, and who sends more than the others?"""

from dashboards.panels.panel import Panel

SENT = Panel(
    key="sent",
    question="How much do all ranks together hand to each op?",
    unit="bytes/s",
    legend="{op}",
    promql="""
max by (op) (avg_over_time(zmon:job_collective_bytes:rate{job_id=$job, direction="sent"}[$window]))
""",
)

BANDWIDTH = Panel(
    key="bandwidth",
    question="How fast is each op while it is in flight, per rank?",
    unit="bytes/s",
    legend="{op}",
    promql="""
max by (op) (avg_over_time(zmon:job_collective_bytes:rate{job_id=$job, direction="sent"}[$window]))
/ (max by (op) (avg_over_time(zmon:job_collective_seconds:rate{job_id=$job}[$window])) > 0)
""",
)

IN_FLIGHT = Panel(
    key="in_flight",
    question="How many of each op is a rank in at a time, and waiting for?",
    unit="",
    legend="{op}: {what}",
    promql="""
label_replace(
  max by (op) (avg_over_time(zmon:job_collective_exposed_seconds:rate{job_id=$job}[$window]))
  / on () group_left () sum(zmon:job_host:ranks{job_id=$job}), "what", "waited for", "", "")
or label_replace(
  max by (op) (avg_over_time(zmon:job_collective_seconds:rate{job_id=$job}[$window]))
  / on () group_left () sum(zmon:job_host:ranks{job_id=$job}), "what", "in flight", "", "")
""",
)

ALL_TO_ALL = Panel(
    key="all_to_all",
    question="How much does each rank send in all-to-all?",
    unit="bytes/s",
    legend="rank {rank}",
    grows="ranks",
    many="max by (spread) (avg_over_time(zmon:job_all_to_all_sent_bytes:spread{job_id=$job}[$window]))",
    absent="no rank of this job has run an all_to_all",
    promql="""
max by (rank) (rate(zmon:rank_all_to_all_sent_bytes:total{job_id=$job$of_host}[$window]))
""",
)

SKEW = Panel(
    key="skew",
    question="How uneven is all-to-all? 1 is even; 2: one rank sends twice the mean",
    unit="",
    legend="largest ÷ mean",
    from_zero=False,
    reaches=2,
    absent="no rank of this job has run an all_to_all",
    promql="""
max(avg_over_time(zmon:job_all_to_all_skew:ratio{job_id=$job}[$window]))
""",
)

NIC = Panel(
    key="nic",
    question="How much does each network card of its hosts receive?",
    unit="bytes/s",
    legend="{host} {device}",
    grows="hosts",
    many="max by (spread) (avg_over_time(zmon:job_nic_receive_bytes:spread{job_id=$job}[$window]))",
    promql="""
avg_over_time(zmon:nic_receive_bytes:rate[$window]) and on (host) $hosts
""",
)

WIRE = Panel(
    key="wire",
    question="Do network cards send what the job hands to other hosts?",
    unit="bytes/s",
    legend="{what}",
    absent="ranks on one host send nothing to others, and without an interface of the job's own nobody counts",
    promql="""
label_replace(
  max(avg_over_time(zmon:job_network_bytes:rate{job_id=$job, direction="sent"}[$window])),
  "what", "job, to other hosts", "", "")
or label_replace(
  max(avg_over_time(zmon:job_step_nic_bytes:rate{job_id=$job, direction="sent"}[$window])),
  "what", "its network card", "", "")
""",
)

RETRANSMITTED = Panel(
    key="retransmitted",
    question="How many TCP segments are sent again?",
    unit="per second",
    legend="{host}",
    grows="hosts",
    many="max by (spread) (avg_over_time(zmon:job_tcp_retransmitted:spread{job_id=$job}[$window]))",
    promql="""
avg_over_time(zmon:tcp_retransmitted_segments:rate[$window]) and on (host) $hosts
""",
)

LINK_ERRORS = Panel(
    key="link_errors",
    question="Which links count errors, drops or congestion?",
    unit="per second",
    legend="{host} {device} {counter}",
    absent="no counter of a link grew, or none is read",
    promql="""
max_over_time(zmon:nic_errors:rate[$window]) and on (host) $hosts
""",
)

PANELS = (SENT, BANDWIDTH, IN_FLIGHT, ALL_TO_ALL, SKEW, NIC, WIRE, RETRANSMITTED, LINK_ERRORS)
