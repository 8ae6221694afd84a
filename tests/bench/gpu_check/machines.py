"""Machines for tests of the kit: one without a GPU, and one with a GPU."""

from dataclasses import replace

from bench.gpu_check.machine import Machine
from bench.gpu_check.records import TorchDevice, TorchFacts

UUID = "GPU-5f2d0c8a-7a51-3d55-8a4b-0a6f2b6d0c11"
DEVICE = TorchDevice("NVIDIA H100 80GB HBM3", UUID, "9.0")
WITHOUT_GPU = Machine(
    python="3.12.3", torch=TorchFacts("2.13.0+cpu", None, None, ()), driver=None, uuids=(),
    smi_error="nvidia-smi is not installed", num_processors=2,
)  # fmt: skip
ONE_GPU = TorchFacts("2.11.0+cu130", "13.0", "2.28.3", (DEVICE,))
WITH_GPU = replace(WITHOUT_GPU, torch=ONE_GPU, driver="580.159.04", uuids=(UUID,), smi_error="")
