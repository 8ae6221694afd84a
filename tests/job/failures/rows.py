"""Every class of failure with the clues that show it; `docs/failures.md` is generated from these rows."""

from __future__ import annotations

from dataclasses import dataclass

from zmon.job.failures import Clues
from zmon.schema.rank import LastWords

NEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
FROM = "\nThe above exception was the direct cause of the following exception:\n\n"
STEPS = "step 41 loss 2.31\nstep 42 loss 2.29\n"
MORE_STEPS = "step 43 loss 2.27\nstep 44 loss 2.26\nstep 45 loss 2.25\n"


@dataclass(frozen=True)
class Row:
    """One end of a launch, and the class that is due."""

    scene: str
    due: str
    clues: Clues

    def __str__(self) -> str:
        return self.scene


def printed(scene: str, due: str, output: str, **others: str | tuple[str, ...]) -> Row:
    """Return the row of a launch that printed this text."""
    return Row(scene, due, Clues(output=tuple(output.split("\n")), **others))


def traceback(error: str, file: str = "/job/train.py") -> str:
    """Return a traceback as Python prints it."""
    return f'Traceback (most recent call last):\n  File "{file}", line 88, in main\n    train(batch)\n{error}\n'


def raised(due: str, error: str, scene: str = "") -> Row:
    """Return the row of a launch that ended with this exception."""
    return printed(scene or f"`{error.partition(chr(10))[0]}`", due, STEPS + traceback(error))


def prefixed(prefix: str, text: str) -> str:
    """Return the text with a launcher's prefix before each line."""
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def torchrun(code: int, text: str = "") -> str:
    """Return what torchrun prints after a rank has ended, in its form of torch 2.x."""
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


def words(kind: str, type_: str, message: str = "", **others: str | int) -> LastWords:
    """Return last words."""
    return LastWords(kind, type_, message, 1e9, **others)


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

