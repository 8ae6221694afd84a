"""The checks of the kit, in the order in which they run.

Checks on which other checks depend come first. A check that may break the GPU comes last.
"""

from __future__ import annotations

from functools import partial

from bench.gpu_check.checks import (
    allocator,
    communication,
    cost,
    events,
    graphs,
    nvml,
    stalls,
    synchronization,
    training,
    versions,
)
from bench.gpu_check.kit import Check
from bench.gpu_check.settings import ALONE, GPU_EACH, MACHINE, ON_CPU, ONE_RANK, SHARED

ALL: tuple[Check, ...] = (
    Check("versions", "Versions and devices", (MACHINE,), versions.run),
    Check("nvml", "The NVML source against nvidia-smi", (ALONE,), nvml.run),
    Check("events", "Truth of device events", (ALONE,), events.run),
    Check("allocator", "Allocator figures", (ALONE,), allocator.run),
    Check("trainer", "The bundled trainer, watched", (ONE_RANK, GPU_EACH, ON_CPU), training.run_trainer),
    Check("ddp", "DDP, watched", (ONE_RANK, SHARED, GPU_EACH, ON_CPU), partial(training.run_parallel, "ddp")),
    Check("fsdp2", "FSDP2, watched", (ONE_RANK, GPU_EACH, ON_CPU), partial(training.run_parallel, "fsdp2")),
    Check("communication", "Exposed communication", (ONE_RANK, SHARED, GPU_EACH, ON_CPU), communication.run),
    Check("synchronization", "No hidden synchronization", (ONE_RANK,), synchronization.run),
    Check("stalls", "A frozen and a killed rank", (ONE_RANK, SHARED, GPU_EACH, ON_CPU), stalls.run),
    Check("cost", "Cost of device events", (ONE_RANK,), cost.run),
    Check("graphs", "CUDA graphs", (ONE_RANK,), graphs.run),
)
