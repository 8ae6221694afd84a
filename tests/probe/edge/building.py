"""Build the C edge for tests: with sanitizers, or so that it records the order of its stores."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

from tests.places import REPOSITORY

SOURCE = REPOSITORY / "zmon/probe/edge/edge.c"
# Functions of other types are cast to PyCFunction, and some callbacks do not use all their parameters.
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", "-Wno-unused-parameter")
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")


def compiler() -> str | None:
    """Return the path of the compiler, or None if there is no compiler or Python has no headers."""
    return shutil.which("gcc") if Path(sysconfig.get_path("include"), "Python.h").exists() else None


def build(folder: Path, *flags: str) -> Path:
    """Compile the C edge with these flags into the folder, and return the path of the module."""
    module = folder / f"native{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = ["gcc", "-std=gnu11", "-fPIC", "-shared", *WARNINGS, *flags, f"-I{sysconfig.get_path('include')}"]
    subprocess.run([*command, str(SOURCE), "-o", str(module)], check=True)
    return module


def runtime(name: str) -> str:
    """Return the path of a sanitizer's library; a process must preload it before it loads a module with sanitizers."""
    return subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
