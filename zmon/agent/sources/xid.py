"""Which XID errors did the driver raise for each GPU since the agent started?

From an NVML event set, which delivers each error once and is asked without waiting. XID numbers: NVIDIA's "XID errors"
catalog. A card that has no events is not watched.
"""

from __future__ import annotations

import ctypes
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pynvml

from zmon.agent.sources.nvml import GONE, LOST, UNSUPPORTED

MOST_EVENTS = 1_000  # a look; a storm goes on at the next


class XidCounts:
    """Counts by UUID, kept when the driver is loaded anew."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.forget()

    def forget(self) -> None:
        """The driver is gone, and with it the event set and all handles."""
        self._events: Any = None
        self._offered = True
        self._cards: dict[int, tuple[str, Any]] = {}  # UUID and handle, by the handle's address
        self._unregistered: list[int] = []

    def watch(self, uuid: str, handle: Any) -> None:
        """Count the errors of this card, from the next look on."""
        address = _address(handle)
        self._cards[address] = (uuid, handle)
        self._unregistered.append(address)

    def of(self, uuid: str) -> dict[int, int]:
        """How often by number."""
        return dict(self._counts.get(uuid, {}))

    def collect(self) -> Iterator[str]:
        """Count what was raised since the last look; a line for what could not be."""
        if not self._offered or not self._cards:
            return
        try:
            yield from self._register()
            for _ in range(MOST_EVENTS):
                yield from self._count(pynvml.nvmlEventSetWait_v2(self._events, 0))
        except pynvml.NVMLError_Timeout:  # there are no more
            pass
        except UNSUPPORTED:
            self._offered = False
        except GONE:
            raise
        except pynvml.NVMLError as error:
            self._begin_anew()
            yield f"XID errors: cannot be asked for: {error}"

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
                yield f"XID errors of {uuid}: cannot be watched: {error}"

    def _count(self, event: Any) -> Iterator[str]:
        card = self._cards.get(_address(event.device))
        if card is None:
            yield f"XID {event.eventData}: of no GPU that is known"
        else:
            self._counts[card[0]][event.eventData] += 1

    def _begin_anew(self) -> None:
        """A lost card can spoil the set for all: it will not be in the next one."""
        if self._events is not None:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(self._events)
        self._events = None
        self._unregistered = list(self._cards)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
