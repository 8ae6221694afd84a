"""Thousands of reads or writes of one file in one system call: Linux AIO (io_submit(2)), by ctypes.

A call of `os.preadv` for each row takes four times as long and holds the interpreter lock between two rows. Each row
has an error code, unlike a row of a mapped file. The file is not opened with O_DIRECT. So the kernel copies from and to
its page cache while it accepts the requests, and a thread waits for the disk once for each request. A disk serves
several requests at a time, so several threads share the requests.
"""

from __future__ import annotations

import ctypes
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

READ, WRITE = 0, 1  # IOCB_CMD_PREAD, IOCB_CMD_PWRITE
MAX_CALLS = 128  # at a time; all contexts of a host share /proc/sys/fs/aio-max-nr
# Of a process. 4,000 reads of 4 KiB from a cold virtual disk took 255 ms in one thread, 138 in 4 and 129 in 8; when the
# disk was slower, 730 to 841 ms in one, 402 to 419 in 24 and 383 to 397 in 48.
_THREADS = 24
_MIN_REQUESTS = 16  # requests for one more thread
_CALL_NUMBERS = {  # of io_setup, io_submit, io_getevents, by machine
    "x86_64": (206, 209, 208),
    "aarch64": (0, 2, 4),
}
_REQUEST = np.dtype(
    [
        ("data", "<u8"), ("key", "<u4"), ("rw_flags", "<i4"), ("opcode", "<u2"), ("priority", "<i2"), ("file", "<u4"),
        ("buffer", "<u8"), ("num_bytes", "<u8"), ("offset", "<i8"), ("reserved", "<u8"), ("flags", "<u4"),
        ("event_file", "<u4"),
    ]
)  # fmt: skip  # struct iocb
_EVENT = np.dtype([("data", "<u8"), ("request", "<u8"), ("result", "<i8"), ("result2", "<i8")])  # struct io_event
_libc = ctypes.CDLL(None, use_errno=True)
_idle: SimpleQueue[ManyCalls] = SimpleQueue()  # one for each thread


def move(opcode: int, file: int, offsets: NDArray[np.int64], buffer: NDArray[np.uint8]) -> None:
    """Read or write a row of `buffer` (N, bytes) at each offset (N,). Raises OSError."""
    num_parts = min(_THREADS, max(1, len(offsets) // _MIN_REQUESTS))
    edges = [len(offsets) * part // num_parts for part in range(num_parts + 1)]
    parts = [slice(*pair) for pair in pairwise(edges)]
    moves = [threads().submit(_move, opcode, file, offsets[part], buffer[part]) for part in parts]
    for future in moves:
        future.result()


@cache
def threads() -> ThreadPoolExecutor:
    """Return the threads that move the rows of all files of this process. Raises OSError, as `ManyCalls` does."""
    for _ in range(_THREADS):
        _idle.put(ManyCalls())
    return ThreadPoolExecutor(_THREADS, "disk")


def _move(opcode: int, file: int, offsets: NDArray[np.int64], buffer: NDArray[np.uint8]) -> None:
    calls = _idle.get()
    try:
        for first in range(0, len(offsets), MAX_CALLS):
            calls.run(opcode, file, offsets[first : first + MAX_CALLS], buffer[first : first + MAX_CALLS])
    finally:
        _idle.put(calls)


class ManyCalls:
    """The requests of one thread, which the process keeps until it ends."""

    def __init__(self) -> None:
        """Raises OSError if the kernel has no room for more requests (/proc/sys/fs/aio-max-nr)."""
        self._context = ctypes.c_ulong(0)
        if platform.machine() not in _CALL_NUMBERS:
            raise OSError(0, f"the numbers of system calls of {platform.machine()} are not known")
        setup, self._submit, self._get_events = _CALL_NUMBERS[platform.machine()]
        try:
            self._call(setup, ctypes.c_long(MAX_CALLS), ctypes.byref(self._context))
        except BlockingIOError as error:
            raise OSError(error.errno, "all requests of the kernel are in use: raise fs.aio-max-nr (sysctl)") from error

    def run(self, opcode: int, file: int, offsets: NDArray[np.int64], buffer: NDArray[np.uint8]) -> None:
        """Read or write a row of `buffer` (N, bytes) at each offset (N,), at most `MAX_CALLS`. Raises OSError."""
        number, num_bytes = buffer.shape
        requests = np.zeros(number, _REQUEST)
        requests["opcode"], requests["file"], requests["num_bytes"] = opcode, file, num_bytes
        requests["offset"] = offsets
        requests["buffer"] = buffer.ctypes.data + num_bytes * np.arange(number)
        pointers = (requests.ctypes.data + _REQUEST.itemsize * np.arange(number)).astype(np.uint64)
        events = np.zeros(number, _EVENT)
        submitted = 0
        while submitted < number:  # a call may accept only some of the requests
            rest = ctypes.c_void_p(pointers.ctypes.data + pointers.itemsize * submitted)
            submitted += self._call(self._submit, self._context, ctypes.c_long(number - submitted), rest)
        wanted, into = ctypes.c_long(number), ctypes.c_void_p(events.ctypes.data)
        self._call(self._get_events, self._context, wanted, wanted, into, None)
        failed = events["result"][events["result"] != num_bytes]
        if len(failed) and failed[0] < 0:
            raise OSError(int(-failed[0]), os.strerror(int(-failed[0])))
        if len(failed):
            raise OSError(0, f"{failed[0]} of {num_bytes} bytes were moved")

    @staticmethod
    def _call(*arguments: object) -> int:
        result: int = _libc.syscall(*arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result
