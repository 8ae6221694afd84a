"""The stage of one host: a stack as `zmon up` starts it, with a webhook, and jobs under torchrun beside it.

Its GPUs are a stub of NVML whose answers a drill sets. If the stub cannot be compiled, the host has no GPUs.
"""

from __future__ import annotations

import socket
from pathlib import Path

from lab import jobs
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

    def __init__(self, folder: Path) -> None:
        """Start the stack and wait until it is healthy. Raises PartFailed."""
        try:
            self.gpus: Script | None = Script(folder / "gpus", library(folder / "nvml"))
            self.gpus.set_answers(("driver", "cards", 8))
        except PartFailed:
            self.gpus = None
        super().__init__(folder, "lab.stage.supervised", HOST, self.gpus.environment if self.gpus else {})

    def start(self, spec: JobSpec) -> Launched:
        """Start a job under `spec.launchers` torchrun processes. If there are several, the job may go on with fewer."""
        folder = self.folder / "jobs" / spec.job_id
        folder.mkdir(parents=True)
        env, port = jobs.environment(spec, folder, self.folder / "boxes") | {"ZMON_HOST": HOST}, _free_port()
        if (
            spec.launchers > 1 or spec.max_restarts
        ):  # otherwise ranks read old addresses from the launchers' store after a restart
            env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        commands = (jobs.command(spec, *_rendezvous(spec, number, port)) for number in range(spec.launchers))
        self._jobs.append(launch(spec, folder, ((command, env) for command in commands)))
        return self._jobs[-1]


def _rendezvous(spec: JobSpec, launcher: int, port: int) -> list[str]:
    """Return torchrun's options for the rendezvous.

    If there are several launchers, the first one hosts the store, so that the others may end.
    """
    if spec.launchers == 1:
        return ["--standalone", f"--nproc-per-node={spec.ranks}"]
    return [
        f"--nnodes=1:{spec.launchers}",
        f"--nproc-per-node={spec.ranks // spec.launchers}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}",
        f"--rdzv-id={spec.job_id}",
        f"--rdzv-conf=is_host={int(launcher == 0)},last_call_timeout={LAST_CALL_SECONDS}",
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
