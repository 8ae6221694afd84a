"""A simulated GPU for the jobs of the kit: torch.cuda becomes a device with a clock of its own; tensors are on the CPU.

The clock moves only by launched work, so its times are exact. When the job waits for the device, all work is done and
all events are passed. NCCL becomes gloo. Functions that are not replaced fail as on any torch without CUDA.
"""

from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

import bench.device

HERTZ = 1e9
UUID = "5f2d0c8a-7a51-3d55-8a4b-0a6f2b6d0c11"
ALLOCATED, RESERVED, PEAK = 256 << 20, 768 << 20, 700 << 20
MEMORY_STATS = {  # the allocator's figures, as torch returns them nested
    "allocated_bytes": {"all": {"current": ALLOCATED, "peak": PEAK}},
    "reserved_bytes": {"all": {"current": RESERVED}},
}
FLAT_STATS = {
    f"{what}.all.{when}": number for what, pools in MEMORY_STATS.items() for when, number in pools["all"].items()
}


class SimulatedGpu:
    """A device with the end of its queue and its progress, both in seconds of its clock."""

    def __init__(self):
        self.queued = self.done = 0.0

    def sleep(self, cycles):
        """Launch a kernel."""
        self.queued += cycles / HERTZ

    def synchronize(self, device=None):
        """Do all work."""
        self.done = self.queued


GPU = SimulatedGpu()


class Event:
    """An event like torch.cuda.Event."""

    def __init__(self, enable_timing=False):
        assert enable_timing
        self.time = None

    def record(self):
        self.time = GPU.queued

    def query(self):
        return self.time <= GPU.done

    def elapsed_time(self, end):
        if not (self.query() and end.query()):
            raise RuntimeError("not ready")
        return (end.time - self.time) * 1e3


def install():
    """Replace torch.cuda and NCCL in this process; call this before zmon attaches."""
    replaced = {
        "Event": Event,
        "_sleep": GPU.sleep,
        "synchronize": GPU.synchronize,
        "set_device": lambda device: None,
        "is_initialized": lambda: True,
        "current_device": lambda: 0,
        "is_current_stream_capturing": lambda: False,
        "get_device_properties": lambda index: SimpleNamespace(uuid=UUID, name="NVIDIA H100 80GB HBM3"),
        "memory_stats": lambda device=None: FLAT_STATS,
        "memory_stats_as_nested_dict": lambda: MEMORY_STATS,
        "set_sync_debug_mode": lambda mode: None,
    }
    for name, value in replaced.items():
        setattr(torch.cuda, name, value)
    bench.device.torch = SimpleNamespace(device=lambda *_: torch.device("cpu"), cuda=torch.cuda)
    original = distributed_c10d.init_process_group

    def init_process_group(backend, device_id=None):
        original("gloo")

    dist.init_process_group = distributed_c10d.init_process_group = init_process_group
