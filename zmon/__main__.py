"""The `zmon` command, isolated from the PYTHON… variables of the environment.

PYTHONPATH belongs to the job that zmon runs or watches. It may contain other versions of the packages that zmon needs.
"""

import importlib.util
import os
import signal
import sys


def main() -> None:
    """Run the command in a Python that ignores the PYTHON… variables.

    The process replaces itself unless its Python ignores them already. The environment itself does not change. The
    package for jobs has only `zmon run`, which needs nothing but the standard library; PYTHONPATH may be how Python
    finds it.
    """
    if importlib.util.find_spec("zmon.cli") is None:
        from zmon.probe.command import main as command_of_jobs

        command_of_jobs()
    # Of a job under `zmon run`, any word may be "agent".
    if next((word for word in sys.argv[1:] if word in ("agent", "hub", "run", "watch")), "") in ("agent", "hub"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it reads its files again at this signal
    if not sys.flags.ignore_environment:
        from zmon.probe.run import inherited_environment

        os.execve(sys.executable, [sys.executable, "-E", "-P", "-m", "zmon", *sys.argv[1:]], inherited_environment())
    from zmon.cli.main import main as cli

    cli()


if __name__ == "__main__":
    main()
