"""Panels of the page Hardware: GPUs and hosts, as measured by zmon, dcgm-exporter or node_exporter."""

from dashboards.panels.panel import Panel, Unit

NO_GPU = "no GPU metrics from these hosts"


def _gpu(key: str, question: str, unit: Unit, series: str) -> Panel:
    """Return the panel of a recorded series that has one value for each GPU."""
    return Panel(
        key=f"gpu_{key}",
        question=question,
        unit=unit,
        legend="{host} GPU {gpu}",
        grows_with="ranks",
        line_noun="GPUs",
        summary_promql=f"max by (spread) (zmon:job_gpu_{key}:spread{{job_id=$job}})",
        why_absent=NO_GPU,
        promql=f"max by (host, gpu) ({series}{{$host}}) and on (host) $hosts",
    )


def _host(key: str, question: str, unit: Unit, series: str) -> Panel:
    """Return the panel of a recorded series that has one value for each host."""
    return Panel(
        key=key,
        question=question,
        unit=unit,
        legend="{host}",
        grows_with="hosts",
        line_noun="hosts",
        summary_promql=f"max by (spread) (avg_over_time(zmon:job_{key}:spread{{job_id=$job}}[$window]))",
        promql=f"avg_over_time({series}{{$host}}[$window]) and on (host) $hosts",
    )


UTILIZATION = _gpu("utilization", "How busy is each GPU?", "share", "zmon:gpu_utilization:ratio")
TEMPERATURE = _gpu("temperature", "How hot is each GPU?", "°C", "zmon:gpu_temperature:celsius")
CLOCK = _gpu("clock", "What is the SM clock of each GPU?", "Hz", "zmon:gpu_sm_clock:hertz")
POWER = _gpu("power", "How much power does each GPU draw?", "W", "zmon:gpu_power:watts")
GPU_MEMORY = _gpu("memory", "How much memory is used on each GPU?", "bytes", "zmon:gpu_memory_used:bytes")

THROTTLED = Panel(
    key="gpu_throttled",
    question="Which GPUs, or how many, are throttled, and why?",
    unit="",
    legend="{host} GPU {gpu}: {reason}",
    grows_with="hosts",
    summary_promql="max by (reason) (max_over_time(zmon:job_gpu_throttled:count{job_id=$job}[$window]))",
    summary_legend="{reason}",
    why_absent="no GPU is throttled, or there are no GPU metrics",
    promql="max_over_time(zmon:gpu_throttled:on{$host}[$window]) and on (host) $hosts",
)

CPU = _host("cpu_busy", "How busy are the CPUs of each host?", "share", "zmon:host_cpu_busy:ratio")
AVAILABLE = _host(
    "memory_available", "How much memory is available on each host?", "bytes", "zmon:host_memory_available:bytes"
)
SWAP = _host("swap_used", "How much swap does each host use?", "bytes", "zmon:host_swap_used:bytes")
PRESSURE = Panel(
    key="pressure",
    question="How much do processes wait for CPU, memory or I/O?",
    unit="share",
    legend="{host} {resource}",
    grows_with="hosts",
    line_noun="hosts",
    summary_promql="max by (spread, resource) (avg_over_time(zmon:job_pressure:spread{job_id=$job}[$window]))",
    summary_legend="{spread} {resource}",
    why_absent="the kernel reports no pressure (PSI is off)",
    promql="avg_over_time(zmon:host_pressure:ratio{$host}[$window]) and on (host) $hosts",
)

GPUS = (UTILIZATION, TEMPERATURE, CLOCK, POWER, GPU_MEMORY, THROTTLED)
HOSTS = (CPU, AVAILABLE, SWAP, PRESSURE)
PANELS = (*GPUS, *HOSTS)
