"""Checkpoints: a run resumes from them, bit-identical on the same number of ranks, and also on other numbers.

    checkpoints.py  saves in the background, loads, resumes; its configuration
    writer.py       writes a checkpoint
    rows.py         the saved tensors, of which a rank holds some rows and columns; which rank writes and reads which
    folder.py       the folder of a checkpoint, which is either complete or absent
    coordinator.py  agreement of the ranks without collectives
    messages.py     what the ranks tell each other, as plain data
    reader.py       reading without running code that a file contains

The files have the format of torch.distributed.checkpoint: its tools read them too.
"""

from trainer.scale.checkpoint.checkpoints import CheckpointConfig, Checkpoints
from trainer.scale.checkpoint.rows import Part, Rows, State, whole

__all__ = ["CheckpointConfig", "Checkpoints", "Part", "Rows", "State", "whole"]
