"""A folder in which tests run commands with and without `zmon run`."""

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zmon.probe.autoload.sitecustomize import AUTOLOAD

RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
# `zmon run`, with the autoload folder of the test.
RUN_WITH_FAKES = (
    "import sys; from zmon.probe.run import become_or_exit, environment, inherited_environment; "
    "become_or_exit(sys.argv[2:], environment(inherited_environment(), autoload=sys.argv[1]))"
)
# The fake logs a process instead of watching it.
FAKE_HOOKS = """
import os
from zmon.probe.autoload.sitecustomize import attaches_at_once, restore_environment
def watch():
    with open(os.environ["WATCHED"], "a") as log:
        print(os.getpid(), file=log)
    if attaches_at_once():
        restore_environment()
"""


@dataclass
class Job:
    """A folder in which commands run with and without `zmon run`, by default with fakes of torch and of the hooks."""

    root: Path

    def __post_init__(self) -> None:
        self.zmon = self.root / "beside/zmon"  # not in the working directory, from which Python imports
        self.packages = self.root / "packages"  # in PYTHONPATH
        self.watched_log = self.root / "watched"
        shutil.copytree(AUTOLOAD, self.zmon / "probe/autoload", ignore=shutil.ignore_patterns("__pycache__"))
        self.write(self.zmon / "__init__.py", "")
        self.write(self.zmon / "probe/__init__.py", "")
        self.write_hooks(FAKE_HOOKS)
        self.write(self.packages / "torch.py", '__version__ = "2.13.0+cpu"\n')
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ZMON_") and k not in RANK}
        self.env = {**clean, "PYTHONPATH": str(self.packages), "WATCHED": str(self.watched_log)}

    def write(self, file: Path, text: str) -> Path:
        """Write a file and its folders; return its path."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return file

    def write_hooks(self, text: str) -> None:
        """Write the module that zmon imports once torch is imported."""
        self.write(self.zmon / "probe/hooks/__init__.py", text)

    @property
    def watched(self) -> list[str]:
        """The pids of the processes that called `watch`."""
        return self.watched_log.read_text().split() if self.watched_log.exists() else []

    def prefix(self) -> list[str]:
        """Return the words before a command that run it as `zmon run` does, with the fakes."""
        return [sys.executable, "-I", "-c", RUN_WITH_FAKES, str(self.zmon / "probe/autoload")]

    def run(
        self, *command: str | Path, prefix: Sequence[str | Path] | None = None, text: bool = True, **env: str
    ) -> subprocess.CompletedProcess[Any]:
        """Run a command under `zmon run`, or after another prefix. Its stdin has the line "typed"."""
        prefix = self.prefix() if prefix is None else prefix
        return subprocess.run(
            [*prefix, *map(str, command)], env={**self.env, **env}, cwd=self.root, text=text,
            capture_output=True, timeout=120, check=False, input="typed\n" if text else b"typed\n",
        )  # fmt: skip

    def run_without_zmon(self, *command: str | Path, **env: Any) -> subprocess.CompletedProcess[Any]:
        """Run a command as it is."""
        return self.run(*command, prefix=[], **env)

    def run_both_ways(self, *command: str | Path, **env: str) -> subprocess.CompletedProcess[bytes]:
        """Run a command with and without `zmon run`, check that both do the same, and return the result with it."""
        watched, bare = self.run(*command, text=False, **env), self.run_without_zmon(*command, text=False, **env)
        assert (watched.returncode, watched.stdout, watched.stderr) == (bare.returncode, bare.stdout, bare.stderr)
        return watched


def python(script: str) -> list[str]:
    """Return the command that runs this script."""
    return [sys.executable, "-c", textwrap.dedent(script)]
