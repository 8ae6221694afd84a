"""Writes the messages of `zmon watch` to stderr in a thread, so that no reader of stderr delays a signal or the job."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading

_MAX_WAITING = 32  # messages; a person does not read more at once
_STDERR = 2


class Messages(threading.Thread):
    """The thread that writes to stderr. It waits for a slow reader; while too many messages wait, it drops new ones."""

    def __init__(self) -> None:
        super().__init__(name="zmon-messages", daemon=True)
        self._waiting: queue.Queue[bytes | None] = queue.Queue(_MAX_WAITING)

    def say(self, text: str) -> None:
        """Write a text later; drop it if too many are waiting."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(text.encode("utf-8", "replace"))

    def close(self, seconds: float) -> None:
        """Wait until all is written, for this time at most."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self.join(seconds)

    def run(self) -> None:
        # A terminal may stop the group of a background process that writes (stty tostop), and with it the job.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        while (text := self._waiting.get()) is not None:
            try:
                while text:
                    text = text[os.write(_STDERR, text) :]
            except OSError:  # nobody will read it any more
                return
