"""The `zmon` command, isolated from the PYTHON… variables of the environment.

PYTHONPATH belongs to the job that zmon runs or watches. It may contain other versions of the packages that zmon needs.
"""

import importlib.util
import os
import signal
import sys


def main() -> None:
    """Run the command in a Python that ignores the PYTHON… variables.

    If this Python uses them, it is replaced by one that does not. The environment itself stays as it is, for the job.
    The package for jobs (zmon-probe) has only `zmon run`, which needs nothing but the standard library. Python may have
    found that package by PYTHONPATH, so its command runs in this Python.
    """
    if importlib.util.find_spec("zmon.cli") is None:
        from zmon.probe.command import main as run_probe_command

        run_probe_command()  # does not return
    # Words after `run` or `watch` are the command of a job. They may contain "agent" or "hub", too.
    command = next((word for word in sys.argv[1:] if word in ("agent", "hub", "run", "watch")), "")
    if command in ("agent", "hub"):
        # SIGHUP would end this process. A daemon handles it once it serves: it then reads its files again.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if not sys.flags.ignore_environment:
        from zmon.probe.run import inherited_environment

        os.execve(sys.executable, [sys.executable, "-E", "-P", "-m", "zmon", *sys.argv[1:]], inherited_environment())
    from zmon.cli.main import main as cli

    cli()


if __name__ == "__main__":
    main()
