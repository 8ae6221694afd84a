"""The forms in which launches print their ends, for the rows of docs/failures.md."""

from __future__ import annotations

from dataclasses import dataclass

from zmon.job.failures import Clues
from zmon.schema.rank import LastWords

# What Python prints between the tracebacks of two exceptions.
DURING_HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"
DIRECT_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
STEPS = "step 41 loss 2.31\nstep 42 loss 2.29\n"
MORE_STEPS = "step 43 loss 2.27\nstep 44 loss 2.26\nstep 45 loss 2.25\n"


@dataclass(frozen=True)
class Row:
    """One end of a launch, and the class of failure that is due."""

    scene: str
    due: str
    clues: Clues

    def __str__(self) -> str:
        return self.scene


def printed(scene: str, due: str, output: str, **clues: str | tuple[str, ...]) -> Row:
    """Return the row of a launch that printed this text."""
    return Row(scene, due, Clues(output=tuple(output.split("\n")), **clues))


def traceback(error: str, file: str = "/job/train.py") -> str:
    """Return a traceback as Python prints it."""
    return f'Traceback (most recent call last):\n  File "{file}", line 88, in main\n    train(batch)\n{error}\n'


def raised(due: str, error: str, *, scene: str = "") -> Row:
    """Return the row of a launch that ended with this exception; by default the exception is also the scene."""
    return printed(scene or f"`{error.splitlines()[0]}`", due, STEPS + traceback(error))


def prefixed(prefix: str, text: str) -> str:
    """Return the text with a launcher's prefix before each line."""
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def torchrun(code: int, text: str = "") -> str:
    """Return what torchrun of torch 2.x prints after a rank has ended with this exit code, negative for a signal."""
    signal = {-9: "Signal 9 (SIGKILL)", -11: "Signal 11 (SIGSEGV)", -15: "Signal 15 (SIGTERM)"}.get(code)
    why = f"{signal} received by PID 4711" if signal else "To enable traceback see: https://pytorch.org/docs"
    error = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
    return (
        f"{text}W1128 12:00:07.1 900 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4712 closing"
        f" signal SIGTERM\nE1128 12:00:08.1 900 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode:"
        f" {code}) local_rank: 1 (pid: 4711) of binary: /usr/bin/python3\n{traceback(error, '/usr/bin/torchrun')}"
        f"{'=' * 60}\ntrain.py FAILED\n{'-' * 60}\nFailures:\n  <NO_OTHER_FAILURES>\nRoot Cause (first observed"
        f" failure):\n[0]:\n  exitcode  : {code} (pid: 4711)\n  error_file: <N/A>\n  traceback : {why}\n{'=' * 60}\n"
    )


def words(kind: str, type_: str, message: str = "", **fields: str | int) -> LastWords:
    """Return last words; a class does not depend on their time."""
    return LastWords(kind, type_, message, time=1e9, **fields)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.1 GiB"
CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:5826"
WATCHDOG = (
    "[rank0]:[E1128 12:00:00.123456789 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum=301, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds"
    " before timing out.\n[rank0]:[E1128 12:00:00.2 ProcessGroupNCCL.cpp:630] [Rank 0] To avoid data inconsistency,"
    " we are taking the entire process down.\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    "  what():  [PG ID 0 Rank 0] Process group watchdog thread terminated with exception\n"
)
WORKER = (
    "RuntimeError: Caught {name} in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
    '  File "/job/data.py", line 12, in __getitem__\n    return self.read(index)\n{error}'
)
