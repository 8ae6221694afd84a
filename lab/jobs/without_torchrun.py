"""Start the ranks of a job without torchrun: as mpirun does, as `torch.multiprocessing.spawn` does, or by nobody.

Usage: `python without_torchrun.py mpirun|spawn|none RANKS SCRIPT`. With `none` nobody ends the other ranks when one has
failed, like a shell script that starts them in the background and waits.
"""

from __future__ import annotations

import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from types import FrameType

POLL_SECONDS = 0.05
KILL_SECONDS = 5.0  # from SIGTERM to SIGKILL, as Open MPI does


def rank_environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the environment of one rank, as torch's `env://` reads it."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    """Send SIGTERM to all ranks, and SIGKILL to those that are left after some seconds."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + KILL_SECONDS
    while time.monotonic() < deadline and any(process.poll() is None for process in processes):
        time.sleep(POLL_SECONDS)
    for process in processes:
        process.kill()


def run(ranks: int, script: str, ends_others: bool) -> int:
    """Start the ranks and wait for them; with `ends_others`, the first failure ends all. Return an exit code."""
    port = free_port()
    processes = [
        subprocess.Popen([sys.executable, script], env=os.environ | rank_environment(rank, ranks, port))
        for rank in range(ranks)
    ]

    def on_signal(number: int, frame: FrameType | None) -> None:
        end(processes)
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    first_failure = 0
    while any(process.poll() is None for process in processes):
        failures = (abs(code) for process in processes if (code := process.poll()))
        first_failure = first_failure or next(failures, 0)
        if ends_others and first_failure:
            end(processes)
        time.sleep(POLL_SECONDS)
    return first_failure or max(abs(int(process.returncode)) for process in processes)


def spawned(local_rank: int, ranks: int, script: str, port: int) -> None:
    """Run the script as one rank in a process of `torch.multiprocessing.spawn`."""
    os.environ.update(rank_environment(local_rank, ranks, port))
    runpy.run_path(script, run_name="__main__")


def main() -> None:
    """Start the ranks that the command line asks for."""
    launcher = sys.argv[1]
    ranks = int(sys.argv[2])
    script = sys.argv[3]
    if launcher == "spawn":
        import torch.multiprocessing

        torch.multiprocessing.spawn(spawned, (ranks, script, free_port()), nprocs=ranks)
        return
    sys.exit(run(ranks, script, ends_others=launcher == "mpirun"))


if __name__ == "__main__":
    main()
