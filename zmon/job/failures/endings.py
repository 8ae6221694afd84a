"""Classify what kernel, schedulers, launchers and libraries print when a process ends without an exception. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from zmon.job.failures.output import MAX_TEXT, Line
from zmon.job.failures.texts import Rules, rules

# Words with which a launcher or library only guesses the reason.
_GUESS = re.compile(
    r"potential root causes|might (have|be)\b(?! (incorrect|asynchronous|caused by insufficient shared))|likely"
    r"|possibly"
)
# Nothing that the job printed can contradict these.
CERTAIN = rules(
    ("host_memory", (
        r"detected \d+ oom[_-]kill", r"oom[_-]kill event", r"\bOOMKilled\b", r"task \d+: Out Of Memory",
        r"OUT_OF_MEMORY", r"out of memory: killed process", r"memory cgroup out of memory", r"oom-kill:",
        r"Killed process \d+", r"exceeded (job |step )?memory limit", r"TERM_MEMLIMIT", r"job killed: v?mem",
        r"MemoryLimit exceeded", r"Exceeded .*memory.* limit")),
)  # fmt: skip
# Lines of the kernel's log that name the reason, such as the XIDs of a GPU that fails.
KERNEL = rules(
    ("host_memory", (r"killed process \d+", r"out of memory", r"oom-kill", r"oom_reaper")),
    ("device_error", (
        r"Xid \([^)]*\): (48|61|62|64|74|79|92|94|95|109|119|120|122|123|124|136|140|143|145|149|154)\b",
        r"fallen off the bus", r"uncorrectable")),
)  # fmt: skip
# Lines of the kernel's log that may be a consequence of the failure.
KERNEL_HINTS = rules(
    ("device_error", (r"Xid \([^)]*\): (8|13|31|32|43|69)\b",)),
    ("native_crash", (r"segfault at", r"general protection", r"traps: .* trap")),
    ("storage", (r"I/O error", r"nfs: server .* not responding", r"(EXT4|XFS|BTRFS)\S* .*error", r"lustre.*error")),
)  # fmt: skip
SCHEDULER = rules(
    ("time_limit", (
        r"DUE TO TIME ?LIMIT", r"\bDeadlineExceeded\b", r"wall(time|clock)\b.* exceeded", r"TERM_RUNLIMIT",
        r"MaxRuntimeExceeded", r"exceeded wall ?(time|clock)")),
    ("preemption", (
        r"DUE TO (PREEMPTION|JOB REQUEUE)", r"reason: +(Evicted|Preempt\w*)", r"was evicted",
        r"node was low on resource", r"node had condition: \[", r"spot (instance )?interruption",
        r"TerminationByKubelet", r"imminent node shutdown", r"(node|instance|VM) .*preempted", r"preempted by \w")),
    ("node_failure", (
        r"DUE TO NODE ?FAIL\w*", r"error: Node failure on", r"node .*was terminated", r"\bnode has (died|crashed)",
        r"has been marked dead", r"\bNodeLost\b")),
)  # fmt: skip
# What aborts a process whose peers then lose their connections.
BREAKING = rules(
    ("host_limit", (
        r"insufficient shared memory", r"error while creating shared memory", r"\bbus error\b", r"\bSIGBUS\b",
        r"(code|status)\W+-7\b", r"signal 7\b", r"exit code:? 135\b", r"too many open files", r"can't start new thread",
        r"fork: (retry: )?resource temporarily")),
    ("device_memory", (r"\b(CUDA|HIP|GPU|device) (error[ \d]*: )?out of memory", r"OutOfMemoryError")),
    ("disk_full", (r"no space left on device", r"disk quota exceeded")),
    ("assertion", (r"device-side assert", r"Assertion `.*` failed")),
    ("device_error", (
        r"illegal memory access", r"unspecified launch failure", r"Uncorrectable ECC", r"fallen off the bus",
        r"CUDA (driver )?error", r"Cuda failure", r"no CUDA-capable device", r"memory access fault by GPU",
        r"device handle for GPU", r"nvml error", r"could not select device driver", r"unhandled cuda error")),
    ("collective_timeout", (
        r"watchdog caught collective operation timeout", r"\w+ ran for \d+ milliseconds before timing out",
        r"heartbeat monitor timed out", r"watchdog got stuck for \d+", r"due to watchdog timeout",
        r"timeout at NCCL work", r"due to collective timeout")),
    ("diverged", (
        r"\bloss is \W{0,8}(nan|inf)", r"(stopping|stop|abort\w*|exit\w*)[^\n]{0,40}\b(nan|inf)\b",
        r"\b(nan|inf)\b[^\n]{0,60}(stopping|stop training|abort|exiting|terminat)", r"loss scale already at minimum",
        r"non-?finite loss", r"\b(nan|inf) is not finite")),
)  # fmt: skip
# The ends of processes without an exception of Python, the most certain ones first.
PROCESS_ENDS = (*BREAKING, *rules(
    ("assertion", (r"Assertion `.*' failed",)),  # of glibc
    ("rendezvous", (
        r"address already in use", r"RendezvousTimeoutError", r"client socket has (timed out|failed)",
        r"rendezvous .* failed", r"clients joined", r"failed to listen on any", r"connectFullMesh failed",
        r"failed to bind", r"ORTE was unable to reliably start")),
    ("killed", (
        r"(code|status)\W+-9\b", r"signal:? 9\b", r"Signals\.SIGKILL", r"terminated with signal SIGKILL", r"^Killed$",
        r"line \d+: +\d+ Killed\b", r"\d+ killed +\S")),
    ("configuration", (
        r"^(?!slurmstepd|srun|sbatch|scancel|bash|ERROR)[\w./-]+( [\w-]+)?: error: ",
        r"unrecognized (arguments|options)", r"arguments are required",
        r"\b(sbatch|srun): error: .*(invalid|unrecognized|requested)", r"could not override",
        r"Primary config \w+ not found", r"^Usage: ", r"unknown option",
        r"^Error: (No such|Invalid value|Missing (option|argument|parameter))", r"could not consume arg")),
    ("missing_module", (
        r"No module named \S+$", r"error while loading shared libraries", r"version `GLIBC\S* not found",
        r"undefined symbol")),
    ("host_memory", (
        r"std::bad_alloc", r"can't allocate memory", r"cannot allocate memory", r"killed due to memory pressure")),
    ("native_crash", (
        r"segmentation fault", r"\bSIGSEGV\b", r"Fatal Python error", r"Windows fatal exception", r"double free",
        r"corrupted (size|double|unsorted)", r"free\(\): invalid", r"malloc\(\): ", r"munmap_chunk",
        r"illegal instruction", r"\bSIGILL\b", r"floating point exception", r"core dumped", r"\bSIGFPE\b",
        r"stack smashing", r"\b(0x)?(3221225477|3221226505|3221225725|C0000005|C0000409)\b", r"\bSIGABRT\b",
        r"(code|status)\W+-(11|4|8|6)\b", r"\bsignal (11|4|8|6)\b", r"exit(ed)? (with )?(exit )?code:? (139|134)\b",
        r"terminate called", r"pure virtual method", r"(^|\d |: )Aborted( \(|$| {2})")),
    ("missing_file", (r"can't open file", r"command not found", r"\bNo such file or directory", r"file not found")),
    ("permission", (r"permission denied",)),
    ("connection_lost", (
        r"closed by peer \[", r"nccl(Remote|System|Internal)Error", r"connection reset by peer", r"broken pipe",
        r"remote process exited", r"recvValue failed", r"lost (connection|communication)",
        r"socket closed unexpectedly")),
    ("killed", (
        r"\*\*\* (JOB|STEP) \S+ (ON \S+ )?CANCELLED", r"\bSIGKILL\b", r"(code|status)\W+-(15|2)\b", r"\bKilled\b",
        r"\bSIGTERM\b", r"signal 15\b", r"KeyboardInterrupt", r"\bSIGINT\b", r"exit code:? (130|137|143)\b",
        r"got signal: (1|2|9|15)\b", r"^Terminated\b")),
))  # fmt: skip
# Events that launchers report as warnings.
LAUNCHER_WARNINGS = rules(
    ("killed", (r"received \S+ death signal", r"\^C(Traceback|$)")),
    ("collective_timeout", (r"Stalled (ranks|ops):",)),
)  # fmt: skip
# What a rank prints as a warning when its peers are gone, if nothing else says more.
LOST_PEERS = rules(
    ("connection_lost", (
        r"(recvValue|sendBytes|recvBytes|waitForInput) failed", r"Horovod has been shut down",
        r"NET/IB\b.* Got completion .*(error|status)")),
)  # fmt: skip
# The line in which a launcher reports how the first process ended. Then it kills the others, which says nothing of the
# cause.
_FIRST_EXIT = re.compile(r"(?<!error )(code|status)[ :=]+-?[1-9]\d?\b|non-zero status", re.IGNORECASE)
_STATUSES = rules(
    ("host_limit", (r"signal SIGBUS", r"exit code 135$")),
    ("native_crash", (r"signal SIG(SEGV|ILL|FPE|ABRT|SYS|TRAP)", r"exit code (139|134|132|136)$")),
    ("killed", (r"signal SIG\w+", r"exit code (137|143|130|129|131)$")),
    ("missing_file", (r"exit code 127$",)),
    ("permission", (r"exit code 126$",)),
)  # fmt: skip


class Answer(NamedTuple):
    """The class that a clue shows."""

    name: str
    clue: str  # the line that decided


def by_lines(table: Rules, lines: Sequence[Line], with_warnings: bool = False) -> Answer | None:
    """Return the class of the first row that matches a line, and the last such line."""
    first_exit = next((index for index, line in enumerate(lines) if _FIRST_EXIT.search(line.text)), len(lines))
    for name, pattern in table:
        for line in reversed(lines[: first_exit + 1] if name == "killed" else lines):
            if (with_warnings or not line.is_warning) and pattern.search(line.text) and not _GUESS.search(line.text):
                return Answer(name, line.text)
    return None


def by_texts(table: Rules, texts: Sequence[str]) -> Answer | None:
    """Return the class of the first row that matches a text, and the last such text."""
    return by_lines(table, [Line(number, "", text[:MAX_TEXT], False) for number, text in enumerate(texts)])


def by_status(status: str | None) -> Answer | None:
    """Return the class of an exit status, for a process that printed nothing."""
    return by_texts(_STATUSES, [status] if status else [])
