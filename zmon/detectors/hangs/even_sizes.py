"""Find the operations whose size may differ from rank to rank, but did not in the recent steps of this job.

The splits of an all-to-all may differ, and on GPUs the lists of tensors of some other operations. If all ranks sent
equally much in every recent step, a size that differs in the step that does not end is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.schema.aligned_step import AlignedStep

_MAY_DIFFER = ("all_to_all", "all_gather", "reduce_scatter")


def even_ops(steps: Sequence[AlignedStep], num_even_steps: int) -> tuple[str, ...]:
    """Return the operations in which all ranks sent equally many bytes in each of these steps, and sent some.

    Nothing is returned if there are fewer than `num_even_steps` steps.
    """
    if sum(step.stands_for for step in steps) < num_even_steps:
        return ()
    spans = [each for step in steps for each in (step, step.mean) if each is not None]
    columns = {op: [span.sent_bytes[op] for span in spans if op in span.sent_bytes] for op in _MAY_DIFFER}
    return tuple(op for op, sent in columns.items() if sent and all(0 < min(row) == max(row) for row in sent))
