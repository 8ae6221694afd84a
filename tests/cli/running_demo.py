"""A demo in a process of its own, with all that it has started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.places import REPOSITORY


class Demo:
    """A demo in its own directory; an environment variable marks its processes."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self.output = directory / "out.txt"
        self.env = {
            **os.environ,
            "ZMON_DATA_DIR": str(directory / "data"),
            "ZMON_BOX_DIR": str(directory / "boxes"),
            "ZMON_TEST_DIRECTORY": str(directory),
            "PYTHONPATH": str(REPOSITORY),
        }
        with self.output.open("wb") as out:
            command = [sys.executable, "-m", "zmon", "demo", *arguments]
            self.process = subprocess.Popen(command, env=self.env, stdout=out, stderr=out)

    @property
    def text(self) -> str:
        """The output so far."""
        return self.output.read_text()

    def left_behind(self) -> list[str]:
        """Return the command lines of the demo's processes that still run."""
        commands = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("ZMON_TEST_DIRECTORY") == str(self.directory) and process.status() != "zombie":
                    commands.append(" ".join(process.cmdline()))
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return commands
