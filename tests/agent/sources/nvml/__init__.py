"""A host with GPUs, as the real pynvml sees one: its library is the stub that drills play with, told by a script."""

import ctypes
import functools
import os
import shutil
import tempfile
from pathlib import Path

import pynvml

from zmon.drills import nvml

NOT_SUPPORTED, DRIVER_NOT_LOADED, UNKNOWN = "!3", 9, "!999"
_built = tempfile.TemporaryDirectory(prefix="zmon-nvml-")


@functools.cache
def library(*flags):
    """The stub in a folder of its own; compiled once a session."""
    return nvml.library(Path(_built.name) / ("new", *flags)[-1], *flags)


class Script(nvml.Script):
    """What the stub tells: at once, also to a process that runs."""

    def __init__(self, path, *flags):
        super().__init__(path, library(*flags))

    @property
    def environment(self):
        """For a process of its own, whose pynvml is to find the stub by itself."""
        return {**os.environ, **super().environment}


class Stub(Script):
    """The same for this process, where it also counts the calls; `monkeypatch` takes it away again."""

    def __init__(self, folder, monkeypatch, *flags):
        super().__init__(folder / "script", *flags)
        copy = shutil.copy(self.library, folder / "libnvidia-ml.so.1")  # a file of its own: it begins from nothing
        self._loaded = ctypes.CDLL(str(copy))
        monkeypatch.setenv("ZMON_NVML_SCRIPT", str(self.path))
        monkeypatch.setattr(pynvml, "CDLL", lambda name: self._loaded)
        monkeypatch.setattr(pynvml, "nvmlLib", None)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def calls(self, who, what=None):
        """How often a function was called for a card, or "driver"; all functions together without one."""
        return self._loaded.calls(who.encode(), what and what.encode())
