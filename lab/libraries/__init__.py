"""Compile the libraries that drills load into processes, on the machine where the drills are played."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from zmon.errors import PartFailed

INSTALL = "apt-get install gcc libc6-dev"
_TIMEOUT_SECONDS = 60.0  # an idle machine needs one second


def no_compiler() -> str | None:
    """Return the reason why nothing can be compiled on this machine, or None if it has a C compiler."""
    return None if shutil.which("cc") else f"there is no C compiler: {INSTALL}"


def shared_library(source: Path, path: Path, *flags: str) -> Path:
    """Compile `source` into a shared library at `path`. Raises PartFailed if the C compiler is missing or fails."""
    command = ["cc", "-shared", "-fPIC", "-O1", *flags]
    try:
        subprocess.run(
            [*command, "-o", path, source, "-ldl"], check=True, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS
        )
    except FileNotFoundError as error:
        raise PartFailed(f"cannot compile {source.name}", "there is no C compiler", INSTALL) from error
    except subprocess.CalledProcessError as error:
        cause = next((line for line in error.stderr.splitlines() if "error" in line), f"exit code {error.returncode}")
        raise PartFailed(f"cannot compile {source.name}", cause, INSTALL) from error
    except subprocess.TimeoutExpired as error:
        raise PartFailed(
            f"cannot compile {source.name}", f"it takes more than {_TIMEOUT_SECONDS:g} s", "try again"
        ) from error
    return path
