"""Count the XID errors that the driver raised for each GPU since the agent started.

The errors come from an NVML event set, which delivers each error once and is read without waiting. XID numbers:
NVIDIA's "XID errors" catalog. Cards without events are not watched.
"""

from __future__ import annotations

import ctypes
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pynvml

from zmon.agent.sources.nvml import GONE, LOST, UNSUPPORTED

MAX_EVENTS = 1_000  # events per `collect`; the next call reads the others


class XidCounts:
    """The XID errors by UUID; the counts outlive a reload of the driver."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.forget()

    def forget(self) -> None:
        """Drop the event set and all handles, which are invalid after the driver was unloaded."""
        self._events: Any = None
        self._is_offered = True  # False: this driver offers no events
        self._cards: dict[int, tuple[str, Any]] = {}  # UUID and handle, by the handle's address
        self._unregistered: list[int] = []

    def watch(self, uuid: str, handle: Any) -> None:
        """Count the errors of this card from the next `collect` on."""
        address = _address(handle)
        self._cards[address] = (uuid, handle)
        self._unregistered.append(address)

    def counts(self, uuid: str) -> dict[int, int]:
        """Return the number of errors of this card by XID."""
        return dict(self._counts.get(uuid, {}))

    def collect(self) -> Iterator[str]:
        """Count the errors since the last call; yield a line for each failure to do so."""
        if not self._is_offered or not self._cards:
            return
        try:
            yield from self._register()
            for _ in range(MAX_EVENTS):
                yield from self._count(pynvml.nvmlEventSetWait_v2(self._events, 0))
        except pynvml.NVMLError_Timeout:  # no more events
            pass
        except UNSUPPORTED:
            self._is_offered = False
        except GONE:
            raise
        except pynvml.NVMLError as error:
            self._reset()
            yield f"XID errors: cannot read the event set: {error}"

    def _register(self) -> Iterator[str]:
        if self._events is None:
            self._events = pynvml.nvmlEventSetCreate()
        while self._unregistered:
            uuid, handle = self._cards[self._unregistered.pop()]
            try:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)
            except (LOST, *UNSUPPORTED):
                pass
            except GONE:
                raise
            except pynvml.NVMLError as error:
                yield f"XID errors of {uuid}: cannot register for events: {error}"

    def _count(self, event: Any) -> Iterator[str]:
        card = self._cards.get(_address(event.device))
        if card is None:
            yield f"XID {event.eventData}: it belongs to no known GPU"
        else:
            uuid, _ = card
            self._counts[uuid][event.eventData] += 1

    def _reset(self) -> None:
        """Make a new event set at the next call, without lost cards, because one of them can spoil the set for all."""
        if self._events is not None:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(self._events)
        self._events = None
        self._unregistered = list(self._cards)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
