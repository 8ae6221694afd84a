"""The stage of one host: a stack as `zmon up` starts it, with a webhook, and jobs under torchrun beside it.

A stub of NVML, whose answers a drill sets, stands for the GPUs. If it cannot be compiled, the host has no GPUs.
"""

from __future__ import annotations

from pathlib import Path

from lab import jobs
from lab.jobs.without_torchrun import free_port
from lab.libraries.nvml import Script, library
from lab.stage import JobSpec
from lab.stage.launched import Launched, launch
from lab.stage.stack_stage import StackStage
from lab.stage.supervised import HOST
from zmon.errors import PartFailed

LAST_CALL_SECONDS = 10  # torchrun's last_call_timeout: its wait for further launchers once it has enough


class OneHost(StackStage):
    """A running stack on this machine, in its own directory."""

    name = "host"

    def __init__(self, folder: Path, policy: Path | None = None) -> None:
        """Start the stack and wait until it is healthy. Raises PartFailed."""
        try:
            self.gpus: Script | None = Script(folder / "gpus", library(folder / "nvml"))
            self.gpus.set_answers(("driver", "cards", 8))
        except PartFailed:
            self.gpus = None
        environment = self.gpus.environment if self.gpus else {}
        super().__init__(folder, "lab.stage.supervised", HOST, environment, policy)

    def start(self, spec: JobSpec) -> Launched:
        """Start a job under `spec.launchers` torchrun processes. If there are several, the job may go on with fewer."""
        folder = self.folder / "jobs" / spec.job_id
        folder.mkdir(parents=True)
        env = jobs.environment(spec, folder, self.folder / "boxes") | {"ZMON_HOST": HOST}
        commands = (jobs.command(spec, *options) for options in rendezvous(spec))
        self._jobs.append(launch(spec, folder, ((command, env) for command in commands)))
        return self._jobs[-1]


def rendezvous(spec: JobSpec) -> list[list[str]]:
    """Return the options of each launcher for the rendezvous of torchrun.

    If there are several launchers, the first one hosts the store, so that the others may end.
    """
    if spec.launchers == 1:
        return [["--standalone", f"--nproc-per-node={spec.ranks}"]]
    port = free_port()
    return [
        [
            f"--nnodes=1:{spec.launchers}",
            f"--nproc-per-node={spec.ranks // spec.launchers}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint=127.0.0.1:{port}",
            f"--rdzv-id={spec.job_id}",
            f"--rdzv-conf=is_host={int(launcher == 0)},last_call_timeout={LAST_CALL_SECONDS}",
        ]
        for launcher in range(spec.launchers)
    ]
