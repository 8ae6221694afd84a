"""Prints what torch knows of this machine, as a record in one line."""

from __future__ import annotations

import msgspec
import torch

from bench.gpu_check.records import TorchDevice, TorchFacts


def torch_facts() -> TorchFacts:
    """Return the versions of torch, CUDA and NCCL, and the devices."""
    error = ""
    devices = []
    if torch.version.cuda is not None:
        try:
            torch.cuda.init()
            for index in range(torch.cuda.device_count()):
                device = torch.cuda.get_device_properties(index)
                devices.append(TorchDevice(device.name, f"GPU-{device.uuid}", f"{device.major}.{device.minor}"))
        except (RuntimeError, AssertionError) as failure:
            error = str(failure).partition("\n")[0]
    return TorchFacts(str(torch.__version__), torch.version.cuda, _nccl(), tuple(devices), error)


def _nccl() -> str | None:
    if torch.version.cuda is None or not torch.distributed.is_nccl_available():
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))


if __name__ == "__main__":
    print(msgspec.json.encode(torch_facts()).decode())
