"""A host with GPUs, as the real pynvml sees one: its library is a stub compiled from nvml.c, which tells the script."""

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pynvml

NOT_SUPPORTED, DRIVER_NOT_LOADED, UNKNOWN = "!3", 9, "!999"
_built = tempfile.TemporaryDirectory(prefix="zmon-nvml-")


@functools.cache
def library(*flags):
    """The stub as libnvidia-ml.so.1 in a folder of its own; compiled once a session."""
    path = Path(_built.name) / ("new", *flags)[-1] / "libnvidia-ml.so.1"
    path.parent.mkdir()
    compiler = shutil.which("cc")
    assert compiler, "the tests of the GPU source need a C compiler: apt-get install gcc libc6-dev"
    source = Path(__file__).with_name("nvml.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", *flags, "-o", path, source], check=True)
    return path


class Script:
    """What the stub tells: at once, also to a process that runs."""

    def __init__(self, path, *flags):
        self.path = path
        self.library = library(*flags)
        self._answers = {}
        self.tell()

    def tell(self, *lines):
        """Lines `who what answer`; what is not told has its usual value."""
        self._answers |= {(who, what): answer for who, what, answer in lines}
        self._write()

    def untell(self, *questions):
        """Back to the usual."""
        for question in questions:
            del self._answers[question]
        self._write()

    def _write(self):
        text = "".join(f"{who} {what} {answer}\n" for (who, what), answer in self._answers.items())
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)  # whole, and with an inode of its own: the stub sees that it changed

    @property
    def environment(self):
        """For a process of its own, whose pynvml is to find the stub by itself."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.library.parent), "ZMON_NVML_SCRIPT": str(self.path)}


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
