"""Runs at the start of every Python process under `zmon run`; waits until torch is imported, then watches.

Python's `site` imports this file in place of the job's own sitecustomize, which is run right after it. Nothing here
raises into the job. Python 3.6 and newer can read this file. At the start it imports only modules that Python has
loaded already, so that a process that never needs torch is not slowed down.
"""

import os
import sys

TYPE_CHECKING = False  # importing typing would take longer than this whole file
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

AUTOLOAD = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is as slow
BESIDE_ZMON = os.path.abspath(os.path.join(AUTOLOAD, "../../.."))  # noqa: PTH100, PTH118 - zmon/probe/autoload
# The pid of `zmon run`, and a random part, because containers that share a network may have the same pids.
# The process that prints a message removes the variable, so that its children print none.
RUN_PID = "ZMON_RUN_PID"
RANK_PID = "ZMON_RANK_PID"  # the pid of the Python process that a launcher started as a rank, until it imports torch
PARENT_PID = "ZMON_PARENT_PID"  # the pid of a watched process, in the environment of those below it
OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 9)
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")  # a process with all of them is a rank and not a launcher


def switched_off(environ: "Mapping[str, str]" = os.environ) -> bool:
    """Return True if ZMON_DISABLED switches zmon off."""
    return environ.get("ZMON_DISABLED", "") not in ("", "0")


def is_command(environ: "Mapping[str, str]" = os.environ) -> bool:
    """Return True if this process is the one that `zmon run` became."""
    return environ.get(RUN_PID, "").partition("-")[0] == str(os.getpid())


def is_launched_rank() -> bool:
    """Return True if torchrun, or a similar launcher, started this process as a rank."""
    return all(name in os.environ for name in RANK_VARIABLES)


def attaches_at_once() -> bool:
    """Return True if this process is a rank as soon as it imports torch.

    A launcher may start a wrapper, which starts the trainer. A child of such a process is a rank only if it trains: it
    may as well prepare the data.
    """
    pid = str(os.getpid())
    return is_launched_rank() and os.environ.get(RANK_PID, pid) == pid and not is_below_rank()


def is_below_rank() -> bool:
    """Return True if a watched process started this one, or one above it: then it is a rank only if it joins others."""
    pid = str(os.getpid())
    return os.environ.get(PARENT_PID, pid) != pid


def mark_environment() -> None:
    """Let the processes below this one be watched as ranks only if they join a process group."""
    os.environ.pop(RUN_PID, None)
    os.environ.pop(RANK_PID, None)
    os.environ[PARENT_PID] = str(os.getpid())


def restore_environment() -> None:
    """Restore os.environ to its state before `zmon run`, so that children of this rank are not watched."""
    for name in (RUN_PID, RANK_PID, PARENT_PID):
        os.environ.pop(name, None)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if AUTOLOAD in paths:
        paths.remove(AUTOLOAD)
        if paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        else:
            del os.environ["PYTHONPATH"]


class TorchFinder:
    """An import finder that starts the watch once torch is imported, and finds zmon only beside this file.

    It stays in sys.meta_path. If it were removed during an import in another thread, that import would skip a finder.
    """

    def __init__(self, may_speak: bool) -> None:
        self._may_speak = may_speak
        self._searching = False
        self._done = False

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Return the spec of torch or zmon; None for all other modules, which the other finders find."""
        if name == "zmon" and sys.version_info >= OLDEST_PYTHON:
            from importlib.machinery import PathFinder

            return PathFinder.find_spec(name, [BESIDE_ZMON])
        if name != "torch" or self._searching or self._done:
            return None
        self._searching = True  # another finder may itself search all finders; it must not come back here
        try:
            spec = self._search_others(path, target)
        finally:
            self._searching = False
        try:
            self._wait_for(spec)
        except Exception as error:
            self.say(f"this job is not watched: {error!r}")
        return spec

    def say(self, line: str) -> None:
        """Write one line to stderr, once in this process and never in its children."""
        if self._may_speak and sys.stderr is not None:
            self._may_speak = False
            os.environ.pop(RUN_PID, None)
            try:  # noqa: SIM105 - contextlib takes long to import
                # Not through Python's buffer: if that cannot be flushed at exit, the exit code changes.
                os.write(sys.stderr.fileno(), ("zmon: " + line + "\n").encode("utf-8", "replace"))
            except (OSError, ValueError, AttributeError):  # stderr is closed or broken
                pass

    def _search_others(self, path: "Any", target: "Any") -> "Any":
        for finder in list(sys.meta_path):
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec("torch", path, target)
                if spec is not None:
                    return spec
        return None

    def _wait_for(self, spec: "Any") -> None:
        """Let the loader of torch start the watch once it has executed torch, or say why that is not possible."""
        loader = getattr(spec, "loader", None)
        python = f"Python {sys.version_info[0]}.{sys.version_info[1]} ({sys.executable})"
        if sys.version_info < OLDEST_PYTHON:
            self.say(f"{python} is not watched: this version is too old. Use 3.11 or newer")
        elif loader is None:
            self.say(f"{python} is not watched: it has no torch. Run the job with the Python that has it")
        else:
            execute = loader.exec_module

            def exec_module(module: object) -> None:
                vars(loader).pop("exec_module", None)  # restores the loader
                execute(module)
                self._watch(module)

            loader.exec_module = exec_module

    def _watch(self, torch: "Any") -> None:
        """Install the hooks of zmon into this torch, or say why that is not possible."""
        if self._done:  # another finder wraps loaders too and had this one wrapped twice
            return
        self._done = True
        try:
            version = torch.__version__
            if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_TORCH:
                self.say(f"this job is not watched: torch {version} is too old. Use 2.9 or newer")
            else:
                import importlib

                importlib.import_module("zmon.probe.hooks").watch()
        except Exception as error:
            self.say(f"this job is not watched: {error!r}")


def begin() -> None:
    """Wait for torch, unless zmon is switched off."""
    if switched_off():
        restore_environment()
    else:
        if is_launched_rank():
            os.environ.setdefault(RANK_PID, str(os.getpid()))
        finder = TorchFinder(may_speak=RUN_PID in os.environ)
        sys.meta_path.insert(0, finder)
        if is_command():  # report at once if it has no torch
            try:  # noqa: SIM105 - as above
                finder.find_spec("torch")
            except Exception:  # a finder of the job fails; it will fail again when the job imports torch
                pass


def run_next_sitecustomize() -> None:
    """Import the sitecustomize that Python would have imported without zmon; `site` handles what it raises."""
    zmon_module = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = zmon_module  # there is no other


if __name__ == "sitecustomize":  # not when zmon imports it as zmon.probe.autoload.sitecustomize
    sys.path[:] = [path for path in sys.path if path != AUTOLOAD]
    begin()
    run_next_sitecustomize()
