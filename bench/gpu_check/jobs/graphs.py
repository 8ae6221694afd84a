"""Captures parts of a training step as a CUDA graph and replays them: first without zmon, then while zmon watches.

The job compares the parameters after the replays with those after the same steps without a graph. In a capture of the
whole step, the optimizer is in the graph, so zmon sees the end of a step while the stream is captured.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

from bench.device import Device
from bench.gpu_check.jobs.joining import join, write_record
from bench.gpu_check.records import Capture, Captures
from zmon import probe

_REPLAYS = 5
_WARM_UP_STEPS = 3
_WIDTH, _SAMPLES = 32, 8
_GRADIENTS, _WHOLE_STEP = "forward, backward and all-reduce", "the whole step"


class TwoPartTraining:
    """A model whose step has two parts: gradients, averaged over the ranks, and the update."""

    def __init__(self, device: Device) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 1)).to(device.place)
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2)
        self._batch = torch.ones(_SAMPLES, _WIDTH, device=device.place)

    def gradients(self) -> None:
        """Compute the gradients in place."""
        self._optimizer.zero_grad(set_to_none=False)
        self.model(self._batch).square().mean().backward()
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)

    def update(self) -> None:
        """Update the parameters."""
        self._optimizer.step()

    def step(self) -> None:
        """Do a whole step without a graph."""
        self.gradients()
        self.update()


def main(folder: str, key: str) -> None:
    """Capture the gradients and the whole step, without zmon and with it, and write the results."""
    device = join(key)
    timeline = probe.current
    captures = []
    for is_watched in (False, True):
        probe.current = timeline if is_watched else None
        for part in (_GRADIENTS, _WHOLE_STEP):  # the whole step may break the capture, so it comes last
            try:
                captures.append(Capture(part, is_watched, "", _difference(part, device)))
            except RuntimeError as error:
                captures.append(Capture(part, is_watched, str(error).partition("\n")[0], None))
    probe.current = timeline
    dist.destroy_process_group()
    write_record(folder, Captures(tuple(captures)))


def _difference(part: str, device: Device) -> float:
    """Return the largest difference of a parameter between a training with a graph and one without."""
    captured, plain = TwoPartTraining(device), TwoPartTraining(device)
    replay = _capture(captured, part)
    for _ in range(_WARM_UP_STEPS):
        plain.step()
    for _ in range(_REPLAYS):
        replay()
        plain.step()
    device.finish()
    pairs = zip(captured.model.parameters(), plain.model.parameters(), strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


def _capture(training: TwoPartTraining, part: str) -> Callable[[], None]:
    """Warm up on a side stream, as torch requires, and capture; return a function that does one step by a replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP_STEPS):
            training.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if part == _WHOLE_STEP:
            training.step()
        else:
            training.gradients()

    def step() -> None:
        graph.replay()
        if part != _WHOLE_STEP:
            training.update()

    return step
