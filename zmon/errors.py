"""What can go wrong, said in one line: what failed, the likely cause, the next step.

    ZmonError
    ├── UsageError         the person asked for something that cannot be (exit 2)
    ├── BoxError           a black box cannot be used
    │   ├── BoxUnavailable no box can be made: no room, no permission, another run holds it
    │   ├── BoxVersion     written by another version of zmon
    │   └── BoxCorrupt     not a box, or damaged
    ├── SourceUnavailable  a source of the agent has nothing to read on this machine
    ├── Unreachable        an agent, hub or Prometheus did not answer
    │   └── NotServed      it answers, and has no such page
    └── PartFailed         a part of the stack did not start or died

They are caught once, at the edge (command line, agent loop, probe door).
"""

from __future__ import annotations


class ZmonError(Exception):
    """One line for a person: `what failed: likely cause. next step`."""

    def __init__(self, what: str, cause: str = "", next_step: str = "") -> None:
        line = what
        if cause:
            line += f": {cause}"
        if next_step:
            line += f". {next_step}"
        super().__init__(line)


class UsageError(ZmonError):
    """The person asked for something that cannot be; the command exits with 2."""


class BoxError(ZmonError):
    """A black box cannot be used."""


class BoxUnavailable(BoxError):
    """No box can be made here; the job trains on without one."""


class BoxVersion(BoxError):
    """The box was written by another version of zmon."""


class BoxCorrupt(BoxError):
    """The file is no box, or is damaged; nothing in it is believed."""


class SourceUnavailable(ZmonError):
    """This machine has nothing for the source to read."""


class Unreachable(ZmonError):
    """A daemon did not answer in time."""


class NotServed(Unreachable):
    """A daemon answers and has no such page: it is of another version, or what is asked about is gone."""


class PartFailed(ZmonError):
    """A part of the stack did not start, or died."""
