"""The classes of failures: what each means, and what to do next. Pure.

`tests/job/failures/` has an example of each, and `docs/failures.md` shows them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FailureClass:
    """One class of failures."""

    name: str
    definition: str
    next_step: str


CLASSES = (
    FailureClass(
        "device_memory", "A device had no memory left for an allocation.",
        "Lower the batch per rank or the sequence length, shard more, or recompute activations. Check first that no "
        "other process holds memory of the device."),
    FailureClass(
        "host_memory", "The host, or the job's control group, had no memory left.",
        "Ask for more memory, or use fewer loader workers and a smaller prefetch. A resident size that grows step by "
        "step is a leak."),
    FailureClass(
        "host_limit", "A limit of the host or container other than memory: /dev/shm, open files, processes.",
        "Raise the limit that the clue names: --shm-size or an emptyDir of medium Memory, `ulimit -n`, `ulimit -u`."),
    FailureClass(
        "killed", "A signal from outside ended it: SIGTERM, SIGINT, or a SIGKILL that no log explains.",
        "Ask who sent the signal. After a SIGKILL, read the kernel's log of that host for the out-of-memory killer."),
    FailureClass(
        "time_limit", "The scheduler's time limit ended the job.",
        "Ask for more time, or save more often, and start it again from its last checkpoint."),
    FailureClass(
        "preemption", "The scheduler or the cloud took the resources away: preemption, eviction, spot interruption.",
        "Start it again from its last checkpoint, if the scheduler does not do that itself."),
    FailureClass(
        "node_failure", "The scheduler says that a node failed.",
        "Start it again from its last checkpoint without that node."),
    FailureClass(
        "collective_timeout", "Ranks waited in a collective, barrier or store until their timeout.",
        "Find the rank that did not come: it hung, was slow, or entered another collective. A longer timeout helps "
        "only if it was slow for a good reason."),
    FailureClass(
        "connection_lost", "A connection to another rank broke, or the network failed. This rank is a victim.",
        "Look for the rank that ended first: its failure is the cause. If none did, check the network between the "
        "two hosts."),
    FailureClass(
        "rendezvous", "The ranks never met: a port in use, a wrong address, or ranks that did not start.",
        "Check that the master's address and port can be reached and are free, and that all ranks were started with "
        "the same world size."),
    FailureClass(
        "device_error", "A device, its link, its driver or its library failed, or the job cannot use it.",
        "Read the kernel's log for XIDs and run a diagnosis of the device. With an illegal memory access, run again "
        "with CUDA_LAUNCH_BLOCKING=1 to get the guilty line. With a driver's message, compare versions."),
    FailureClass(
        "diverged", "The training stopped itself because of NaN, infinity, or a loss scale at its minimum.",
        "Go back to an earlier checkpoint with a lower learning rate or clipped gradients, and look at the batch of "
        "the first bad step."),
    FailureClass(
        "disk_full", "A file system or a quota is full.",
        "Free space on the path that the clue names, or keep fewer checkpoints. Check the last checkpoint: it may be "
        "cut off."),
    FailureClass(
        "storage", "A file system, an object store or a web service failed or did not answer.",
        "Check the mount or the service from that host, and start again. If it comes back, copy the files nearer."),
    FailureClass(
        "missing_file", "A file, folder, object, repository or program is not where the job looks for it.",
        "Check the path on the host of that rank: it may exist on other hosts only."),
    FailureClass(
        "missing_module", "A Python module, a name in it, or a shared library is missing, or has another version.",
        "Install the version that the job was written for, in the environment of every host."),
    FailureClass(
        "permission", "The file system or a service refused access.",
        "Give the job's user access to what the clue names, or renew its token."),
    FailureClass(
        "wrong_device", "An operation had tensors on different devices.",
        "Move the tensors of the innermost frame to the device of the model."),
    FailureClass(
        "wrong_shape", "An operation had tensors whose shapes or dtypes do not fit.",
        "Print shapes and dtypes before the innermost frame. If it failed after many steps, look at that batch."),
    FailureClass(
        "assertion", "An assertion of the code failed, on the host or in a kernel on the device.",
        "Read the assertion. On a device it is mostly an index out of range: a label or a token beyond the table."),
    FailureClass(
        "native_crash", "Native code crashed: segmentation fault, bus error, illegal instruction, abort.",
        "Run again with PYTHONFAULTHANDLER=1 or a debugger to get the frame. Mixed versions of compiled packages are "
        "the usual cause."),
    FailureClass(
        "configuration", "Arguments or the configuration were refused.",
        "Correct the argument or key that the clue names."),
    FailureClass(
        "checkpoint_mismatch", "A checkpoint does not fit the model or the version that loads it.",
        "Compare the model's configuration with the one that wrote the checkpoint, and the versions of the library."),
    FailureClass(
        "corrupt_data", "A file could be read but not decoded: a sample, a data set, a configuration, a checkpoint.",
        "Find the file in the clue or in the innermost frame, and replace or skip it."),
    FailureClass(
        "code_error", "Any other exception of the code.",
        "Read the innermost frame of the job's code."),
    FailureClass(
        "unknown", "Nothing of this kind was recognized.",
        "Read the end of the output of the rank that ended first."),
)  # fmt: skip
UNKNOWN = CLASSES[-1].name
BY_NAME = {row.name: row for row in CLASSES}
SCHEDULED = frozenset(("time_limit", "preemption", "node_failure"))  # what ends a job that has not failed
# A rank may fail in these ways because another one failed first.
CONSEQUENCES = frozenset(("connection_lost", "collective_timeout", "killed")) | SCHEDULED
