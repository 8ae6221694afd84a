"""What every Python of a job runs at its start under `zmon run`: wait until torch is imported, then watch.

Python's `site` imports this file in place of the job's own sitecustomize, which runs right after it as it would have.
Nothing here raises into the job. Any Python 3.6 can read this file, and it imports nothing at the start: a Python that
never needs torch should not notice it.
"""

import os
import sys

TYPE_CHECKING = False  # importing typing would take longer than all of this
if TYPE_CHECKING:
    from typing import Any

AUTOLOAD = os.path.dirname(__file__)  # noqa: PTH120 - pathlib, too
BESIDE_ZMON = os.path.abspath(os.path.join(AUTOLOAD, "../../.."))  # noqa: PTH100, PTH118 - zmon/probe/autoload
RUN_PID = "ZMON_RUN_PID"  # the command that `zmon run` became; gone once something was said, for once is enough
OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 9)
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")  # all of them are set: a rank, and no launcher of ranks


def switched_off() -> bool:
    """Whether ZMON_DISABLED says so."""
    return os.environ.get("ZMON_DISABLED", "") not in ("", "0")


def launched() -> bool:
    """Whether torchrun or its like started this process as a rank; they set these for ranks, and for nobody else."""
    return all(name in os.environ for name in RANK_VARIABLES)


def restore_environment() -> None:
    """Make os.environ what it was before `zmon run`: children of this process are not watched."""
    os.environ.pop(RUN_PID, None)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if AUTOLOAD in paths:
        paths.remove(AUTOLOAD)
        if paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        else:
            del os.environ["PYTHONPATH"]


class TorchFinder:
    """Finds torch where it is, and has it watched once it is imported; finds zmon beside this file and nowhere else.

    It stays among the finders: taking one away under a running import of another thread makes that one skip the next.
    """

    def __init__(self, may_speak: bool) -> None:
        self._may_speak = may_speak
        self._asks = False
        self._done = False

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """The spec of torch or zmon; None for all else, which the other finders know."""
        if name == "zmon" and sys.version_info >= OLDEST_PYTHON:
            from importlib.machinery import PathFinder

            return PathFinder.find_spec(name, [BESIDE_ZMON])
        if name != "torch" or self._asks or self._done:
            return None
        self._asks = True  # a finder that asks all finders must not come back here
        try:
            spec = self._ask_others(path, target)
        finally:
            self._asks = False
        try:
            self._wait_for(spec)
        except Exception as error:
            self.say(f"this job is not watched: {error!r}")
        return spec

    def say(self, line: str) -> None:
        """One line on stderr, once in this process and not in those it starts."""
        if self._may_speak and sys.stderr is not None:
            self._may_speak = False
            os.environ.pop(RUN_PID, None)
            try:  # noqa: SIM105 - contextlib takes long to import
                # Past Python's buffer: what that cannot get rid of at the end changes the exit code.
                os.write(sys.stderr.fileno(), ("zmon: " + line + "\n").encode("utf-8", "replace"))
            except (OSError, ValueError, AttributeError):  # a stderr that is closed or broken is no reason to fail
                pass

    def _ask_others(self, path: "Any", target: "Any") -> "Any":
        for finder in list(sys.meta_path):
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec("torch", path, target)
                if spec is not None:
                    return spec
        return None

    def _wait_for(self, spec: "Any") -> None:
        loader = getattr(spec, "loader", None)
        python = f"Python {sys.version_info[0]}.{sys.version_info[1]} ({sys.executable})"
        if sys.version_info < OLDEST_PYTHON:
            self.say(f"{python} is not watched: it is too old. Use 3.11 or newer")
        elif loader is None:
            self.say(f"{python} is not watched: it has no torch. Run the job with the Python that has it")
        else:
            execute = loader.exec_module

            def exec_module(module: object) -> None:
                vars(loader).pop("exec_module", None)  # the loader is again as it was
                execute(module)
                self._watch(module)

            loader.exec_module = exec_module

    def _watch(self, torch: "Any") -> None:
        if self._done:  # another finder that wraps loaders had this one wrapped twice
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
    """Wait for torch, unless zmon is switched off; a rank looks as it would without `zmon run`."""
    run_pid = os.environ.get(RUN_PID)
    if switched_off() or launched():
        restore_environment()
    if not switched_off():
        finder = TorchFinder(may_speak=run_pid is not None)
        sys.meta_path.insert(0, finder)
        if run_pid == str(os.getpid()):  # the command itself: say at once if it has no torch
            try:  # noqa: SIM105 - as above
                finder.find_spec("torch")
            except Exception:  # a finder of the job's own fails; it will again where the job can see it
                pass


def run_next_sitecustomize() -> None:
    """The one that Python would have found, in its place; what it raises is for `site` to handle, as ever."""
    this = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = this  # there is none


if __name__ == "sitecustomize":  # not when zmon itself imports restore_environment
    sys.path[:] = [path for path in sys.path if path != AUTOLOAD]
    begin()
    run_next_sitecustomize()
