"""Checks the NVML source against nvidia-smi, and against the work of a process that loads the GPU."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from bench.gpu_check import nvidia_smi
from bench.gpu_check.checks.nvml_fields import HERTZ_PER_MHZ, PROPERTIES, REMAPPED, Round, compare
from bench.gpu_check.kit import JOBS, Kit
from bench.gpu_check.nvidia_smi import COMMAND, Row, SmiFailed
from bench.gpu_check.records import LoadTotals, read
from bench.gpu_check.result import FAILED, NOT_CHECKED, Result, outcome_of
from bench.gpu_check.settings import Setting
from bench.processes import child, is_alive
from bench.ranks import JobFailed, last_lines
from bench.rows import MIB_PER_BYTE
from zmon.agent.sources.gpu import GpuSource
from zmon.errors import SourceUnavailable
from zmon.scaling.peaks import peaks_of
from zmon.schema.host import GpuSample, increase

ROUNDS = 5  # of readings: nvidia-smi, then zmon, then nvidia-smi again
_WARM_SECONDS = 2.0  # utilization and power are means over up to a second
_COPY_SECONDS = 3.0
_START_SECONDS = 60.0  # a limit, until the load has done its first round
_POLL_SECONDS = 0.1
# Limits of the bytes on the bus ÷ the bytes copied. A reading in the middle of a copy makes the ratio lower, and the
# headers of packets make it higher.
LEAST_COPIED_RATIO, MOST_COPIED_RATIO = 0.9, 1.5
TENSOR_TOLERANCE = 0.05  # between the tensor cores' busy time and the operations of the load, both of the peak


def run(kit: Kit, _: Setting) -> Iterator[Result]:
    """Load the first GPU, then compare."""
    folder = kit.new_folder()
    with load_gpu(folder, kit.seconds_left(_START_SECONDS)) as process:
        time.sleep(_WARM_SECONDS)
        yield from compare_values(GpuSource(), COMMAND, process.pid, lambda: read(folder, 0, LoadTotals))


def compare_values(source: GpuSource, command: str, pid: int, load: Callable[[], LoadTotals]) -> Iterator[Result]:
    """Yield the comparisons of the first GPU; `load` returns the work that the process `pid` has done on it."""
    try:
        rounds = [_round(source, command) for _ in range(ROUNDS)]
    except (SourceUnavailable, SmiFailed, LookupError) as error:
        yield Result("NVML source", FAILED, note=str(error) or "there is no GPU")
        return
    yield from compare(rounds)
    yield _compare_pids(rounds[-1].sample, pid, command)
    yield from _compare_load(source, load)


@contextlib.contextmanager
def load_gpu(folder: Path, seconds: float) -> Iterator[psutil.Process]:
    """Load the first GPU by a process that ends with the block. Raises JobFailed if it does not work in time."""
    with child(sys.executable, "-m", JOBS, str(folder), "load", log=folder / "log") as process:
        deadline = time.monotonic() + seconds
        while not (folder / "0.json").exists():
            if not is_alive(process):
                raise JobFailed(f"the process that loads the GPU has ended:\n{last_lines(folder)}")
            if time.monotonic() > deadline:
                raise JobFailed(f"no round of the load ended within {seconds:.0f} s:\n{last_lines(folder)}")
            time.sleep(_POLL_SECONDS)
        yield process


def _round(source: GpuSource, command: str) -> Round:
    before = _row(command)
    sample = _sample(source)
    return Round(before, sample, _row(command))


def _row(command: str) -> Row:
    """Return all properties of the first GPU; a second query asks for remapped rows."""
    (row, *_) = nvidia_smi.query(PROPERTIES, command=command)
    with contextlib.suppress(SmiFailed, ValueError):  # older cards remap no rows
        (remapped, *_) = nvidia_smi.query(REMAPPED, "remapped-rows", command)
        row |= remapped
    return row


def _sample(source: GpuSource) -> GpuSample:
    sample: GpuSample = source.read().value[0]
    return sample


def _compare_pids(sample: GpuSample, pid: int, command: str) -> Result:
    """Compare the processes of the GPU; a PID namespace may hide them from both."""
    by_smi = sorted(int(row["pid"]) for row in nvidia_smi.query(("pid",), "compute-apps", command))
    pids = ", ".join(map(str, sample.pids)) or "none"
    compared_with = f"nvidia-smi: {', '.join(map(str, by_smi)) or 'none'}; the load is {pid}"
    if not sample.pids and not by_smi:
        return Result("pids", NOT_CHECKED, pids, "", compared_with, "the driver shows no process (PID namespace?)")
    return Result("pids", outcome_of(list(sample.pids) == by_smi and pid in sample.pids), pids, "", compared_with)


def _compare_load(source: GpuSource, load: Callable[[], LoadTotals]) -> Iterator[Result]:
    """Compare the counters of the bus and of the tensor cores with the work of the load meanwhile."""
    first = _sample(source)
    before = load()
    begin = time.monotonic()
    time.sleep(_COPY_SECONDS)
    last = _sample(source)
    after = load()
    seconds = time.monotonic() - begin
    yield _compare_tensor(last, (after.operations - before.operations) / seconds, after.dtype)
    for field, copied_bytes in (
        ("pcie_received_bytes", after.received_bytes - before.received_bytes),
        ("pcie_sent_bytes", after.sent_bytes - before.sent_bytes),
    ):
        counted = increase(getattr(first, field), getattr(last, field))
        if counted is None:
            yield Result(field, NOT_CHECKED, note="this GPU has no such counter, or one of 32 bits")
            continue
        holds = LEAST_COPIED_RATIO * copied_bytes <= counted <= MOST_COPIED_RATIO * copied_bytes
        limits = f"× {LEAST_COPIED_RATIO:g} … {MOST_COPIED_RATIO:g}"
        compared_with = f"copied meanwhile: {copied_bytes * MIB_PER_BYTE:,.0f} MiB, {limits}"
        yield Result(field, outcome_of(holds), counted * MIB_PER_BYTE, "MiB", compared_with)


def _compare_tensor(sample: GpuSample, operations_per_second: float, dtype: str) -> Result:
    """Compare how busy the tensor cores were with the operations of the load, as a ratio of the GPU's peak."""
    ratio = sample.tensor_active_ratio
    peaks = peaks_of(sample.name or "", {})
    if ratio is None or peaks is None:
        note = "this GPU does not measure it" if ratio is None else f"the peak of {sample.name} is unknown"
        return Result("tensor_active_ratio", NOT_CHECKED, ratio, note=note)
    peak_ratio = operations_per_second / peaks.flops[dtype]
    compared_with = f"operations of the products: {peak_ratio:.3f} of the peak ± {TENSOR_TOLERANCE:g}"
    clock = sample.clocks_hertz.get("sm")
    note = ""
    if clock is not None:
        note = f"SM clock {clock / HERTZ_PER_MHZ:,.0f} MHz: the peak is that of the datasheet's clock"
    holds = abs(ratio - peak_ratio) <= TENSOR_TOLERANCE
    return Result("tensor_active_ratio", outcome_of(holds), ratio, "", compared_with, note)
