"""The meaning of each time category, and what makes it smaller."""

from __future__ import annotations

from dataclasses import dataclass

from zmon.schema.curve import IMBALANCE
from zmon.schema.names import OPS


@dataclass(frozen=True, slots=True)
class Advice:
    """A fact and the step that follows from it."""

    what: str
    next_step: str


_PROFILE = "Profile one step on one rank (`torch.profiler`) to see which of its operations take the time."
_OVERLAP = (
    "Overlap it with the backward pass, send less (larger batch per rank, gradient accumulation, bfloat16), or use "
    "fewer hosts."
)
_ADVICE = {  # by time category; a category that is not here is a collective, or an activity of a newer zmon
    "init": Advice(
        "from the start of a rank to its first step", "Start less often, or cache what the job reads before it trains."
    ),
    "data": Advice(
        "the training loop waits for its data",
        "Give the DataLoader more workers (`num_workers`), and move work out of `__getitem__`.",
    ),
    "h2d": Advice("copies to the device", "Pin the memory of the DataLoader and copy with `non_blocking=True`."),
    "eval": Advice("evaluation", "Evaluate less often, or on fewer samples."),
    "checkpoint": Advice("saving checkpoints", "Save less often, or asynchronously (`dcp.async_save`)."),
    "compile": Advice("compiling the model", "Keep shapes constant, and keep the cache of the compiler between runs."),
    "loader_start": Advice(
        "starting the workers of a DataLoader", "Set `persistent_workers=True`, so that they start once."
    ),
    "stall": Advice("nothing moved", "The finding about it says who the others waited for."),
    "restart": Advice(
        "steps that an end cut off, and the time to the next launch",
        "Find the cause of the end first; save more often.",
    ),
    IMBALANCE: Advice(
        "ranks wait for the slowest one", "Compare the work of the ranks: batch sizes, sequence lengths, hosts."
    ),
    "forward": Advice("the forward pass", _PROFILE),
    "backward": Advice("the backward pass", _PROFILE),
    "optimizer": Advice("the optimizer", "Use a fused or foreach optimizer (`fused=True`)."),
    "embedding": Advice("embedding lookups", _PROFILE),
    "offload": Advice(
        "waiting for parameters on a disk or in the memory of the host",
        "Give each rank more memory for them, begin to read them earlier, or use a faster disk.",
    ),
    "other": Advice("code of the step outside of data, model and optimizer", _PROFILE),
    "unknown": Advice("zmon cannot say", ""),
}


def time_advice(category: str) -> Advice:
    """Return what a time category is, and the next step if it costs most."""
    if category in OPS:
        return Advice(f"the {category} that computation does not hide", _OVERLAP)
    return _ADVICE.get(category) or Advice(category, "")
