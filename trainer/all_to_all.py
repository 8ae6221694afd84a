"""An asynchronous all-to-all, which may round its values for the network."""

import torch
import torch.distributed as dist
from torch import Tensor

PRECISIONS = {"full": None, "float16": torch.float16, "bfloat16": torch.bfloat16}


class AllToAll:
    """An asynchronous all-to-all of a tensor that is split along its first dimension."""

    def __init__(
        self,
        tensor: Tensor,
        to_send: list[int],
        to_receive: list[int],
        precision: torch.dtype | None = None,
        scale: float = 1.0,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        """`to_send` and `to_receive` are sizes by rank. Values rounded to a precision travel multiplied by `scale`."""
        self._dtype, self._scale, self._rounded = tensor.dtype, scale, precision is not None
        # The input must live until it is sent.
        self._input = _round(tensor * scale, precision) if precision else tensor.contiguous()
        self._output = self._input.new_empty(sum(to_receive), *tensor.shape[1:])
        self._work = dist.all_to_all_single(self._output, self._input, to_receive, to_send, group, async_op=True)

    def wait(self) -> Tensor:
        """Wait for the data of all ranks and return it, ordered by sender."""
        self._work.wait()
        return self._output.to(self._dtype) / self._scale if self._rounded else self._output


def _round(values: Tensor, precision: torch.dtype) -> Tensor:
    """Round to a precision. A finite value that is too large becomes the largest finite one; infinity and NaN stay."""
    largest = torch.finfo(precision).max
    return torch.where(values.isinf(), values, values.clamp(-largest, largest)).to(precision)
