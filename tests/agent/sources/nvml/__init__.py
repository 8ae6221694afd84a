"""A fake host with GPUs for the real pynvml: its library is the stub of the drills, controlled by a script."""

import ctypes
import functools
import os
import shutil
import tempfile
from pathlib import Path

import pynvml

from lab.libraries import nvml

NOT_SUPPORTED, DRIVER_NOT_LOADED, UNKNOWN = "!3", 9, "!999"
_built = tempfile.TemporaryDirectory(prefix="zmon-nvml-")


@functools.cache
def library(*flags):
    """Compile the stub in a separate folder, once per session."""
    return nvml.library(Path(_built.name) / ("new", *flags)[-1], *flags)


class Script(nvml.Script):
    """The answers of the stub; a change takes effect at once, also in a running process."""

    def __init__(self, path, *flags):
        super().__init__(path, library(*flags))

    @property
    def environment(self):
        """The environment for another process, in which pynvml loads the stub by itself."""
        return {**os.environ, **super().environment}


class Stub(Script):
    """The stub in this process, which also counts the calls; `monkeypatch` removes the stub again."""

    def __init__(self, folder, monkeypatch, *flags):
        super().__init__(folder / "script", *flags)
        copy = shutil.copy(
            self.library, folder / "libnvidia-ml.so.1"
        )  # a new file, so that the library starts without state
        self._loaded = ctypes.CDLL(str(copy))
        monkeypatch.setenv("ZMON_NVML_SCRIPT", str(self.path))
        monkeypatch.setattr(pynvml, "CDLL", lambda name: self._loaded)
        monkeypatch.setattr(pynvml, "nvmlLib", None)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def calls(self, target, function=None):
        """Return the number of calls of a function, or of all, for a card or for "driver"."""
        return self._loaded.calls(target.encode(), function and function.encode())
