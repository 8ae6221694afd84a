"""The messages of torch, NCCL, gloo, CUDA, Python and the libraries around them, by class of failure. Pure.

The first class of which a pattern matches counts, so a specific text comes before a general one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Rules = Sequence[tuple[str, re.Pattern[str]]]


def rules(*rows: tuple[str, tuple[str, ...]]) -> Rules:
    """Return the class of each row with one pattern of its alternatives; upper and lower case do not matter."""
    return tuple((name, re.compile("|".join(patterns), re.IGNORECASE)) for name, patterns in rows)


TEXTS = rules(
    ("device_memory", (
        r"\b(cuda|hip|xpu|npu|mps|device|gpu)( error)?( \d+)?:? (backend )?out of memory",
        r"torch\.(cuda\.)?OutOfMemoryError", r"Cuda failure \d* ?'out of memory'", r"STATUS_ALLOC_FAILED",
        r"cudaErrorMemoryAllocation", r"CUDA_ERROR_OUT_OF_MEMORY",
        r"RESOURCE_EXHAUSTED\b[^\n]*(memory|\ballocat|\breserve)",
        r"OOM when allocating tensor", r"unable to find a valid cuDNN algorithm", r"(CUDA|HIP|NPU|XPU) out of memory",
        r"NPU out of memory", r"out of memory trying to allocate", r"not enough (gpu|device|cuda) memory",
        r"No available memory for the cache blocks")),
    ("host_limit", (
        r"insufficient shared memory", r"out of shared memory", r"killed by signal: Bus",
        r"No space left on device[^\n]*/dev/shm", r"/dev/shm[^\n]*No space left", r"shared memory segment",
        r"unable to (open|mmap|allocate|write to|resize)[^\n]* shared memory", r"too many open files",
        r"items of ancdata", r"can't start new thread", r"memory in static TLS", r"resource temporarily unavailable",
        r"unable to (mmap|open) [^\n]* in read-write mode")),
    ("host_memory", (
        r"can't allocate memory", r"cannot allocate memory", r"not enough memory: you tried to allocate",
        r"unable to allocate [\d.]+ \w+ for an array", r"std::bad_alloc", r"paging file is too small",
        r"running low on memory", r"ray\.\S*OutOfMemoryError", r"malloc of size \d+ failed",
        r"killed by signal: Killed", r"DataLoader worker \(.*\) exited unexpectedly", r"out of host memory",
        r"ArrayMemoryError", r"ray-oom-prevention")),
    ("disk_full", (
        r"no space left on device", r"disk quota exceeded", r"\bENOSPC\b", r"PytorchStreamWriter failed writing",
        r"unexpected pos \d+ vs", r"not enough (free )?(disk )?space", r"no usable temporary directory",
        r"disk is full", r"file write failed")),
    ("rendezvous", (
        r"address already in use", r"EADDRINUSE", r"\d clients joined", r"client socket has (timed out|failed)",
        r"connect\(\) timed out", r"\bRendezvous\w*(Error|Exception)", r"cannot assign requested address",
        r"store based barrier", r"connectFullMesh", r"connect \[[^\]]*\]:\d+: Connection refused",
        r"MASTER_CONNECTION_FAILED", r"host not found", r"RuntimeError: connect(ion|\b)[^\n]{0,20}(refused|timed out)",
        r"could not connect to (the )?(master|store|rank)", r"stop_waiting response", r"failed to (bind|listen)",
        r"timed out initializing process group", r"environment variable (MASTER_\w+|RANK|WORLD_SIZE) expected",
        r"Error initializing torch\.distributed using", r"Unable to find address for", r"unable to resolve hostname",
        r"makeDeviceFor", r"no .*port .*available")),
    ("assertion", (r"device-side assert\b", r"Assertion `[^\n]*` failed")),
    ("device_error", (
        r"illegal memory access", r"unspecified launch failure", r"misaligned address", r"uncorrectable",
        r"illegal instruction was encountered", r"fallen off the bus", r"no CUDA-capable device",
        r"invalid device ordinal", r"no kernel image is available", r"driver version is insufficient",
        r"driver on your system is too old", r"no NVIDIA driver", r"system not yet initialized",
        r"CUDA initialization error", r"not compiled with CUDA", r"deserialize object on a CUDA device",
        r"no (CUDA )?(GPUs?|devices?) (are|is|were) (available|found|detected)", r"CUDA is not available",
        r"CU(BLAS|DNN|SPARSE|SOLVER|FFT)_STATUS_\w+", r"cuDNN error", r"cuDNN failed to initialize",
        r"unhandled cuda error", r"Cuda failure", r"CUDA( driver)? error", r"cudaError(?!MemoryAll)\w+", r"HIP error",
        r"\bnvlink\b", r"NPU function error", r"unable to find an engine to execute", r"CUDA unknown error",
        r"devices? .*(busy or unavailable)", r"unable to get (a valid )?device",
        r"Unexpected error from cudaGetDeviceCount", r"doesn't have NCCL built in", r"Invalid device id",
        r"does not match DSO version", r"find working devices", r"failed to initialize (nvml|cuda)",
        r"when none is available", r"no (\w+ )?gpus?\b[^\n]{0,20} (found|available|detected)",
        r"CUDA call failed lazily", r"only supports? Ampere", r"doesn't support bf16")),
    ("collective_timeout", (
        r"collective operation timeout", r"Watchdog caught", r"monitoredBarrier", r"Timed out waiting \d+",
        r"horovod\b[^\n]* stall", r"before timing out", r"wait timeout after", r"timeout waiting for key",
        r"socket timeout", r"application timeout caused", r"Timed out after \d+[^\n]*waiting",
        r"barrier[^\n]* tim(ed|e) ?out", r"failed to pass monitored", r"heartbeat monitor timed out",
        r"collective[^\n]{0,40} timed out", r"operations have failed or timed out")),
    ("connection_lost", (
        r"closed by peer \[", r"error \[[\w.:%]+\]:\d+", r"gloo[/\\]transport", r"nccl(Remote|System|Internal)Error",
        r"remote process (has )?(exited|terminated)", r"unhandled system error", r"communicator was aborted",
        r"(recvValue|sendBytes|recvBytes) failed", r"failed to recv", r"DistNetworkError", r"NCCL[^\n]* internal error",
        r"remote peer", r"Horovod has been shut down", r"NCCL communicator (was|encountered)", r"Broken pipe",
        r"connection (was )?(reset by peer|likely closed)")),
    ("diverged", (
        r"\bloss(es)?\b[^\n]{0,40}\b(nan|inf|infinite|infinity|not finite|non-?finite)\b",
        r"\b(nan|inf|infinite|non-?finite|not finite)\b[^\n]{0,40}\b(loss|grad\w*|norm)\b",
        r"\bgrad\w*[^\n]{0,40}\b(nan|inf|non-?finite|not finite)\b", r"returned nan values",
        r"contains either `?inf`?, `?nan`?", r"found invalid values[\s\S]*\bnan\b", r"loss scale[^\n]* minimum",
        r"to satisfy the constraint [^\n]*invalid values", r"minimum loss scale",
        r"(found|detected|encountered|contains?|has) (a )?(nan|infs?)s?\b", r"cannot convert float (nan|infinity)",
        r"\bnan\b[^\n]{0,20}\bstop", r"training (has )?diverged", r"(nan|inf)s? (or|and) (inf|nan)s?",
        r"loss (has )?exploded", r"nans? (detected|found|encountered)")),
    ("wrong_device", (
        r"on the same device", r"expected all tensors", r"different (cuda )?devices?\b", r"device type (cuda|cpu) but",
        r"(must|should) be (a |on )?(the )?(gpu|cuda|cpu)( tensor)?\b",
        r"expected .*\b(cuda|cpu)\b.* but (got|found) .*\b(cpu|cuda)", r"weight is on", r"on different devices",
        r"No backend type associated with device type", r"must have its parameters and buffers on device",
        r"can't convert (cuda|mps|xpu|npu)[:\d]* device type tensor", r"indices should be either on",
        r"Tensors must be CUDA", r"cannot pin '", r"cannot be accessed from triton", r"input is on cpu",
        r"is on (the )?(cpu|cuda)[^\n]* (is|are|but)[^\n]*(cuda|cpu)", r"storage has wrong device")),
    ("checkpoint_mismatch", (
        r"loading state_?dict", r"missing key\(s\) in", r"unexpected key\(s\)", r"size mismatch for \S",
        r"weights only load failed", r"loaded state dict (contains|has)", r"checkpoint[^\n]* world size",
        r"in source state_dict", r"ignore_mismatched_sizes", r"missing key in checkpoint",
        r"does not recognize this architecture", r"saved (weight|model|checkpoint)[^\n]*(shape|size)",
        r"(state_?dict|pre-?trained|weights)\b[^\n]{0,80}(mismatch|not match|incompatible|different (size|shape|num))",
        r"doesn't match the size of optimizer's group",
        r"cannot load (model )?parameters", r"keys? .* (missing|not) in.*checkpoint",
        r"checkpoint[^\n]{0,60} (mismatch|incompatible|does not match|do not match|different)")),
    ("permission", (
        r"permission denied", r"operation not permitted", r"\bAccess ?Denied\b",
        r"\b40[13] (client error|forbidden|unauth)", r"HTTP ?Error 40[13]", r"\(40[13]\)", r"gated repo",
        r"read-only file system", r"InvalidAccessKeyId", r"api_key not configured", r"api[_ ]key",
        r"Unable to locate credentials", r"invalid (user )?token", r"not logged in", r"\bunauthorized\b",
        r"\bforbidden\b", r"authentication (failed|required)", r"not authorized", r"wandb login",
        r"Access to model .* is restricted", r"not have (the )?permission", r"(expired|invalid|security) ?token",
        r"HTTP 40[13]\b")),
    ("missing_module", (
        r"no module named", r"cannot import name", r"cannot open shared object", r"GLIBC(XX)?_[\d.]+'? not found",
        r"undefined symbol", r"please (run )?`?(pip |conda )?install", r"\b(is|are) not installed", r"DLL load failed",
        r"failed to import", r"VersionConflict", r"DistributionNotFound", r"pip install", r"unable to load library",
        r"could not load (dynamic )?library", r"requires the .{1,40} (library|package)", r"is not currently imported",
        r"error building extension", r"unable to import", r"is required (for|to|in order)\b",
        r"[><=]=? ?\d+(\.\d+)+[^\n]{0,40}(required|but found)", r"compiled with different CUDA",
        r"operator \S+ does not exist", r"CUDA_HOME environment variable",
        r"does not match the version torch was compiled")),
    ("corrupt_data", (
        r"cannot identify image", r"image file is truncated", r"broken (data stream|PNG)", r"can't decode byte",
        r"invalid load key", r"incorrect header check", r"invalid (stored block|distance|block type|code lengths)",
        r"while decompressing", r"header ?too ?(large|small)", r"deserializing header", r"finding central directory",
        r"failed reading (zip|file)", r"not a (zip|gzip)", r"pickle data was truncated", r"ran out of input",
        r"expect(ing|ed) value:? (at )?line", r"error tokenizing", r"premature end",
        r"truncated (file|jpeg|image|data)", r"file signature not found", r"bad magic",
        r"ended before the end-of-stream", r"unterminated string starting",
        r"(is|are|be|data|file|seems|may be|possibly) corrupt", r"corrupt(ed)? (file|data|image|jpeg|record)",
        r"crc[- ]?(32)? (check )?(failed|mismatch|error)", r"could not (open|decode|read) (the )?(image|video|audio)",
        r"moov atom", r"unpack requires a buffer", r"JSON parse error",
        r"(failed|unable|cannot|could not) (to )?(decode|parse)", r"malformed", r"metadata incomplete",
        r"IncompleteBuffer", r"not covered", r"magic bytes not found", r"unable to load weights from")),
    ("storage", (
        r"input/output error", r"stale (nfs )?file handle", r"transport endpoint", r"remote i/o error",
        r"max retries exceeded", r"couldn't connect to", r"Connection error, and we cannot", r"\): exit \d+ \(read\)",
        r"read timed out", r"\b5\d\d (server error|bad gateway|service)", r"HTTP ?Error (5\d\d|429)",
        r"service unavailable", r"please reduce your request rate", r"too many requests", r"IncompleteRead",
        r"ChunkedEncodingError", r"\[SSL", r"SSLError", r"could not connect to the endpoint", r"name resolution",
        r"HTTPS?ConnectionPool", r"urlopen error", r"offline mode", r"trying to locate the file on the Hub",
        r"LocalEntryNotFound", r"remote end closed connection", r"cannot reach",
        r"connect(ion)? to proxy", r"connection (timed out|refused)",
        r"resource deadlock", r"connection to .* (timed out|failed)", r"consistency check failed")),
    ("missing_file", (
        r"no such file or directory", r"NoSuchKey", r"NoSuchBucket", r"404 (client error|not found)",
        r"HTTP ?Error 404", r"repository not found", r"entry ?not ?found", r"not a valid model identifier",
        r"not a local folder", r"file not found", r"can't load \w+ for", r"no file named", r"can't open file",
        r"not a directory",
        r"(path|file|folder|dir\w*|data\w*|checkpoint|model|root|image)\b[^\n]{0,99} (does ?n[o']t|do not|not) exist",
        r"(could ?n[o']t|can ?no?'?t|unable to) (find|locate) [^\n]*(file|dir|folder|path|data|checkpoint|[/\\])",
        r"does not appear to have a file named", r"is a directory",
        r"no (\w+ )?(files|images|data|checkpoints?) (were )?found", r"Incorrect path_or_model_id",
        r"dataset not found", r"found 0 \w+", r"no labels (found )?in", r"num_samples=0", r"!_?s\w+\.empty\(\)",
        r"found no valid file", r"(object|key|file|path) \S+ not found",
        r"not found (at|in) ['\"(\[]?[\w.]*[/\\]", r"command not found")),
    ("configuration", (
        r"unrecognized arguments", r"arguments are required", r"invalid choice",
        r"expected (one|at least one) argument", r"DeepSpeed ?Config", r"train_batch_size is not equal",
        r"MisconfigurationException", r"not in struct", r"validation errors? for", r"HfArgumentParser",
        r"Duplicate GPU detected", r"arguments? (are|is) not used", r"missing mandatory value", r"no such option",
        r"unknown (option|argument|task|stage|optimizer|scheduler|backend|mode|loss|dataset)\b",
        r"ncclInvalid(Usage|Argument)", r"could not override", r"error merging override", r"could not consume arg",
        r"InterpolationKeyError", r"divisible by", r"mutually exclusive", r"NCCL[^\n]*invalid (usage|argument)",
        r"while (parsing|scanning) a", r"should be a positive integer",
        r"--\w[\w-]+[^\n]* (must|requires?|should|cannot|is not)", r"is not a valid choice",
        r"is not in the \S+ registry")),
    ("code_error", (r"mismatch between collectives",)),
    ("wrong_shape", (
        r"shapes? cannot be multiplied", r"must match the size", r"size of tensor a", r"is invalid for input of size",
        r"expected scalar type", r"same dtype", r"sizes of tensors must match", r"dimension out of range",
        r"shapes? mismatch", r"stack expects each tensor", r"mat1 and mat2", r"inconsistent tensor size",
        r"expected input\[", r"have (the )?same (shape|dtype|size|number of dim)", r"dtypes? mismatch",
        r"mismatch[^\n]* (shape|dtype|size)", r"can't be cast to the desired", r"not implemented for '\w+'",
        r"inhomogeneous shape", r"incompatible (shape|dtype|dimension)", r"kernel size can't be greater",
        r"expected \d-?D", r"must have \d dimensions", r"more than 1 value per channel", r"could not be broadcast",
        r"expected (input )?batch_size", r"split_with_sizes", r"cannot reshape", r"size mismatch",
        r"using a target size", r"shapes?\b[^\n]* (do not|don't|does not|doesn't|must) match",
        r"unsupported (dtype|ScalarType)", r"only support[^\n]*(fp16|bf16|float16|half)",
        r"expected (\w+ ){0,4}(shape|dtype|dimensions?|channels)\b", r"must be (broadcastable|a \w*Tensor)",
        r"Unable to create tensor", r"expected sequence of length", r"expected length \d+ but got",
        r"expanded size of the tensor", r"dtypes match", r"same number of dimensions", r"Found dtype \w+ but expected",
        r"result type \w+ can't", r"invalid dtype", r"must be \w*(float|half|int|long)\w* (tensor|but)",
        r"elements? in (the )?(list|batch).*(equal|same) (size|shape)", r"resize storage",
        r"cannot be converted to type", r"can't convert np\.ndarray", r"not aligned", r"must match exactly",
        r"\bshapes?\b[^\n]*\b(same|equal|differ|unequal|incompatible|inconsistent|mismatch)",
        r"cannot copy sequence with size", r"expected object of (scalar )?type", r"scalar types?\b",
        r"\bdtypes?\b[^\n]*\b(same|match|differ|not supported|expected|but)\b", r"inconsistent numbers? of",
        r"lengths?\b[^\n]*\b(same|equal|match|mismatch)\b", r"expects? (a )?\d-?d\b", r"unscale FP16",
        r"must be equal to input_size", r"but got (input of size|tensor of|shape|size)", r"negative dimension",
        r"too many indices for", r"must be the same as input size", r"target tensor expected", r"spatial targets",
        r"view size is not compatible", r"expected (tensor|input)[^\n]* to have")),
    ("native_crash", (
        r"killed by signal: (Segmentation fault|Aborted|Illegal|Floating)",
        r"terminated with signal SIG(SEGV|ABRT|BUS|ILL)")),
    ("device_memory", (r"out of memory",)),
    ("corrupt_data", (r"\bcorrupt(ed|ion)?\b(?!/incomplete)",)),
    ("missing_file", (r"(can(no|')t|could not|couldn't|unable to|failed to) (find|locate)\b",)),
    ("storage", (r"fail\w* to (download|fetch)", r"download(ing)?[^\n]{0,60} fail")),
    ("killed", (r"killed by signal: (Terminated|Interrupt)",)),
    ("assertion", (r"INTERNAL ASSERT FAILED",)),
    ("code_error", (r"index \d+ is out of (bounds|range)",)),
)  # fmt: skip
TYPES = rules(  # by the end of the name, if the text says nothing
    ("killed", (r"KeyboardInterrupt$", r"SIGTERM\w*$")),
    ("host_memory", (r"(^|\.)MemoryError$", r"ray\..*OutOfMemoryError$")),
    ("device_memory", (r"OutOfMemoryError$", r"ResourceExhaustedError$")),
    ("missing_module", (r"ModuleNotFoundError$", r"ImportError$", r"PackageNotFoundError$")),
    ("missing_file", (
        r"FileNotFoundError$", r"(NotA|IsA)DirectoryError$",
        r"(Repository|Entry|Revision|Dataset|DataFiles)NotFoundError$")),
    ("permission", (r"PermissionError$", r"GatedRepoError$", r"AuthenticationError$", r"NoCredentialsError$")),
    ("assertion", (r"AssertionError$",)),
    ("corrupt_data", (
        r"Unicode(Decode)?Error$", r"UnidentifiedImageError$", r"zlib\.error$", r"JSONDecodeError$", r"ParserError$",
        r"EOFError$", r"UnpicklingError$", r"BadZipFile$", r"tarfile\.ReadError$", r"BadGzipFile$", r"LZMAError$",
        r"SafetensorError$", r"Arrow(Invalid|\w*Error)$", r"DatasetGenerationError$")),
    ("configuration", (
        r"Config\w*(Error|Exception)$", r"ArgumentError$", r"UsageError$", r"ValidationError$", r"Misconfiguration\w*$",
        r"(Scanner|YAML|Yaml)Error$", r"MissingMandatoryValue$", r"ScannerError$", r"InstantiationException$")),
    ("wrong_shape", (r"EinopsError$",)),
    ("diverged", (r"FloatingPointError$", r"NaN\w*Error$", r"NonFinite\w*$")),
    ("rendezvous", (r"Rendezvous\w*$", r"DistStoreError$")),
    ("connection_lost", (
        r"ConnectionResetError$", r"BrokenPipeError$", r"ConnectionAbortedError$", r"Dist(Network|Backend)Error$")),
    ("storage", (
        r"Connection(Refused)?Error$", r"HTTPError$", r"URLError$", r"Timeout(Error)?$", r"SSLError$", r"ClientError$",
        r"Hub\w*Error$", r"ProtocolError$", r"gaierror$", r"socket\.timeout$", r"CommError$")),
)  # fmt: skip
ERRNO = {
    1: "permission", 2: "missing_file", 5: "storage", 11: "host_limit", 12: "host_memory", 13: "permission",
    20: "missing_file", 21: "missing_file", 24: "host_limit", 28: "disk_full", 30: "permission",
    32: "connection_lost", 35: "storage", 70: "storage", 98: "rendezvous", 99: "rendezvous", 101: "storage",
    107: "storage", 110: "storage", 111: "storage", 113: "storage", 116: "storage", 121: "storage", 122: "disk_full",
}  # fmt: skip