MEMORY = (
    raised("device_memory", OOM, "a rank's device has no memory left"),
    printed("the same, and the rank raises again while it cleans up", "device_memory",
            traceback(OOM) + NEXT + traceback("RuntimeError: the writer is closed")),
    raised("device_memory", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled"
            " cuda error, NCCL version 2.20.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
           "Cuda failure 2 'out of memory'", "NCCL could not allocate its buffers"),
    printed("the kernel kills a rank that uses too much memory", "host_memory", torchrun(-9),
            kernel_log=("Out of memory: Killed process 4711 (python3) total-vm:81920kB",)),
    printed("Slurm's control group kills a rank", "host_memory",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM"
            " Killed.\nsrun: error: node-3: task 3: Out Of Memory\nsrun: Terminating StepId=77.0"),
    printed("Kubernetes kills a container", "host_memory", "reason: OOMKilled\nexitCode: 137"),
    raised("host_memory", "RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't"
            " allocate memory: you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)"),
    raised("host_memory", "MemoryError"),
    raised("host_memory", "RuntimeError: DataLoader worker (pid 4720) is killed by signal: Killed."),
    raised("host_memory", "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."),
    raised("host_limit", "RuntimeError: DataLoader worker (pid 4720) is killed by signal: Bus error. It is possible"
            " that dataloader's workers are out of shared memory."),
    Row("a bus error, mostly of a full /dev/shm", "host_limit", Clues(exit_status="signal SIGBUS")),
    printed("the same, as a shell reports it", "host_limit", "train.sh: line 3:  4711 Bus error               (core"
            " dumped)"),
    raised("host_memory", "RuntimeError: DataLoader worker (pid(s) 4720) exited unexpectedly"),
    printed("a loader's worker only reports a bus error", "host_limit", STEPS + "ERROR: Unexpected bus error"
            " encountered in worker. This might be caused by insufficient shared memory (shm)."),
    raised("host_limit", "OSError: [Errno 24] Too many open files: '/data/part-0007'"),
    raised("host_limit", "RuntimeError: can't start new thread"),
)  # fmt: skip
SIGNALS = (
    Row("somebody sends SIGTERM", "killed",
        Clues(words("signal", "SIGTERM", sender_pid=4000), "signal SIGTERM", output=(OOM, STEPS))),
    printed("Ctrl-C", "killed", STEPS + "^C" + traceback("KeyboardInterrupt")),
    printed("torchrun had a signal", "killed", STEPS + "WARNING:torch.distributed.elastic.agent.server.api:Received 2"
            " death signal, shutting down workers"),
    printed("Ctrl-C in a terminal, and the traceback is cut off", "killed", STEPS + "^CTraceback (most recent call"
            " last):"),
    printed("SIGKILL, and no log says why", "killed", torchrun(-9)),
    printed("DeepSpeed's launcher reports SIGKILL", "killed",
            "[2024-04-14 13:11:27,885] [ERROR] [launch.py:434:sigkill_handler] ['python3'] exits with return code ="
            " -9"),
    printed("Composer's launcher reports SIGSEGV", "native_crash",
            "ERROR:composer.cli.launcher:Global rank 0 (PID 4711) exited with code -11"),
    Row("SIGKILL, and the rank printed nothing", "killed", Clues(exit_status="signal SIGKILL")),
    printed("the time limit of the job", "time_limit",
            STEPS + "slurmstepd: error: *** JOB 77 ON node-1 CANCELLED AT 2024-05-01T12:00:00 DUE TO TIME LIMIT ***"),
    printed("preemption, which ends ranks by SIGTERM", "preemption",
            STEPS + "slurmstepd: error: *** STEP 77.0 ON node-1 CANCELLED AT 2024-05-01T12:00:00 DUE TO PREEMPTION ***",
            exit_status="signal SIGTERM"),
    printed("a node fails", "node_failure",
            "slurmstepd: error: *** JOB 77 ON node-1 CANCELLED AT 2024-05-01T12:00:00 DUE TO NODE FAILURE ***"),
    printed("a rank raises, the others wait until the time limit", "code_error",
            prefixed("3: ", traceback("ValueError: bad batch 17")) +
            "slurmstepd: error: *** JOB 77 ON node-1 CANCELLED AT 2024-05-01T12:00:00 DUE TO TIME LIMIT ***"),
    printed("a segmentation fault", "native_crash", "train.sh: line 3:  4711 Segmentation fault      (core dumped)"),
    printed("torchrun reports SIGSEGV", "native_crash", torchrun(-11)),
    printed("glibc finds a broken heap", "native_crash", "double free or corruption (!prev)\nAborted (core dumped)"),
    printed("a processor without an instruction", "native_crash", "Illegal instruction (core dumped)"),
    printed("Windows ends a process for an access violation", "native_crash", traceback(
        "subprocess.CalledProcessError: Command '['python.exe']' returned non-zero exit status 3221225477.")),
    Row("an illegal instruction, and the rank printed nothing", "native_crash", Clues(exit_status="signal SIGILL")),
)  # fmt: skip
RANKS = (
    printed("NCCL's watchdog aborts a rank that waited ten minutes", "collective_timeout", WATCHDOG),
    printed("the same under torchrun", "collective_timeout", torchrun(-6, WATCHDOG)),
    printed("the same, and Python notices the abort", "collective_timeout", WATCHDOG +
            traceback("torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.")),
    raised("collective_timeout", "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms"
            " for recv operation to complete"),
    printed("the watchdog itself is stuck", "collective_timeout", "[rank0]:[E1128 12:00:00.1"
            " ProcessGroupNCCL.cpp:1870] [PG ID 1 Rank 0] ProcessGroupNCCL's watchdog got stuck for 480 seconds"
            " without making progress in monitoring"),
    printed("NCCL says what a timeout may do to data", "collective_timeout", "[1831] [rank0]:[E1128 12:00:00.1"
            " ProcessGroupNCCL.cpp:684] [Rank 0] Some NCCL operations have failed or timed out. Due to the asynchronous"
            " nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data."),
    printed("ranks call different collectives", "code_error", prefixed("[rank0]: ", traceback(
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: ALLGATHER"))),
    raised("collective_timeout", "RuntimeError: Rank 0 failed to pass monitoredBarrier in 30000 ms"),
    raised("collective_timeout", "torch.distributed.DistStoreError: wait timeout after 300000ms, keys:"
            " /default_pg/0//x"),
    raised("connection_lost", CLOSED, "a victim: its peer went away"),
    raised("connection_lost", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote"
            " process exited or there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed"
            " possibly due to a network error or a remote process exiting prematurely.", "a victim of NCCL's kind"),
    printed("a victim that only warns", "connection_lost", STEPS + "[rank2]:[W1128 12:00:00.1 TCPStore.cpp:125] [c10d]"
            " recvValue failed on SocketImpl(fd=52, remote=[localhost]:29500): Connection reset by peer"),
    printed("the store goes away while the ranks meet", "rendezvous", traceback("RuntimeError: Connection reset by"
            " peer")
            .replace("in main", "in init_process_group")),
    printed("a victim in the same log as its cause", "device_memory",
            prefixed("[rank1]: ", traceback(OOM)) + prefixed("[rank0]: ", traceback(CLOSED))),
    raised("rendezvous", "torch.distributed.DistNetworkError: The server socket has failed to listen on any local"
            " network address. port: 29500, code: -98, name: EADDRINUSE, message: address already in use"),
    raised("rendezvous", "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2"
            " clients joined."),
    raised("rendezvous", "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"),
    printed("c10d's own lines, and the traceback is cut off", "rendezvous", "[W socket.cpp:426] [c10d] The server"
            " socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\n[E socket.cpp:462]"
            " [c10d] The server socket"
            " has failed to listen on any local network address.\nTraceback (most recent call last):\n"),
    raised("rendezvous", "RuntimeError: Gloo connectFullMesh failed with [gloo/transport/tcp/pair.cc:144] no error"),
    raised("rendezvous", "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while"
            " trying to connect to (10.0.0.1, 29500)."),
)  # fmt: skip
DEVICES = (
    printed("a device falls off the bus", "device_error", traceback("RuntimeError: CUDA error: unknown error"),
            kernel_log=("NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.",)),
    raised("device_error", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    printed("an illegal address on the device, without a traceback", "device_error",
            "terminate called after throwing an instance of 'c10::Error'\n"
            "  what():  CUDA error: an illegal memory access was encountered\nAborted (core dumped)"),
    raised("device_error", "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."),
    raised("device_error", "RuntimeError: No CUDA GPUs are available"),
    printed("the kernel's log has an XID of the code's own fault", "assertion",
            traceback("RuntimeError: CUDA error: device-side assert triggered"),
            kernel_log=("NVRM: Xid (PCI:0000:3b:00): 43, pid=4711, name=python3",)),
    raised("wrong_device", "RuntimeError: Expected all tensors to be on the same device, but found at least two"
            " devices, cuda:0 and cpu!"),
    raised("wrong_device", "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor)"
            " should be the same"),
    raised("wrong_shape", "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.HalfTensor)"
            " should be the same"),
    raised("wrong_shape", "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x10 and 12x4)"),
    printed("an exception alone on its line", "wrong_shape", STEPS +
            "(main pid=4711) pyarrow.lib.ArrowInvalid: Column 1 named ids expected length 113 but got length 112"),
    raised("wrong_shape", "RuntimeError: expected scalar type Half but found Float"),
)  # fmt: skip
FILES = (
    raised("disk_full", "OSError: [Errno 28] No space left on device: '/checkpoints/7/model.pt'"),
    printed("a pipe to another process of the job ends", "connection_lost",
            traceback("EOFError", "/lib/multiprocessing/connection.py")),
    raised("disk_full", "OSError: [Errno 122] Disk quota exceeded"),
    raised("host_limit", "OSError: [Errno 28] No space left on device: '/dev/shm/torch_4711'", "/dev/shm is full"),
    raised("storage", "OSError: [Errno 116] Stale file handle: '/mnt/data/part-0007'"),
    raised("storage", "OSError: [Errno 5] Input/output error"),
    printed("a web service drops the connection: no rank is meant", "storage", traceback(
        "requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionResetError(104, 'Connection reset by"
        " peer'))",
        "/lib/requests/adapters.py")),
    raised("missing_file", "FileNotFoundError: [Errno 2] No such file or directory: '/data/loss is nan.csv'"),
    printed("an exception of a loader's worker: the one inside counts", "missing_file", traceback(WORKER.format(
        name="FileNotFoundError", error="FileNotFoundError: [Errno 2] No such file or directory: '/data/7.npy'"))),
    raised("permission", "PermissionError: [Errno 13] Permission denied: '/checkpoints'"),
    raised("permission", "botocore.exceptions.ClientError: An error occurred (AccessDenied) when calling the GetObject"
           " operation: Access Denied"),
    raised("corrupt_data", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 0: invalid start"
            " byte"),
    printed("a corrupt sample in a loader's worker", "corrupt_data", traceback(WORKER.format(
        name="UnidentifiedImageError", error="PIL.UnidentifiedImageError: cannot identify image file '/data/7.jpg'"))),
    raised("corrupt_data", "Exception: expected value at line 1 column 1"),
    raised("corrupt_data", "zlib.error: Error -3 while decompressing data: incorrect header check"),
    raised("checkpoint_mismatch", "RuntimeError: Error(s) in loading state_dict for DLRM:\n\tMissing key(s) in"
            " state_dict: \"top.0.weight\".", "keys of a checkpoint are missing"),
    raised("checkpoint_mismatch", "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded"),
)  # fmt: skip
CODE = (
    raised("missing_module", "ModuleNotFoundError: No module named 'flash_attn'"),
    raised("missing_module", "ImportError: /lib/libc.so.6: version `GLIBC_2.34' not found (required by ops.so)"),
    printed("a shared library is missing", "missing_module",
            "python3: error while loading shared libraries: libnccl.so.2: cannot open shared object file"),
    printed("argparse refuses an argument", "configuration",
            "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --learning-rate"),
    printed("the same under torchrun", "configuration",
            torchrun(2, "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --learning-rate\n")),
    raised("assertion", "AssertionError: the batch is empty"),
    raised("assertion", "RuntimeError: CUDA error: device-side assert triggered"),
    printed("a message without the type of an exception", "host_memory",
            STEPS + "not enough memory: you tried to allocate 20971520 bytes."),
    printed("Hydra refuses the configuration", "configuration", traceback("ValueError: config_path is wrong",
            "/lib/hydra/core/utils.py")),
    raised("diverged", "ValueError: Expected parameter loc (Tensor of shape (2, 3)) of distribution Normal to satisfy"
            " the constraint Real(), but found invalid values:\ntensor([[nan, nan, nan]])"),
    raised("diverged", "ValueError: loss is NaN at step 900"),
    raised("diverged", "ValueError: the outputs are NaN! Stop the training"),
    raised("configuration", "ValueError: Unknown task: sft"),
    printed("the script stops by itself after NaN", "diverged", STEPS + "Loss is nan, stopping training"),
    raised("diverged", "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting"
            " run."),
    printed("a message that Rich breaks into lines", "configuration", "╭──── Traceback (most recent call last)"
            " ────╮\n│ /job/train.py:891 in main │\n╰───────────────╯\nAssertionError: Check batch related parameters."
            " train_batch_size is not\nequal to micro_batch_per_gpu * gradient_acc_step * world_size 64 != 4 *\n8 * 1"),
    raised("code_error", "KeyError: 'optimizer'"),
    raised("code_error", "AttributeError: 'NoneType' object has no attribute 'nan_loss'",
           "text that quotes code decides nothing"),
    printed("the true error is above torchrun's report", "code_error",
            torchrun(1, prefixed("[rank1]: ", traceback("ValueError: bad batch 17")))),
    printed("a logger says why, right before an exception that does not", "permission",
            "2024-05-01 12:00:00,123 - ERROR - permission denied (403)\n" + traceback("job.LaunchError: it did not"
            " start")),
    printed("an exception that has a cause: the cause counts", "corrupt_data",
            traceback("EOFError: Ran out of input") + FROM + traceback("RuntimeError: sample 17 failed")),
    printed("an exception while another one is handled: the last one counts", "storage",
            traceback("FileNotFoundError: [Errno 2] No such file or directory: 'cache'") + NEXT +
            traceback("urllib.error.URLError: <urlopen error timed out>")),
)  # fmt: skip
LAUNCHERS = tuple(
    printed(f"lines begin with `{prefix.strip()}`", "device_memory", prefixed(prefix, STEPS + traceback(OOM)))
    for prefix in ("[rank0]: ", "[default0]:", "0: ", "node-3: ", "[1,3]<stderr>:",
                   "2024-05-01 12:00:00,123 - ERROR - ", "(RayTrainWorker pid=4711, ip=10.0.0.2) ",
                   "\x1b[36m(trainer pid=4711)\x1b[0m ", "ERROR:root:")
)  # fmt: skip
SURVIVED = (
    printed("a batch had no memory, was tried again, and the training went on", "killed",
            STEPS + traceback(OOM) + MORE_STEPS + "Killed"),
    printed("a download was tried again", "unknown",
            "WARNING:urllib3:Retrying: ConnectionResetError(104, 'Connection reset by peer')\n" + MORE_STEPS),
    printed("a finalizer raises while the process ends", "code_error",
            traceback("ValueError: bad batch 17") + "Exception ignored in: <function Iterator.__del__ at 0x7f>\n" +
            traceback("AssertionError: can only test a child process")),
    printed("a thread of the loader loses its process", "device_memory", traceback(OOM) +
            "Exception in thread Thread-2 (_pin_memory_loop):\n" +
            traceback("ConnectionResetError: [Errno 104] Connection reset by peer")),
    printed("NCCL warns at its start", "code_error",
            "node-3:4711:4720 [0] NCCL WARN Failed to open libibverbs.so: No such file or directory\n" + STEPS +
            traceback("ValueError: bad batch 17")),
    printed("a deprecation", "unknown",
            "/lib/x.py:3: FutureWarning: `torch.cuda.amp` is deprecated: unrecognized arguments will fail\n"
            + MORE_STEPS),
    printed("an optional module is missing", "unknown",
            "WARNING: No module named apex\n[W1128 12:00:00.1 init.cpp:7] Warning: No module named apex\n"
            + MORE_STEPS),
    printed("Ray guesses", "unknown",
            "(raylet) A worker died. There are some potential root causes. (1) The process is killed by SIGKILL by OOM"
            " killer due to high memory usage. (2) SIGSEGV"),
    printed("the launch goes on", "unknown", MORE_STEPS),
    Row("nothing is known", "unknown", Clues()),
    Row("an exit code that says nothing", "unknown", Clues(exit_status="exit code 1")),
    raised("unknown", "RuntimeError: Step 1 exited with non-zero status 1", "only a launcher's exception"),
    printed("only torchrun's report, with exit code 1", "unknown", torchrun(1)),
)  # fmt: skip
LAST_WORDS = (
    Row("an exception", "device_memory", Clues(words("exception", "torch.OutOfMemoryError", "CUDA out of memory."))),
    Row("they come before an older traceback in the output", "storage",
        Clues(words("exception", "builtins.OSError", "[Errno 5] Input/output error"), output=(traceback(OOM),))),
    Row("a launcher's exit, whose cause counts", "diverged",
        Clues(words("exception", "builtins.SystemExit", "1", root="ValueError: loss is NaN at step 900"))),
    Row("a victim's error, after the rank's device failed", "device_error",
        Clues(words("exception", "builtins.RuntimeError", CLOSED),
              output=("CUDA error: an illegal memory access was encountered",))),
    Row("a clean exit", "unknown", Clues(words("exit", ""), "exit code 0")),
)  # fmt: skip
SECTIONS = {
    "Memory and limits": MEMORY,
    "Signals and schedulers": SIGNALS,
    "Other ranks": RANKS,
    "Devices and tensors": DEVICES,
    "Files and services": FILES,
    "The code and its configuration": CODE,
    "Last words of a rank": LAST_WORDS,
    "Prefixes of launchers and loggers": LAUNCHERS,
    "Quiet: what did not end the launch": SURVIVED,
}
