"""The work of a rank that makes no progress, as its agent sees it. Frozen data only.

A hang and a pause look the same from outside. They differ in what the process does: a process that saves moves bytes,
a process that waits for a lock does nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from zmon.schema.limits import Seconds, Whole

# Kernel functions in which a thread waits for something on this host that another thread or process must do: a lock
# (futex(2)), the other end of a pipe (pipe(7)), the end of a child (wait(2)). Names may have a suffix, as in
# `futex_wait_queue` or `do_wait.part.0`. No clock and no packet ends these waits. The lock of a file (flock(2)) is not
# among them: a process of another job may hold it, and release it.
_LOCAL_WAITS = ("futex_", "pipe_", "anon_pipe_", "wait_for_partner", "fifo_open", "do_wait", "kernel_wait4")
# Kernel functions in which a process waits for the answer of a file system's server or of a driver. A local disk is not
# among them: it answers, however late.
_SERVER_WAITS = (
    "request_wait_answer", "fuse_", "__fuse_",  # FUSE
    "rpc_", "nfs", "__nfs",  # NFS
    "ceph_", "cl_", "ldlm_", "ptlrpc_", "osc_", "ll_",  # Ceph, Lustre
    "cifs_", "smb2_", "p9_", "cxiWait",  # SMB, 9p, GPFS
    "nv_", "nvidia_", "uvm_", "os_acquire_", "mlx5_", "ib_",  # drivers of GPUs and of InfiniBand
)  # fmt: skip
# Kernel functions in which a process waits for a page of a file.
_PAGE_WAITS = ("folio_wait_", "__folio_lock", "wait_on_page_", "__lock_page", "bit_wait", "io_schedule")
# File systems whose pages come from a server: their types as in mountinfo, which may have a suffix (`fuse.sshfs`).
_SERVER_FILE_SYSTEMS = (
    "fuse", "virtiofs", "nfs", "lustre", "ceph", "cifs", "smb3", "9p", "gpfs", "beegfs", "wekafs", "panfs", "afs",
    "orangefs",
)  # fmt: skip


class ProcessWork(msgspec.Struct, frozen=True):
    """The work of a process and its children so far, and the places where their threads wait now."""

    cpu_seconds: Seconds
    # Read and written by system calls or through mapped files, and by TCP; None: the agent may not read it.
    read_bytes: Whole | None
    written_bytes: Whole | None
    network_bytes: Whole | None
    processes: tuple[Whole, ...]  # pids of the process and its children
    switches: Whole | None  # how often the main thread has begun or stopped waiting
    # The kernel functions in which each thread that runs Python, and the main thread of each child, waits. "": it runs,
    # or the agent may not know.
    waits: tuple[str, ...]
    file: str | None = None  # the open file that was written last
    file_system: str | None = None  # its type, for the open file that the main thread reads or writes now


@dataclass(frozen=True, slots=True)
class WorkSigns:
    """The signs that a rank works, although it makes no progress."""

    read_bytes_per_second: float = 0.0
    written_bytes_per_second: float = 0.0
    network_bytes_per_second: float = 0.0
    file: str | None = None  # the open file that was written last
    in_other_code: bool = False  # its main thread is in other functions than a moment ago


@dataclass(frozen=True, slots=True)
class Standing:
    """The behaviour of a rank that makes no progress, since the hub looked at it first."""

    # For this long, all its stacks have been the same, and it and its children have used hardly any processor time and
    # moved hardly any data.
    unchanged_seconds: float = 0.0
    asleep_seconds: float = 0.0  # for this long, its main thread has been in one sleep
    waits: tuple[str, ...] = ()  # see `ProcessWork`
    wait_channel: str | None = None  # the kernel function in which its main thread waits
    file_system: str | None = None  # see `ProcessWork`
    in_debugger: bool = False  # its main thread is in pdb, which waits for a command
    work: WorkSigns | None = None  # what it did in the last seconds; None: nothing shows that it works

    @property
    def waits_for_its_host(self) -> bool:
        """True if all its threads and children wait for locks, pipes and each other, so that nothing will end it."""
        return bool(self.waits) and all(wait.startswith(_LOCAL_WAITS) for wait in self.waits)

    @property
    def waits_for_server(self) -> bool:
        """True if its main thread waits for the answer of a file system's server or of a driver."""
        if not self.wait_channel:
            return False
        is_served = (self.file_system or "").startswith(_SERVER_FILE_SYSTEMS)
        return self.wait_channel.startswith(_SERVER_WAITS) or (is_served and self.wait_channel.startswith(_PAGE_WAITS))
