"""Runs a job of the kit: torchrun starts it as `-m bench.gpu_check.jobs FOLDER NAME SETTING …` on all ranks."""

from __future__ import annotations

import importlib
import sys


def main(folder: str, name: str, *arguments: str) -> None:
    """Run the job in the module `name` of this package."""
    importlib.import_module(f"bench.gpu_check.jobs.{name}").main(folder, *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
