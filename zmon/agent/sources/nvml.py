"""What does NVML answer about one GPU? None where the card does not tell.

NVML says "not supported" in three ways: of a function, of a field value, and by lacking the function at all (an older
library). Each is remembered, and asked no more until the driver is loaded anew. A lost card and a driver that is gone
are no answers, and raised. Source: nvml.h; nvidia-ml-py keeps its names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import pynvml

Field: TypeAlias = "int | tuple[int, int]"  # a field value's number, with a scope where it has one
ALL_LINKS = 0xFFFFFFFF  # scope of NVLink fields: summed over the card's links

LOST = pynvml.NVMLError_GpuIsLost
GONE = (pynvml.NVMLError_Uninitialized, pynvml.NVMLError_DriverNotLoaded, pynvml.NVMLError_LibRmVersionMismatch)
ABSENT = (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded)
UNSUPPORTED = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_Deprecated)
ODD = (pynvml.NVMLError, ValueError)  # ValueError: a name that is no UTF-8

_UNSUPPORTED_FIELD = {  # INVALID_ARGUMENT: the library is older than the field
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_DEPRECATED,
}
# nvml.h lets these wrap. In 32 bits they do so every 4 GiB, several times between two looks: then they tell nothing.
_FAST_COUNTERS = {pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES}
_VALUES = {  # the member of the union, by type
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


def load() -> int:
    """Begin with the driver; how many GPUs it has."""
    pynvml.nvmlInit()
    try:
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        unload()
        raise


def unload() -> None:
    """End with the driver, be it there or not."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()


class Device:
    """A GPU or MIG instance, what it is known not to tell, and what it failed to tell since the last `complaints`."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self._unsupported: set[Hashable] = set()
        self._failures: defaultdict[str, dict[str, None]] = defaultdict(dict)  # what could not be read, by reason

    def ask(self, function: Callable[..., Any], *args: Hashable) -> Any:
        """The function's answer for this device."""
        question = (function, args)
        if question in self._unsupported:
            return None
        try:
            return function(self.handle, *args)
        except (LOST, *GONE):
            raise
        except UNSUPPORTED:
            self._unsupported.add(question)
        except pynvml.NVMLError_NotFound:  # there is none now: no MIG instance of this number, say
            pass
        except ODD as error:
            self._failures[str(error)][function.__name__.removeprefix("nvmlDeviceGet")] = None
        return None

    def either(self, newer: Callable[..., Any], older: Callable[..., Any], *args: Hashable) -> Any:
        """What the newer function answers, or the older one where the library has no other."""
        answer = self.ask(newer, *args)
        return self.ask(older, *args) if answer is None else answer

    def fields(self, fields: Iterable[Field]) -> dict[Field, Any]:
        """Field values in one call: None for one that failed, nothing for one that the card does not have."""
        asked = tuple(field for field in fields if field not in self._unsupported)
        answers: dict[Field, Any] = {}
        for field, answer in zip(asked, self.ask(pynvml.nvmlDeviceGetFieldValues, asked) or (), strict=False):
            code, member = answer.nvmlReturn, _VALUES.get(answer.valueType)
            if code in _UNSUPPORTED_FIELD or member is None or (member == "uiVal" and field in _FAST_COUNTERS):
                self._unsupported.add(field)
            elif code == pynvml.NVML_SUCCESS:
                answers[field] = getattr(answer.value, member)
            else:
                answers[field] = None
                self._failures[str(pynvml.NVMLError(code))][f"field {answer.fieldId}"] = None
        return answers

    def forget(self) -> None:
        """Ask again what it did not tell so far: it works another way now."""
        self._unsupported.clear()

    def complaints(self) -> Iterator[str]:
        """A line for each reason why something could not be read."""
        for reason, what in self._failures.items():
            yield f"cannot read {', '.join(what)}: {reason}"
        self._failures.clear()
