"""A dispatch mode that counts the operations of torch's operators, and records what it could not count.

It changes no result and raises nothing of its own: a call that it does not know runs as without it. While torch traces,
or computes with tensors without data, nothing is counted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from threading import get_ident
from time import perf_counter_ns
from typing import Any

import torch
from torch._C import _get_dispatch_mode, _TorchDispatchModeKey
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from zmon import probe
from zmon.probe.operations import OperationCounter, Operations, OperatorCall

_TRACERS = (_TorchDispatchModeKey.FAKE, _TorchDispatchModeKey.PROXY, _TorchDispatchModeKey.FUNCTIONAL)
_PLAIN = torch.Tensor.__torch_dispatch__
_TF32_CAPABILITY = (8, 0)  # Ampere: the first tensor cores that round factors to tf32


class CountingMode(TorchDispatchMode):  # type: ignore[misc]
    """Sees each call of an operator of torch in this thread, and in those of autograd that work for it."""

    supports_higher_order_operators = True  # otherwise torch refuses them while a mode is active

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: else torch imports its compiler at the first call, for a job that may have no use for it."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True: else torch 2.13 never compiles a function whose compilation was due in the counted step."""
        return True

    def __init__(self) -> None:
        super().__init__()
        self.is_whole = False  # True: it saw all calls from `begin` to `end`, and none failed
        self.replays = _Calls(torch.cuda.CUDAGraph, "replay")  # of graphs: their kernels belong to no call
        self.launches = _Calls(_class_of("triton.runtime.jit", "JITFunction"), "run")  # kernels that no operator calls
        self._threads = _Calls(threading.Thread, "start")  # torch.nn.DataParallel computes in threads of its own
        self._counter = OperationCounter()
        self._thread, self._began_ns, self._step_ns = get_ident(), perf_counter_ns(), 0
        self._active, self._has_failed = True, False

    def begin(self) -> None:
        self.__enter__()

    def end(self) -> None:
        """Stop counting. Torch has the mode until `leave`."""
        self._active = False
        self._step_ns = perf_counter_ns() - self._began_ns
        for calls in (self.replays, self.launches, self._threads):
            calls.end()
        self.is_whole = self._is_innermost() and not self._has_failed and not self._threads.num_calls

    def leave(self) -> bool:
        """See no more calls; return False if the job has entered a mode of its own since then, or in another thread."""
        if self._is_innermost():
            self.__exit__(None, None, None)
            return True
        return False

    def _is_innermost(self) -> bool:
        return get_ident() == self._thread and _get_current_dispatch_mode() is self

    def operations(self) -> Operations:
        return self._counter.operations(self._step_ns)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._active or any(_get_dispatch_mode(tracer) is not None for tracer in _TRACERS):
            return func(*args, **kwargs)
        if any(getattr(kind, "__torch_dispatch__", None) is not _PLAIN for kind in types):
            return NotImplemented  # such as a DTensor: its local tensors come here as well
        begin = perf_counter_ns()
        try:
            result = func(*args, **kwargs)
        except BaseException:  # the job may try again, or leave the step
            self._has_failed = True
            raise
        self._add(func, args, perf_counter_ns() - begin)
        return result

    @probe.guarded
    def _add(self, func: Any, args: Sequence[Any], elapsed_ns: int) -> None:
        is_operator = not isinstance(func, HigherOrderOperator)
        name = func._schema.name if is_operator else f"higher_order::{func.name()}"
        tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
        if any(tensor.device.type == "meta" for tensor in tensors):
            return
        shapes: Sequence[Sequence[int]] = ()
        if all(tensor.layout is torch.strided and not tensor.is_nested for tensor in tensors):
            shapes = [tuple(argument.shape) if isinstance(argument, torch.Tensor) else () for argument in args]
        dtype = _dtype(name, tensors[0]) if tensors else ""
        self._counter.add(OperatorCall(name, shapes, dtype, args, elapsed_ns))


class _Calls:
    """Counts the calls of a method of any object of a class, until `end`. A class that does not exist has none."""

    def __init__(self, owner: Any, name: str) -> None:
        self.num_calls = 0
        self._owner, self._name = owner, name
        if owner is None:
            return
        self._original = original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.num_calls += 1
            return original(*args, **kwargs)

        self._counting = call
        setattr(owner, name, call)

    def end(self) -> None:
        """Put the original back, unless the job has replaced it meanwhile."""
        if self._owner is not None and getattr(self._owner, self._name) is self._counting:
            setattr(self._owner, self._name, self._original)


def _class_of(module: str, name: str) -> Any:
    """Return a class of a module, or None if the module is not imported."""
    return getattr(sys.modules.get(module), name, None)


def _dtype(name: str, tensor: torch.Tensor) -> str:
    """Return the dtype in which the device computes: a GPU may round the factors of float32 products to tf32."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return "tf32" if dtype == "float32" and tensor.is_cuda and _rounds(name, tensor.device) else dtype


def _rounds(name: str, device: torch.device) -> bool:
    """Return True if this GPU rounds the factors of this operator (torch.backends, fp32_precision)."""
    if torch.version.hip is not None or torch.cuda.get_device_capability(device) < _TF32_CAPABILITY:
        return False
    backend = torch.backends.cudnn.conv if "conv" in name else torch.backends.cuda.matmul
    return bool(backend.fp32_precision == "tf32")
