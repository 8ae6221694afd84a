"""Rows of docs/failures.md about the job: its files, code and configuration, and what did not end it."""

from __future__ import annotations

from tests.job.failures.forms import (
    CLOSED,
    DIRECT_CAUSE,
    DURING_HANDLING,
    MORE_STEPS,
    OOM,
    STEPS,
    WORKER,
    Row,
    prefixed,
    printed,
    raised,
    torchrun,
    traceback,
    words,
)
from zmon.job.failures import Clues

FILES = (
    raised("disk_full", "OSError: [Errno 28] No space left on device: '/checkpoints/7/model.pt'"),
    printed("a pipe to another process of the job ends", "connection_lost",
            traceback("EOFError", "/lib/multiprocessing/connection.py")),
    raised("disk_full", "OSError: [Errno 122] Disk quota exceeded"),
    raised("host_limit", "OSError: [Errno 28] No space left on device: '/dev/shm/torch_4711'",
           scene="/dev/shm is full"),
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
            " state_dict: \"top.0.weight\".", scene="keys of a checkpoint are missing"),
    raised("checkpoint_mismatch", "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded"),
    printed("the code that handles an error raises one that says less", "missing_file",
            traceback("FileNotFoundError: [Errno 2] No such file or directory: 'vocab.json'") + DURING_HANDLING +
            'Traceback (most recent call last):\n  File "/job/train.py", line 90, in main\n'
            '    raise RuntimeError("prepare the data")\nRuntimeError: prepare the data'),
    printed("the code that handles an error fails by chance", "code_error",
            traceback("FileNotFoundError: [Errno 2] No such file or directory: 'cache'") + DURING_HANDLING +
            traceback("KeyError: 'cache'")),
    printed("a message that goes on after its colon", "missing_file", traceback(
        "RuntimeError: Failed to download:\n404 Client Error: Not Found for url: https://host/x")),
    raised("storage", "BlockingIOError: [Errno 11] Unable to lock file, errno = 11, error message = 'Resource"
           " temporarily unavailable'"),
)  # fmt: skip
CODE = (
    raised("missing_module", "ModuleNotFoundError: No module named 'flash_attn'"),
    raised("missing_module", "ImportError: /lib/libc.so.6: version `GLIBC_2.34' not found (required by ops.so)"),
    printed("a shared library is missing", "missing_module",
            "python3: error while loading shared libraries: libnccl.so.2: cannot open shared object file"),
    printed("argparse refuses an argument", "configuration",
            "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --learning-rate"),
    printed("argparse refuses an argument under torchrun", "configuration",
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
           scene="text that quotes code decides nothing"),
    printed("the true error is above torchrun's report", "code_error",
            torchrun(1, prefixed("[rank1]: ", traceback("ValueError: bad batch 17")))),
    printed("a logger says why, right before an exception that does not", "permission",
            "2024-05-01 12:00:00,123 - ERROR - permission denied (403)\n" + traceback("job.LaunchError: it did not"
            " start")),
    printed("an exception that has a cause: the cause counts", "corrupt_data",
            traceback("EOFError: Ran out of input") + DIRECT_CAUSE + traceback("RuntimeError: sample 17 failed")),
    printed("an exception while another one is handled: the last one counts", "storage",
            traceback("FileNotFoundError: [Errno 2] No such file or directory: 'cache'") + DURING_HANDLING +
            traceback("urllib.error.URLError: <urlopen error timed out>")),
    raised("missing_module", "AttributeError: module 'numpy' has no attribute 'float'"),
    raised("code_error", "AttributeError: partially initialized module 'queue' has no attribute 'Queue' (most likely"
           " due to a circular import)"),
    raised("configuration", "AssertionError: DeepSpeed config: batch size and accumulation disagree"),
    raised("configuration", "KeyError: 'RetinaHead2 is not in the models registry. Please check its spelling'"),
    printed("a task of Ray fails, and only its type is printed", "assertion",
            "ray.exceptions.RayTaskError(AssertionError): ray::train() (pid=4711)"),
    printed("a task of Ray fails, and only a type that says nothing is printed", "unknown",
            "ray.exceptions.RayTaskError(RuntimeError): ray::train() (pid=4711)"),
)  # fmt: skip
LAUNCHERS = tuple(
    printed(f"lines begin with `{prefix.strip()}`", "device_memory", prefixed(prefix, STEPS + traceback(OOM)))
    for prefix in ("[rank0]: ", "[default0]:", "0: ", "node-3: ", "[1,3]<stderr>:",
                   "stderr: ", "2024-05-01 12:00:00,123 - ERROR - ", "(RayTrainWorker pid=4711, ip=10.0.0.2) ",
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
    printed("a library prints a deprecation warning", "unknown",
            "/lib/x.py:3: FutureWarning: `torch.cuda.amp` is deprecated: unrecognized arguments will fail\n"
            + MORE_STEPS),
    printed("a library warns that an optional module is missing", "unknown",
            "WARNING: No module named apex\n[W1128 12:00:00.1 init.cpp:7] Warning: No module named apex\n"
            + MORE_STEPS),
    printed("Ray lists what may have ended a worker", "unknown",
            "(raylet) A worker died. There are some potential root causes. (1) The process is killed by SIGKILL by OOM"
            " killer due to high memory usage. (2) SIGSEGV"),
    printed("the output has only further steps", "unknown", MORE_STEPS),
    Row("there are no last words, no output and no exit status", "unknown", Clues()),
    Row("only exit code 1 is known", "unknown", Clues(exit_status="exit code 1")),
    raised("unknown", "RuntimeError: Step 1 exited with non-zero status 1", scene="only a launcher's exception"),
    printed("only torchrun's report, with exit code 1", "unknown", torchrun(1)),
)  # fmt: skip
LAST_WORDS = (
    Row("an exception of torch", "device_memory",
        Clues(words("exception", "torch.OutOfMemoryError", "CUDA out of memory."))),
    Row("an exception, and another traceback in the output: the last words count", "storage",
        Clues(words("exception", "builtins.OSError", "[Errno 5] Input/output error"), output=(traceback(OOM),))),
    Row("`sys.exit(1)` because of an exception: the exception counts", "diverged",
        Clues(words("exception", "builtins.SystemExit", "1", root="ValueError: loss is NaN at step 900"))),
    Row("a broken connection, after an error of the rank's device", "device_error",
        Clues(words("exception", "builtins.RuntimeError", CLOSED),
              output=("CUDA error: an illegal memory access was encountered",))),
    Row("a clean exit", "unknown", Clues(words("exit", ""), "exit code 0")),
)  # fmt: skip
