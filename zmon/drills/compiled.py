"""What drills preload into a process is compiled where they are played, from C beside the code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from zmon.errors import PartFailed

INSTALL = "apt-get install gcc libc6-dev"
_SECONDS = 60.0  # one second, on a machine with nothing else to do


def no_compiler() -> str | None:
    """Why nothing can be compiled here; None: it can."""
    return None if shutil.which("cc") else f"there is no C compiler: {INSTALL}"


def shared_library(source: Path, path: Path, *flags: str) -> Path:
    """Compile it. Raises PartFailed without a C compiler, or where that fails."""
    command = ["cc", "-shared", "-fPIC", "-O1", *flags]
    try:
        subprocess.run(
            [*command, "-o", path, source, "-ldl"], check=True, capture_output=True, text=True, timeout=_SECONDS
        )
    except FileNotFoundError as error:
        raise PartFailed(f"cannot compile {source.name}", "there is no C compiler", INSTALL) from error
    except subprocess.CalledProcessError as error:
        why = next((line for line in error.stderr.splitlines() if "error" in line), f"exit code {error.returncode}")
        raise PartFailed(f"cannot compile {source.name}", why, INSTALL) from error
    except subprocess.TimeoutExpired as error:
        raise PartFailed(f"cannot compile {source.name}", f"it takes more than {_SECONDS:g} s", "try again") from error
    return path
