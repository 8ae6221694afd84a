"""A fake host with GPUs for the real pynvml: its library is the stub of the drills, controlled by a script."""

import ctypes
import functools
import shutil
import tempfile
from pathlib import Path

import pynvml

from lab.libraries import nvml

NOT_SUPPORTED, GPU_IS_LOST, UNKNOWN = "!3", "!15", "!999"  # answers of the stub: ! and the error code of NVML
DRIVER_NOT_LOADED = 9  # the error code of each call of a driver that is gone
_built = tempfile.TemporaryDirectory(prefix="zmon-nvml-")


@functools.cache
def library(*flags):
    """Compile the stub in a separate folder, once per session."""
    return nvml.library(Path(_built.name) / "".join(("library", *flags)), *flags)


class Stub(nvml.Script):
    """The stub in this process, which also counts the calls; `monkeypatch` removes the stub again."""

    def __init__(self, folder, monkeypatch, *flags):
        super().__init__(folder / "script", library(*flags))
        # The loader shares the state of a library that it has loaded from the same file, so each test loads a copy.
        copy = shutil.copy(self.library, folder / "libnvidia-ml.so.1")
        self._loaded = ctypes.CDLL(str(copy))
        monkeypatch.setenv("ZMON_NVML_SCRIPT", str(self.path))
        monkeypatch.setattr(pynvml, "CDLL", lambda name: self._loaded)
        monkeypatch.setattr(pynvml, "nvmlLib", None)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def calls(self, target, function=None):
        """Return the number of calls of a function, or of all, for a card or for "driver"."""
        return self._loaded.calls(target.encode(), function and function.encode())
