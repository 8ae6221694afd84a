"""Query one GPU through NVML, with None for each value that the card does not offer.

NVML reports "not supported" in three ways: for a function, for a field value, and by a missing function (an older
library). Each is remembered and not queried again until the driver is reloaded. A lost card and an unloaded driver
raise. Source: nvml.h; nvidia-ml-py keeps its names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import pynvml

Field: TypeAlias = "int | tuple[int, int]"  # the number of a field value, with a scope if it has one
ALL_LINKS = 0xFFFFFFFF  # scope of NVLink fields: summed over the card's links

LOST = pynvml.NVMLError_GpuIsLost
GONE = (pynvml.NVMLError_Uninitialized, pynvml.NVMLError_DriverNotLoaded, pynvml.NVMLError_LibRmVersionMismatch)
ABSENT = (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded)
UNSUPPORTED = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_Deprecated)
FAILURES = (pynvml.NVMLError, ValueError)  # ValueError: a name that is not UTF-8

_UNSUPPORTED_FIELD = {  # INVALID_ARGUMENT: the library is older than the field
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_DEPRECATED,
}
# nvml.h lets these wrap. With 32 bits they wrap every 4 GiB, several times between two reads, and are useless.
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
    """Initialize NVML and return the number of GPUs."""
    pynvml.nvmlInit()
    try:
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        unload()
        raise


def unload() -> None:
    """Shut NVML down, and ignore its errors, because the driver may be gone."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()


class Device:
    """A GPU or MIG instance: what it does not support, and its failures since the last `complaints`."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self._unsupported: set[Hashable] = set()
        self._failures: defaultdict[str, dict[str, None]] = defaultdict(dict)  # what could not be read, by reason

    def ask(self, function: Callable[..., Any], *args: Hashable) -> Any:
        """Call an NVML function for this device; None if it gives no answer."""
        question = (function, args)
        if question in self._unsupported:
            return None
        try:
            return function(self.handle, *args)
        except (LOST, *GONE):
            raise
        except UNSUPPORTED:
            self._unsupported.add(question)
        except pynvml.NVMLError_NotFound:  # for example, there is no MIG instance of this number now
            pass
        except FAILURES as error:
            self._failures[str(error)][function.__name__.removeprefix("nvmlDeviceGet")] = None
        return None

    def either(self, newer: Callable[..., Any], older: Callable[..., Any], *args: Hashable) -> Any:
        """Return the answer of the newer function, or of the older one if the library lacks the newer."""
        answer = self.ask(newer, *args)
        return self.ask(older, *args) if answer is None else answer

    def fields(self, fields: Iterable[Field]) -> dict[Field, Any]:
        """Return field values, read in one call: None for a failed field, no entry for one that the card lacks."""
        requested = tuple(field for field in fields if field not in self._unsupported)
        answers: dict[Field, Any] = {}
        for field, answer in zip(requested, self.ask(pynvml.nvmlDeviceGetFieldValues, requested) or (), strict=False):
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
        """Forget what is not supported, because the card works in another mode now."""
        self._unsupported.clear()

    def complaints(self) -> Iterator[str]:
        """Yield a line for each reason why something could not be read, and forget the failures."""
        for reason, what in self._failures.items():
            yield f"cannot read {', '.join(what)}: {reason}"
        self._failures.clear()
