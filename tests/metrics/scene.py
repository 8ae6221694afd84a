"""A scripted scene: one host with all values that zmon can read, and the pages of agent and hub."""

from dataclasses import fields, replace
from functools import lru_cache
from typing import get_type_hints

from prometheus_client.parser import text_string_to_metric_families

from tests.build import agent_report, measures, rank_state
from tests.steps import totals_of
from zmon.metrics import STEP_SECONDS_BOUNDS, HubPage, agent_page, hub_page
from zmon.schema import host
from zmon.schema.job import JobView
from zmon.schema.measures import AMOUNT_MEASURES
from zmon.schema.names import OPS, PHASES
from zmon.schema.rank import InFlight

MADE_UP = {int | None: 1, float | None: 0.5, bool | None: True, dict[str, int]: {"x": 1}, dict[str, float]: {"x": 0.5}}


def filled(sample):
    """Fill each unknown field with a value, so that the scene has every new field as soon as it is added."""
    hints = get_type_hints(type(sample))
    unknown = [f.name for f in fields(sample) if getattr(sample, f.name) in (None, {}) and hints[f.name] in MADE_UP]
    return replace(sample, **{name: MADE_UP[hints[name]] for name in unknown})


FULL_RANK = rank_state(
    1,
    totals={
        **{measure.column: 1 for measure in AMOUNT_MEASURES},
        **totals_of(measures(
            dict.fromkeys(PHASES, 1.0), dict.fromkeys(OPS[:6], 1.0), samples=320, lookups=8000, nic_sent_bytes=12,
            nic_received_bytes=13,
        )),
        "device_memory_allocated": 1, "device_memory_reserved": 2,
    },
    device_memory_peak_bytes=3,
    report={"loss": float("nan"), "auc": 0.7, "ne": 0.9, "lr": 0.1},
    in_flight=InFlight("all_to_all", "0", 7, 100, 0.25),
    last_checkpoint_time=1.8e9,
)  # fmt: skip
GOOD_GPU = filled(host.GpuSample(
    "0", "GPU-1", "NVIDIA H200", "0000:3b:00.0",
    memory_used_bytes=1_000, memory_total_bytes=2_000, utilization_ratio=0.5, tensor_active_ratio=0.4,
    memory_active_ratio=0.3, power_watts=300.0, power_limit_watts=700.0,
    temperature_celsius=61.0, memory_temperature_celsius=70.0,
    clocks_hertz={"sm": 1.2e9, "memory": 3.2e9}, max_clocks_hertz={"sm": 1.98e9, "memory": 3.2e9},
    throttled={"hw_thermal": True, "sw_power_cap": False},
    ecc_errors={"volatile_uncorrected": 0, "remapped_uncorrectable": 1}, repair_pending=True, xid_errors={79: 1},
    pcie_received_bytes=10, pcie_sent_bytes=11, nvlink_received_bytes=12, nvlink_sent_bytes=13, nvlink_errors=0,
    mig=False, pids=(1001,), nics=("mlx5_0:1",), minor=0,
))  # fmt: skip
LOST_GPU = host.GpuSample("1", "GPU-2", pci="0000:5e:00.0", lost=True)
XID = host.KernelEvent(1.8e9, "xid", "0000:3b:00.0", "Xid 79", 79)
QUIET_PEER = host.TcpPeer(
    "job", 1, "10.0.0.3", num_sockets=2, send_queue_bytes=100, receive_queue_bytes=0, retransmitted_segments=0,
    delivery_bytes_per_second=None, round_trip_seconds=None,
)  # fmt: skip
FULL_HOST = host.HostSample(
    nics=(
        filled(host.NicSample(
            "eth0", "tcp", up=True, speed_bytes_per_second=1.25e9, received_bytes=1000, transmitted_bytes=2000,
            errors={"rx_errors": 0}, bond="bond0", pci="0000:04:00.0",
        )),
        host.NicSample(
            "odd0", "tcp", up=None, speed_bytes_per_second=None, received_bytes=7, transmitted_bytes=None, errors={},
        ),
    ),
    rdma=(host.NicSample(
        "mlx5_0:1", "roce", up=True, speed_bytes_per_second=2.5e10, received_bytes=4000, transmitted_bytes=8000,
        errors={"link_downed": 1, "out_of_sequence": 3},
    ),),
    gpus=(GOOD_GPU, LOST_GPU),
    tcp=host.TcpSample(17, (
        replace(
            QUIET_PEER, peer="10.0.0.2", send_queue_bytes=65_000, retransmitted_segments=3,
            delivery_bytes_per_second=4.5e6, round_trip_seconds=0.004,
        ),
        QUIET_PEER,
        replace(QUIET_PEER, job_id="old", rank=9),
    )),
    load=filled(host.HostLoad(
        cpu_seconds={"user": 1.0, "idle": 2.0}, memory_available_bytes=1, memory_total_bytes=2, swap_used_bytes=0,
        runnable=3, blocked=0, major_faults=5, oom_kills=0, pressure_seconds={"cpu": 1.5, "io": 0.0},
        full_pressure_seconds={"io": 0.0},
    )),
    storage=host.Storage(
        (filled(host.DiskSample("nvme0n1", read_bytes=4096, written_bytes=512, busy_seconds=0.5, in_progress=2)),),
        (filled(host.MountSample("/data", "nfs4", operations=100, wait_seconds=2.5, timeouts=1)),),
    ),
    cgroups=(filled(host.CgroupSample(
        "/pod", (("job", 1),), memory_used_bytes=100, memory_limit_bytes=200, cpu_limit_cores=8.0,
        throttled_seconds=0.25, oom_kills=0,
    )),),
    clock=filled(host.ClockSample(-0.0005, True)),
    kernel=host.KernelLog({"xid": 1, "oom": 0, "link": 0}, (XID,)),
    processes=(filled(host.ProcessSample("job", 1, 1001, run_delay_ratio=0.25, storage_read_bytes=4096)),),
    held=(filled(host.HeldGpus("slurm-7", "ann", 2, "never_ran", 1_800.0)), host.HeldGpus("slurm-8", "", 1)),
)  # fmt: skip
HEALTHY_SOURCE = host.SourceStatus(
    "boxes", up=True, absent=False, duration_seconds=0.001, last_success_time=1.8e9, num_errors=0, error=None
)
SOURCES = (
    HEALTHY_SOURCE,
    replace(HEALTHY_SOURCE, name="gpu", up=False, absent=True, last_success_time=None, error="no NVML"),
    replace(HEALTHY_SOURCE, name="nic", up=False, duration_seconds=5.0, num_errors=3, error="it hangs"),
    replace(
        HEALTHY_SOURCE, name="rdma", duration_seconds=0.002, num_dropped=2, dropped=("mlx5_3:1: cannot read state",)
    ),
)
# Prometheus sets the labels `job` and `instance`, and refuses the last two names.
LABELS = {"owner": "ann", "model": 'dl"rm\n', "job": "no", "instance": "no", "__name__": "no", "1st": "no"}
JOB_VIEW = JobView(
    job_id="job", attempt=0, world_size=4, ranks_seen=3, state="train", step=100, step_seconds=0.02,
    step_seconds_p95=0.03, samples_per_second=1600.0, report={"loss": None}, time={"forward": 1.0, "imbalance": 0.5},
    hosts=("node-a",), labels=LABELS, findings=("f1",),
)  # fmt: skip


