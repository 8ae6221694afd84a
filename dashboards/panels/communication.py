"""Panels of the page Communication: bytes, bandwidth and exposed time of collectives, skew, and network counters."""

from dashboards.panels.panel import Panel

SENT = Panel(
    key="sent",
    question="How many bytes do all ranks pass to each collective?",
    unit="bytes/s",
    legend="{op}",
    promql='max by (op) (avg_over_time(zmon:job_collective_bytes:rate{job_id=$job, direction="sent"}[$window]))',
)

# The algorithm bandwidth of nccl-tests, without a bus factor: bytes passed to the collective, divided by its time in
# flight, as the mean of all ranks. For all_gather and broadcast, nccl-tests counts the bytes of the whole result, so
# its value is the value of this panel times the number of ranks in the group.
BANDWIDTH = Panel(
    key="bandwidth",
    question="What is the algorithm bandwidth of each collective? (bytes passed / time in flight)",
    unit="bytes/s",
    legend="{op}",
    promql="""
max by (op) (avg_over_time(zmon:job_collective_bytes:rate{job_id=$job, direction="sent"}[$window]))
/ (max by (op) (avg_over_time(zmon:job_collective_seconds:rate{job_id=$job}[$window])) > 0)
""",
)

# The recorded seconds per second are sums over all ranks. Divided by the number of ranks (those in any activity), they
# are a mean number of collectives. Above 1, a rank has several in flight at the same time.
IN_FLIGHT = Panel(
    key="in_flight",
    question="How many collectives does a rank have in flight, and how many are exposed? (mean)",
    unit="",
    legend="{op}: {what}",
    promql="""
label_replace(
  max by (op) (avg_over_time(zmon:job_collective_exposed_seconds:rate{job_id=$job}[$window]))
  / on () group_left () sum(max by (activity) (zmon:job_activity:ranks{job_id=$job})), "what", "exposed", "", "")
or label_replace(
  max by (op) (avg_over_time(zmon:job_collective_seconds:rate{job_id=$job}[$window]))
  / on () group_left () sum(max by (activity) (zmon:job_activity:ranks{job_id=$job})), "what", "in flight", "", "")
""",
)

ALL_TO_ALL = Panel(
    key="all_to_all",
    question="How much does each rank send in all_to_all?",
    unit="bytes/s",
    legend="rank {rank}",
    grows_with="ranks",
    line_noun="ranks",
    summary_promql="max by (spread) (avg_over_time(zmon:job_all_to_all_sent_bytes:spread{job_id=$job}[$window]))",
    why_absent="no rank of this job has run an all_to_all",
    promql="max by (rank) (rate(zmon:rank_all_to_all_sent_bytes:total{job_id=$job$of_host}[$window]))",
)

SKEW = Panel(
    key="skew",
    question="How uneven is all_to_all? (1: all ranks send the same)",
    unit="",
    legend="largest ÷ mean",
    from_zero=False,
    min_axis_end=2,
    why_absent="no rank of this job has run an all_to_all",
    promql="max(avg_over_time(zmon:job_all_to_all_skew:ratio{job_id=$job}[$window]))",
)

NIC = Panel(
    key="nic",
    question="How much does each network interface receive?",
    unit="bytes/s",
    legend="{host} {device}",
    grows_with="hosts",
    line_noun="interfaces",
    summary_promql="max by (spread) (avg_over_time(zmon:job_nic_receive_bytes:spread{job_id=$job}[$window]))",
    promql="avg_over_time(zmon:nic_receive_bytes:rate{$host}[$window]) and on (host) $hosts",
)

WIRE = Panel(
    key="wire",
    question="How many bytes do the network interfaces of the job carry?",
    unit="bytes/s",
    legend="{direction}",
    line_noun="directions",
    why_absent="the job has several hosts, "
    "and its environment selects no interface (GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME)",
    promql="max by (direction) (avg_over_time(zmon:job_step_nic_bytes:rate{job_id=$job}[$window]))",
)

RETRANSMITTED = Panel(
    key="retransmitted",
    question="How many TCP segments are retransmitted?",
    unit="per second",
    legend="{host}",
    grows_with="hosts",
    line_noun="hosts",
    summary_promql="max by (spread) (avg_over_time(zmon:job_tcp_retransmitted:spread{job_id=$job}[$window]))",
    promql="avg_over_time(zmon:tcp_retransmitted_segments:rate{$host}[$window]) and on (host) $hosts",
)

LINK_ERRORS = Panel(
    key="link_errors",
    question="Which links count errors, drops or congestion?",
    unit="per second",
    legend="{host} {device} {counter}",
    grows_with="hosts",
    summary_promql="max by (host, device, counter) (max_over_time(zmon:job_nic_errors:max{job_id=$job}[$window]))",
    summary_legend="{host} {device} {counter}",
    why_absent="no counter of a link has increased, or the links have no counters",
    promql="max_over_time(zmon:nic_errors:rate{$host}[$window]) and on (host) $hosts",
)

PANELS = (SENT, BANDWIDTH, IN_FLIGHT, ALL_TO_ALL, SKEW, NIC, WIRE, RETRANSMITTED, LINK_ERRORS)
