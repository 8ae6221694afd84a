"""When the rank waits for its input: DataLoader, from its start to each batch.

Between a batch in hand and the backward pass lies the forward pass, with the copy to the device and the loss; what is
not read with DataLoader cannot be told from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.utils.data import dataloader

from zmon import probe
from zmon.probe.hooks.replacing import unseen
from zmon.probe.rank import PHASE_NUMBER

_DATA, _FORWARD = PHASE_NUMBER["data"], PHASE_NUMBER["forward"]


def install() -> None:
    """Watch DataLoader and its iterators, once."""
    iterator, loader = dataloader._BaseDataLoaderIter, dataloader.DataLoader
    if not hasattr(iterator.__next__, "__zmon__"):
        iterator.__next__ = unseen(_watched(iterator.__next__, then=_FORWARD))
        loader.__iter__ = unseen(_watched(loader.__iter__, then=None))


def _watched(original: Callable[[Any], Any], then: int | None) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def loading(self: Any) -> Any:
        timeline = probe.current
        if timeline is None or timeline.told_phases:
            return original(self)
        after = before = timeline.current_phase
        timeline.phase(_DATA)
        try:
            result = original(self)
            after = before if then is None or before == _DATA else then  # a loader within a loader
            return result
        finally:
            timeline.phase(after)

    loading.__zmon__ = True  # type: ignore[attr-defined]
    return loading
