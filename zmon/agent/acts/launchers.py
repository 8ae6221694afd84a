"""Find the launcher of a rank, and check whether it may be ended.

The box of a rank claims a launcher. `python train.py` from a shell makes the shell of its user that process, so a claim
is not enough: the process must be one that starts ranks, and nothing else may depend on it.

- A launcher that restarts ranks (torchrun) is any process except a shell or a notebook. Proof: it is above a living
  rank, or a process below it has the variables that torchrun gives to ranks.
- A launcher of several ranks without restarts (mpirun, mp.spawn) also has no terminal and leads no session. Proof: it
  is above two living ranks that name it.
- A single rank without restarts has no launcher.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from zmon.agent.acts.processes import PROC, STOPPED, Facts, HeldProcess, Refused, check_environment
from zmon.agent.acts.target import RankTarget
from zmon.agent.sources.reading import text_of
from zmon.process import children

_RESTARTS = b"TORCHELASTIC_RESTART_COUNT="  # torchrun gives it to each of its ranks
_LEAST_RANKS = 2  # ranks below a launcher that does not restart them
_MAX_PROCESSES = 256  # processes below a launcher that are examined
_GENERATIONS = 4  # launcher → numactl or a shell → rank
# What a shell does next is up to the person or script that uses it. busybox is the shell of small images.
_SHELLS = frozenset(
    "ash bash busybox csh dash fish ksh ksh93 login mksh rbash screen sh sshd su sudo tcsh tmux xonsh zsh".split()  # noqa: SIM905
)
_NOTEBOOKS = ("ipykernel", "ipython", "jupyter")  # a person would lose the variables in their memory


def hold_launcher(target: RankTarget, living: Sequence[RankTarget]) -> HeldProcess:
    """Return the launcher of a rank, opened and checked. `living`: the living ranks that name it. Raises Refused."""
    pid, start_ticks = target.launcher
    if target.holder == 0 or (target.holder is not None and target.holder != target.pid):
        raise Refused(
            f"rank {target.rank} is in another PID namespace, where process {pid} is another one: end the job with "
            "what started it"
        )
    if pid <= 1 or start_ticks <= 0:
        raise Refused(f"the box of rank {target.rank} names no launcher")
    held = HeldProcess(pid, f"the launcher of rank {target.rank}")
    try:
        _check(held, target, living)
    except BaseException:
        held.close()
        raise
    return held


def _check(held: HeldProcess, target: RankTarget, living: Sequence[RankTarget]) -> None:
    """Raise Refused unless the process is the target's launcher, runs as its owner, and the job has no other healer."""
    facts = held.facts()
    uids = frozenset(uid for thread in facts.threads.values() for uid in thread.uids)
    if facts.stat.start_ticks == target.launcher.start_ticks and target.owner not in uids:
        raise Refused(
            f"the launcher, process {held.pid}, runs as uid {min(uids)} and not as uid {target.owner}: end the job "
            "with what started it, such as scancel"
        )
    facts = held.check(target.owner, target.launcher.start_ticks)
    if facts.stat.state == STOPPED:
        raise Refused(f"the launcher, process {held.pid}, is stopped: its owner has suspended the job")
    _check_kind(held, facts, target)
    below = [rank for rank in living if rank.holder == rank.pid and _is_below(rank, held.pid)]
    environments = _environments(held.pid, target.owner)
    if not _is_proved(target, len(below), environments):
        raise Refused(f"it is not proved that process {held.pid} is a launcher: too few of its ranks live now")
    for rank in below:
        with HeldProcess(rank.holder or 0, f"rank {rank.rank}") as process:
            process.check_healer()
    for environment in environments:
        check_environment(environment)


def _is_proved(target: RankTarget, num_ranks_below: int, environments: Sequence[bytes]) -> bool:
    """Return True if the processes below the target's launcher prove that it is one, by the rules of this module."""
    if target.max_restarts is None:
        return num_ranks_below >= _LEAST_RANKS
    return num_ranks_below > 0 or any(_RESTARTS in environment for environment in environments)


def _check_kind(held: HeldProcess, facts: Facts, target: RankTarget) -> None:
    """Raise Refused if the process is of a kind on which more than the job may depend, such as a shell."""
    try:
        program = (PROC / str(held.pid) / "exe").readlink().name
    except OSError as error:
        raise Refused(
            f"it is not known what process {held.pid} is: its program cannot be read ({error.strerror})"
        ) from error
    if program in _SHELLS:
        raise Refused(f"process {held.pid}, which started rank {target.rank}, is a shell ({program}) and no launcher")
    command = text_of(PROC / str(held.pid) / "cmdline").strip("\0").split("\0")
    if len(command) < 2 or any(Path(word).name.startswith(_NOTEBOOKS) for word in command):
        raise Refused(f"process {held.pid}, which started rank {target.rank}, is a notebook or an interpreter")
    if target.max_restarts is not None:
        return
    if target.world_size < 2:
        raise Refused(f"process {held.pid}, which started the only rank of {target.job_id}, is no launcher")
    if facts.stat.session == held.pid or facts.stat.terminal:
        raise Refused(
            f"process {held.pid} does not restart ranks and leads a session or has a terminal: more than the job may "
            "depend on it"
        )


def _is_below(rank: RankTarget, launcher_pid: int) -> bool:
    try:
        with HeldProcess(rank.holder or 0, f"rank {rank.rank}") as held:
            is_below = launcher_pid in (pid for pid, _ in held.ancestors())
            return is_below and held.facts().stat.start_ticks == rank.start_ticks
    except Refused:
        return False


def _environments(pid: int, owner: int) -> list[bytes]:
    """Return the environments of the processes below a launcher.

    A rank needs seconds until it has a box, so in a crash loop there may be none with a box at any moment.
    """
    environments = []
    for _, folder, _ in islice(children(pid, PROC / str(pid), PROC, _GENERATIONS), _MAX_PROCESSES):
        with contextlib.suppress(OSError):  # it has just ended, or is another user's
            if folder.stat().st_uid == owner:
                environments.append((folder / "environ").read_bytes())
    return environments
