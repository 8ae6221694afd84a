"""The errors of zmon. Each is one line: what failed, the likely cause, the next step.

    ZmonError
    ├── UsageError         the command or request is invalid (exit code 2)
    ├── BoxError           a black box cannot be used
    │   ├── BoxUnavailable no box can be made: no space, no permission, or another run holds it
    │   ├── BoxVersion     written by another version of zmon
    │   └── BoxCorrupt     not a box, or damaged
    │       └── BoxRefused undamaged, but claims a rank or a size that no job has
    ├── SourceUnavailable  a source of the agent has nothing to read on this machine
    ├── Unreachable        an agent, a hub or Prometheus gave no usable answer
    │   ├── NotListening   the host is up, and nothing listens on this port
    │   ├── NotServed      a server answers, but has no such page
    │   ├── Forbidden      the API server of Kubernetes refuses the request, because a right is missing
    │   └── Gone           the API server of Kubernetes no longer knows the changes since that version
    └── PartFailed         a part of the stack did not start or died

The line is made plain, because it repeats paths, names and messages from outside. Errors are caught once, at the edge:
in the command line, the agent's loop, and the probe's public functions. Where an optional package is missing, the next
step is the command that installs it.
"""

from __future__ import annotations

import importlib.util
import sys

from zmon.format import plain

# The names in pyproject.toml, and in that of deploy/probe/ and deploy/lab/. docs/deploy/packages.md: why not `zmon`.
DISTRIBUTION, PROBE_DISTRIBUTION, LABORATORY_DISTRIBUTION = "zmon-training", "zmon-probe", "zmon-lab"


class ZmonError(Exception):
    """The base of all errors: one line for a person, `what failed: likely cause. next step`."""

    def __init__(self, what: str, cause: str = "", next_step: str = "") -> None:
        line = what
        if cause:
            line += f": {cause}"
        if next_step:
            line += f". {next_step}"
        super().__init__(plain(line))
        self.next_step = next_step


class UsageError(ZmonError):
    """The command or request is invalid; a command exits with code 2."""


class BoxError(ZmonError):
    """A black box cannot be used."""


class BoxUnavailable(BoxError):
    """No box can be made; the job continues to train without one."""


class BoxVersion(BoxError):
    """The box was written by another version of zmon."""


class BoxCorrupt(BoxError):
    """The file is not a box, or is damaged; none of its content is used."""


class BoxRefused(BoxCorrupt):
    """The box is undamaged, but its identity claims a rank or a size that no job has; none of its content is used."""


class SourceUnavailable(ZmonError):
    """The machine has nothing for this source to read."""


class Unreachable(ZmonError):
    """A daemon or another server gave no usable answer.

    It did not answer in time, or with an error status such as 500, or not with the expected JSON. An agent also raises
    this error while it cannot read the boxes.
    """


class NotListening(Unreachable):
    """The host has refused the connection: the host is up, and no program listens on this port."""


class NotServed(Unreachable):
    """A daemon answers, but has no such page: it has another version, or the subject of the request is gone."""


class Forbidden(Unreachable):
    """The API server of Kubernetes refuses the request, because the service account lacks a right."""


class Gone(Unreachable):
    """The API server of Kubernetes no longer knows the changes since a version, so the objects are listed again."""


class PartFailed(ZmonError):
    """A part of the stack did not start, or died."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra into the Python that runs zmon.

    It names this Python, because the pip of another one would install all of zmon again, there.
    """
    return f"{sys.executable} -m pip install '{DISTRIBUTION}[{extra}]'"


def is_installed(module: str) -> bool:
    """Return True if a top-level module can be imported; it is not imported."""
    return importlib.util.find_spec(module) is not None


def need(module: str, part: str, extra: str) -> None:
    """Raise PartFailed with the command to run if a module of a part is missing."""
    if not is_installed(module):
        raise PartFailed(f"{part} cannot run", f"{module} is not installed", f"Run {install_command(extra)}")
