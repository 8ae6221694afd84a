"""Are the hosts and their GPUs well, whoever reads them: zmon, or the exporters that were there before?"""

from dashboards.panels.panel import Panel, Unit

NO_GPU = "no GPU is read on these hosts"


def _gpu(key: str, question: str, unit: Unit, recorded: str) -> Panel:
    return Panel(
        f"gpu_{key}",
        question,
        unit,
        "{host} GPU {gpu}",
        f"max by (host, gpu) ({recorded}) and on (host) $hosts",
        grows="ranks",
        many=f"max by (spread) (zmon:job_gpu_{key}:spread{{job_id=$job}})",
        absent=NO_GPU,
    )


def _host(key: str, question: str, unit: Unit, recorded: str) -> Panel:
    promql = f"avg_over_time({recorded}[$window]) and on (host) $hosts"
    many = f"max by (spread) (avg_over_time(zmon:job_{key}:spread{{job_id=$job}}[$window]))"
    return Panel(key, question, unit, "{host}", promql, grows="hosts", many=many)


UTILIZATION = _gpu("utilization", "How busy is each GPU?", "share", "zmon:gpu_utilization:ratio")
TEMPERATURE = _gpu("temperature", "How hot is each GPU?", "°C", "zmon:gpu_temperature:celsius")
CLOCK = _gpu("clock", "At which clock does each GPU run?", "Hz", "zmon:gpu_sm_clock:hertz")
POWER = _gpu("power", "How much power does each GPU draw?", "W", "zmon:gpu_power:watts")
GPU_MEMORY = _gpu("memory", "How much memory of each GPU is in use?", "bytes", "zmon:gpu_memory_used:bytes")

THROTTLED = Panel(
    key="gpu_throttled",
    question="Which GPUs are held back, and why?",
    unit="",
    legend="{host} GPU {gpu}: {reason}",
    absent="no GPU is held back, or none is read",
    promql="""
max_over_time(zmon:gpu_throttled:on[$window]) and on (host) $hosts
""",
)

CPU = _host("cpu_busy", "How busy are the processors of each host?", "share", "zmon:host_cpu_busy:ratio")
AVAILABLE = _host(
    "memory_available", "How much memory is left on each host?", "bytes", "zmon:host_memory_available:bytes"
)
SWAP = _host("swap_used", "Does a host swap?", "bytes", "zmon:host_swap_used:bytes")
PRESSURE = Panel(
    key="pressure",
    question="How long do processes wait for a processor, memory or a disk?",
    unit="share",
    legend="{host} {resource}",
    grows="hosts",
    many="max by (spread, resource) (avg_over_time(zmon:job_pressure:spread{job_id=$job}[$window]))",
    absent="the kernel tells no pressure (PSI is off)",
    promql="""
avg_over_time(zmon:host_pressure:ratio[$window]) and on (host) $hosts
""",
)

GPUS = (UTILIZATION, TEMPERATURE, CLOCK, POWER, GPU_MEMORY, THROTTLED)
HOSTS = (CPU, AVAILABLE, SWAP, PRESSURE)
PANELS = (*GPUS, *HOSTS)
