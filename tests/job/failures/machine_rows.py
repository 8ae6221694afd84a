"""Rows of docs/failures.md about machines: memory, signals, other ranks, devices."""

from __future__ import annotations

from tests.job.failures.forms import (
    CLOSED,
    DURING_HANDLING,
    MORE_STEPS,
    OOM,
    STEPS,
    WATCHDOG,
    Row,
    prefixed,
    printed,
    raised,
    torchrun,
    traceback,
    words,
)
from zmon.job.failures import Clues

MEMORY = (
    raised("device_memory", OOM, scene="a rank's device has no memory left"),
    printed("a rank's device has no memory left, and the rank raises again while it cleans up", "device_memory",
            traceback(OOM) + DURING_HANDLING + traceback("RuntimeError: the writer is closed")),
    raised("device_memory", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled"
            " cuda error, NCCL version 2.20.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
           "Cuda failure 2 'out of memory'", scene="NCCL could not allocate its buffers"),
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
    printed("a shell reports a bus error", "host_limit", "train.sh: line 3:  4711 Bus error               (core"
            " dumped)"),
    raised("host_memory", "RuntimeError: DataLoader worker (pid(s) 4720) exited unexpectedly"),
    printed("a loader's worker only reports a bus error", "host_limit", STEPS + "ERROR: Unexpected bus error"
            " encountered in worker. This might be caused by insufficient shared memory (shm)."),
    raised("host_limit", "OSError: [Errno 24] Too many open files: '/data/part-0007'"),
    raised("host_limit", "RuntimeError: can't start new thread"),
    printed("XLA has no device memory left", "device_memory", traceback("jaxlib.xla_extension.XlaRuntimeError:"
            " RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.")),
    printed("Ray kills a worker before the node has no memory left", "host_memory", "(raylet) [2024-05-01 12:00:00,123"
            " E 4700 4700] (raylet) node_manager.cc:3193: 1 Workers (tasks / actors) killed due to memory pressure"
            " (OOM)"),
)  # fmt: skip
SIGNALS = (
    Row("somebody sends SIGTERM", "killed",
        Clues(words("signal", "SIGTERM", sender_pid=4000), "signal SIGTERM", output=(OOM, STEPS))),
    printed("Ctrl-C", "killed", STEPS + "^C" + traceback("KeyboardInterrupt")),
    printed("torchrun receives a signal", "killed", STEPS + "WARNING:torch.distributed.elastic.agent.server.api:"
            "Received 2 death signal, shutting down workers"),
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
    printed("a processor does not know an instruction", "native_crash", "Illegal instruction (core dumped)"),
    printed("Windows ends a process for an access violation", "native_crash", traceback(
        "subprocess.CalledProcessError: Command '['python.exe']' returned non-zero exit status 3221225477.")),
    Row("an illegal instruction, and the rank printed nothing", "native_crash", Clues(exit_status="signal SIGILL")),
    printed("a batch system ends a job after its wall time", "time_limit", STEPS + "=>> PBS: job killed: walltime 3621"
            " exceeded limit 3600"),
    printed("Kubernetes evicts a pod", "preemption", "Status:    Failed\nReason:    Evicted\nMessage:   The node was"
            " low on resource: ephemeral-storage."),
    printed("Kubernetes only counts evictions", "unknown", MORE_STEPS + "evicted samples of the cache: 12"),
    printed("Ray reports a preempted node", "preemption", "ray.exceptions.ActorDiedError: The actor died because its"
            " node has died. Node Id: 7f\n\tthe actor's node was preempted by the cloud"),
    printed("Ray reports a dead node", "node_failure", "WARNING worker.py:2052 -- The node with node id: 7f and"
            " address: 10.0.0.2 has been marked dead because the detector has missed too many heartbeats from it."),
    printed("Lightning kills the other ranks after one that crashed", "native_crash", "[rank: 1] Child process with PID"
            " 4711 terminated with code -11. Forcefully terminating all other processes to avoid zombies\nKilled"),
    printed("Slurm kills the other ranks after one that failed", "unknown", "srun: error: node-3: task 3: Exited"
            " with exit code 1\nslurmstepd: error: *** STEP 77.0 ON node-1 CANCELLED AT 2024-05-01T12:00:00 ***\n"
            "Killed"),
    printed("mpirun aborts the others after one that failed", "unknown", "MPI_ABORT was not called; the job has been"
            " aborted.\n  Process name: [[1,1],3]\n  Exit code:    1"),
)  # fmt: skip
RANKS = (
    printed("NCCL's watchdog aborts a rank that waited ten minutes", "collective_timeout", WATCHDOG),
    printed("NCCL's watchdog aborts a rank under torchrun", "collective_timeout", torchrun(-6, WATCHDOG)),
    printed("NCCL's watchdog aborts a rank, and Python notices the abort", "collective_timeout", WATCHDOG +
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
    raised("connection_lost", CLOSED, scene="a victim: its peer went away"),
    raised("connection_lost", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote"
            " process exited or there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed"
            " possibly due to a network error or a remote process exiting prematurely.",
            scene="a victim of NCCL's kind"),
    printed("a victim that only warns", "connection_lost", STEPS + "[rank2]:[W1128 12:00:00.1 TCPStore.cpp:125] [c10d]"
            " recvValue failed on SocketImpl(fd=52, remote=[localhost]:29500): Connection reset by peer"),
    printed("the store goes away while the ranks meet", "rendezvous",
            traceback("RuntimeError: Connection reset by peer").replace("in main", "in init_process_group")),
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
    printed("torchrun's agent loses the rendezvous", "rendezvous", traceback(
        "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
        "/lib/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py")),
    printed("a collective of the training loses its connection to the store", "connection_lost", traceback(
        "torch.distributed.DistNetworkError: failed to recv, got 0 bytes", "/lib/torch/distributed/utils.py")),
    printed("JAX's processes do not meet", "rendezvous", traceback("jaxlib.xla_extension.XlaRuntimeError:"
            " DEADLINE_EXCEEDED: Barrier timed out.", "/lib/jax/_src/distributed.py")),
    printed("C++ says what it throws on the same line", "connection_lost", "terminate called after throwing an"
            " instance of 'gloo::IoException'   what():  Connection closed by peer [10.0.0.2]:5826"),
    printed("Horovod only warns", "connection_lost", STEPS + "WARNING: Horovod has been shut down. This was caused"
            " by an exception on one of the ranks."),
    printed("NCCL only warns of a peer", "connection_lost", STEPS + "node-3:4711:4720 [0] transport/net_ib.cc:1000 NCCL"
            " WARN NET/IB : Got completion from peer 10.0.0.2<38560> with error 12, opcode 0, len 0, vendor err 129"),
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
    printed("glibc's assertion follows from the device", "device_error", "CUDA error: an illegal memory access was"
            " encountered\npython3: pool.cpp:12: void free(): Assertion `count == 0' failed."),
    printed("glibc's assertion alone", "assertion", "python3: pool.cpp:12: void free(): Assertion `count == 0'"
            " failed."),
    raised("device_error", "lightning.fabric.utilities.exceptions.MisconfigurationException: No supported gpu backend"
           " found!"),
)  # fmt: skip
