"""A demo in a process of its own, with all that it has started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.places import REPOSITORY


def processes_of(directory: Path) -> list[psutil.Process]:
    """Return the processes of a demo in this directory that still run; their `info` has the command line."""
    return [
        process
        for process in psutil.process_iter(["environ", "status", "cmdline"])
        if (process.info["environ"] or {}).get("ZMON_TEST_DIRECTORY") == str(directory)
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


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
        return [" ".join(process.info["cmdline"]) for process in processes_of(self.directory)]
