"""The command under `zmon watch`: its start, the signals that reach it, and its end, all as under `zmon run`.

The command is a child in the process group of watch, so the terminal sends its signals to both. Watch blocks these
signals and reads them one by one. What the terminal has sent is not sent again; any other signal was meant for the
command and is forwarded once. Standard library only: the command must have started before anything large is imported.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from zmon.probe.autoload.sitecustomize import RUN_PID, switched_off
from zmon.probe.run import become_or_exit, new_run_pid
from zmon.probe.run_check import check_beside
from zmon.process import process_stat

_SI_KERNEL = 0x80  # si_code of a signal that the kernel sent by itself, as for Ctrl-C (sigaction(2))
_SI_QUEUE = -1  # si_code of a signal whose fields the sender has chosen
_RT_SIGQUEUEINFO = {"x86_64": 129, "aarch64": 138}  # number of the system call, for which libc has no function
_SIGINFO, _SIGINFO_BYTES = struct.Struct("iii4xiI"), 128  # signal, errno, code, pid, uid
_FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_JOB_CONTROL = (signal.SIGTSTP, signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class SentSignal:
    """A signal that watch received for the command."""

    name: str
    sender: str  # `the terminal`, or `process 812 (timeout)`
    time: float  # unix seconds


@dataclass
class Child:
    """The command, while it runs."""

    pid: int
    signals: list[SentSignal] = field(default_factory=list)  # received for the command, the oldest first
    status: int | None = None  # as waitpid returns it; None while the command runs
    ended: float = 0.0  # unix seconds
    refused: bool = False  # the command could not be started, and a message has said why
    _handled: tuple[signal.Signals, ...] = ()  # blocked in this process, which reads them one by one
    _refusal: int = -1  # a pipe from which one byte comes if the command cannot be started

    @classmethod
    def start(cls, command: Sequence[str], env: Mapping[str, str], output: int | None = None) -> Child:
        """Start the command. No other thread may run yet, because a fork copies only the thread that calls it.

        `output`: the file that the command writes to; None: it has stdin, stdout and stderr of watch.
        """
        numbers = (*_FORWARDED, *_JOB_CONTROL)
        handled = (*(n for n in numbers if signal.getsignal(n) is not signal.SIG_IGN), signal.SIGCHLD)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
        refusal, refuse = os.pipe()  # exec closes both ends
        pid = os.fork()
        if pid == 0:
            _become(command, env, mask, refuse, output)
        os.close(refuse)
        return cls(pid, _handled=handled, _refusal=refusal)

    def wait(self) -> None:
        """Wait for the end of the command, and forward the signals that are meant for it."""
        while self.status is None:
            # Not sigtimedwait, which returns random bytes if watch was stopped and continued (CPython 3.11).
            info = signal.sigwaitinfo(self._handled)
            if info.si_signo != signal.SIGCHLD:
                self._pass_on(info)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status, self.ended = status, time.time()
        os.set_blocking(self._refusal, False)  # what the command has left behind may hold the other end
        with contextlib.suppress(BlockingIOError):
            self.refused = bool(os.read(self._refusal, 1))
        os.close(self._refusal)

    def take_signals(self) -> bool:
        """Take the signals that have arrived since the command ended, and return True if there was any.

        They are meant for watch, and are not forwarded. The end of another child does not count.
        """
        pending = signal.sigpending() & {*self._handled}
        for _ in pending:
            signal.sigwaitinfo(pending)
        return bool(pending - {signal.SIGCHLD})

    def _pass_on(self, info: signal.struct_siginfo) -> None:
        """Note a signal, forward it if the command has not got it already, and stop if it is SIGTSTP."""
        number = info.si_signo
        by_kernel = info.si_code == _SI_KERNEL
        if number == signal.SIGCONT:
            stat = process_stat(self.pid)
            if stat is None or stat.state != "T":  # a shell continues the whole group
                return
        elif number != signal.SIGTSTP:
            sender = "the terminal" if by_kernel else _process(info.si_pid)
            self.signals.append(SentSignal(signal.Signals(number).name, sender, time.time()))
        # When a terminal goes, the kernel signals only its session leader, as watch is under ssh without a shell.
        is_only_recipient = number == signal.SIGHUP and os.getsid(0) == os.getpid()
        if not by_kernel or is_only_recipient:
            _forward(self.pid, info)  # not reaped yet, so the pid is its own
        if number == signal.SIGTSTP:
            _stop()

    def end_as_command(self, code_of_success: int) -> NoReturn:
        """End this process as the command ended: with its exit code, or by its signal.

        `code_of_success`: the exit code if that of the command is 0.
        """
        assert self.status is not None
        code = os.waitstatus_to_exitcode(self.status) or code_of_success
        if code < 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has left its own
            number = -code
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
            os.kill(os.getpid(), number)
            code = 128 + number  # reached only if the signal does not end this process
        os._exit(code)


def _become(
    command: Sequence[str], env: Mapping[str, str], mask: set[int | signal.Signals], refuse: int, output: int | None
) -> NoReturn:
    """Become the command, in the child. Never returns to the code of watch."""
    try:
        if output is not None:
            sys.stderr = os.fdopen(os.dup(2), "w")  # for the message if the command cannot be started
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C before exec
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        env = {**env, RUN_PID: new_run_pid()}
        if not switched_off():
            check_beside(env[RUN_PID])
        become_or_exit(command, env, "watch")
    except SystemExit as leave:
        os.write(refuse, b"1")
        os._exit(leave.code if isinstance(leave.code, int) else 1)
    except BaseException as error:
        print(f"zmon: cannot start the command: {error!r}", file=sys.stderr, flush=True)
        os._exit(126)


def _forward(pid: int, info: signal.struct_siginfo) -> None:
    """Send a signal as it came, with the pid of its sender. The ranks record this pid, to tell who ended the job.

    The pid is no proof, because any process may write any pid there (rt_sigqueueinfo(2), SI_QUEUE).
    """
    number = _RT_SIGQUEUEINFO.get(os.uname().machine)
    if number is not None and info.si_code != _SI_KERNEL:
        import ctypes  # takes longer than all else here, and few commands are signalled

        raw = _SIGINFO.pack(info.si_signo, 0, _SI_QUEUE, info.si_pid, info.si_uid).ljust(_SIGINFO_BYTES, b"\0")
        if ctypes.CDLL(None).syscall(number, pid, int(info.si_signo), raw) == 0:
            return
    os.kill(pid, info.si_signo)


def _stop() -> None:
    """Stop this process by SIGTSTP. Unlike SIGSTOP, it is without effect if no shell could continue the process."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})


def _process(pid: int) -> str:
    """Return the pid and the name of a process as text."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - no pathlib yet
            return f"process {pid} ({file.read().strip()})"
    except OSError:
        return f"process {pid}"
