"""Ways in which a rank hangs by its own doing, for the saboteur and the scripts beside it."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from pathlib import Path


def read_forever(fifo: str) -> None:
    """Wait for storage that does not answer: a pipe that nobody writes to until the fault is lifted."""
    Path(fifo).open("rb").close()


def wait_for_lock(fifo: str) -> None:
    """Wait for a lock that a thread holds while it waits for something else."""
    lock = threading.Lock()
    is_held = threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            read_forever(fifo)

    threading.Thread(target=hold, daemon=True).start()
    is_held.wait()
    with lock:
        pass


def hold_interpreter(fifo: str) -> None:
    """Wait in native code that holds the interpreter lock."""
    library = ctypes.PyDLL(None)  # unlike CDLL it does not release the interpreter lock during a call
    number = library.open(fifo.encode(), os.O_RDONLY)
    library.close(number)


def linger() -> None:
    """Stay alive after the training loop, without doing anything."""
    while True:
        signal.pause()