def page(*ranks, sample=host.HostSample(), sources=()):  # noqa: B008 - frozen
    """Return the agent's page as text."""
    return agent_page(agent_report(*ranks, sample=sample, sources=sources), cpu_seconds=1.0, resident_bytes=2).decode()


def hub(findings=(), jobs=(JOB_VIEW,), last_pass=1.8e9):
    """Return the hub's page as text."""
    counts = [0] * (len(STEP_SECONDS_BOUNDS) + 1)
    counts[4] = 3  # steps of 8 to 16 ms
    counts[-1] = 1  # beyond the last bound
    state = HubPage(
        jobs=jobs, histograms={"job": (counts, 123.5)}, findings=findings, pass_seconds=0.01, last_pass_time=last_pass,
        version="0.1.0",
    )  # fmt: skip
    return hub_page(state).decode()


@lru_cache(4)  # a test reads many metrics of one page
def samples(text):
    """Return the samples of a page: name, labels and value."""
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def series(text, name):
    """Return the values of one metric, by labels."""
    return {tuple(sorted(s.labels.items())): s.value for s in samples(text) if s.name == name}


def value(text, name, **labels):
    """Return the value of the one series with these labels, or None."""
    values = [v for present, v in series(text, name).items() if set(labels.items()) <= set(present)]
    assert len(values) < 2
    return values[0] if values else None
