"""What a run keeps on disk, so that it can go on after its end: on as many ranks as before to the bit, or on others.

    checkpoints.py  saves while training goes on, loads, resumes; how often, how many, where
    rows.py         what is kept: tensors, of which a rank holds ranges of rows; who writes and reads which
    folder.py       one folder a checkpoint, whole or not there at all
    meeting.py      how the ranks agree without a collective

The files are those of torch.distributed.checkpoint: any tool for them reads these too.
"""

from trainer.checkpoint.checkpoints import CheckpointConfig, Checkpoints
from trainer.checkpoint.rows import Rows, State, whole

__all__ = ["CheckpointConfig", "Checkpoints", "Rows", "State", "whole"]
