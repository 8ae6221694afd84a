"""Reads the loss with which each backward pass of training begins: the root of its graph, if that is one number.

It is the loss of this rank alone, before anything is averaged over the ranks. On the CPU it is read at once. On a GPU
it is copied into pinned memory after the work that computes it. A later step reads it, once the device has passed the
event behind the copy. Nothing waits for the device. Nothing is read while torch traces, and nothing of a tensor without
data or with a class of its own. While functions are transformed, torch itself refuses `backward`.

In a real job this code is not in the caches, so each call of torch takes about a microsecond.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._C import DisableTorchFunction, _len_torch_dispatch_stack

from zmon.probe.complaints import complain
from zmon.probe.losses import BACKWARD
from zmon.probe.rank import RankTimeline

MAX_SENT = 64  # losses that may be under way; the host is rarely further ahead (zmon/probe/device_time.py)

_tensor = torch.Tensor
_finite_on: RankTimeline | None = None  # the timeline of this rank, while its box says that its losses are finite


class DeviceLosses:
    """Losses on the way from the device to the host.

    `make_places` returns places of one number in pinned memory, `make_event` an event. `recordable` returns False while
    a CUDA graph is captured: then neither a copy nor a query of an event is allowed.
    """

    def __init__(
        self, make_places: Callable[[Any], Sequence[Any]], make_event: Callable[[], Any], recordable: Callable[[], bool]
    ) -> None:
        self._make_places, self._make_event, self._recordable = make_places, make_event, recordable
        self._free: dict[Any, list[tuple[Any, Any]]] = {}  # place and event, by dtype
        self._sent: deque[tuple[int, Any, Any]] = deque()  # step, place and the event behind the copy

    def exchange(self, step: int, loss: Any) -> Iterator[tuple[int, float]]:
        """Send the loss of a step, and yield those that have arrived, in order, with their steps."""
        if not self._recordable():
            return
        while self._sent:
            sent_step, place, event = self._sent[0]
            if not event.query():
                break
            self._sent.popleft()
            yield sent_step, place.item()
            self._free[place.dtype].append((place, event))
        if loss.dtype not in self._free:
            self._free[loss.dtype] = [(place, self._make_event()) for place in self._make_places(loss.dtype)]
        if self._free[loss.dtype]:
            place, event = self._free[loss.dtype].pop()
            place.copy_(loss.detach(), non_blocking=True)
            event.record()
            self._sent.append((step, place, event))


_on_device = DeviceLosses(
    lambda dtype: torch.empty(MAX_SENT, dtype=dtype, pin_memory=True).split(1),  # one allocation, because it may wait
    lambda: torch.cuda.Event(),
    lambda: not torch.cuda.is_current_stream_capturing(),
)


def note_loss(timeline: RankTimeline, roots: Sequence[Any]) -> None:
    """Note the loss with which the rank begins a backward pass of training, if that is known."""
    try:
        root = roots[0]
        if type(root) is not _tensor or root.numel() != 1 or len(roots) != 1 or _len_torch_dispatch_stack():
            return  # a mode would see these calls
        with DisableTorchFunction():
            if root.is_cpu:
                loss = root.item()
                if timeline is not _finite_on or loss - loss != 0.0:  # the difference is NaN if the loss is not finite
                    _note(timeline, timeline.step, loss)
            elif root.is_cuda and root.dim() <= 1 and root.get_device() == torch.cuda.current_device():
                for step, loss in _on_device.exchange(timeline.step, root):
                    _note(timeline, step, loss)
    except RuntimeError:
        pass  # the device failed; the job itself will report that
    except Exception as error:
        timeline.ledger.dropped += 1
        complain(f"the probe could not read a loss: {error!r}")


def _note(timeline: RankTimeline, step: int, loss: float) -> None:
    global _finite_on
    is_finite = timeline.ledger.losses.note(BACKWARD, step, loss)
    _finite_on = timeline if is_finite else None
