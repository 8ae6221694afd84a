"""Checks the NVML source against nvidia-smi, and against what a process that loads the GPU copies and multiplies."""

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
from bench.gpu_check.records import DTYPE, PRODUCTS, RECEIVED_BYTES, WIDTH
from bench.gpu_check.result import FAILED, NOT_CHECKED, Result, outcome_of
from bench.gpu_check.settings import Setting
from bench.processes import child
from bench.ranks import JobFailed, last_lines
from bench.rows import MIB_PER_BYTE
from zmon.agent.sources.gpu import GpuSource
from zmon.errors import SourceUnavailable
from zmon.scaling.peaks import peaks_of
from zmon.schema.host import GpuSample, rise

ROUNDS = 5
_WARM_SECONDS = 2.0  # utilization and power are means over up to a second
_COPY_SECONDS = 3.0
_START_SECONDS = 60.0
# Bytes on the bus ÷ bytes copied: less where a reading is in the middle of a copy, more by the headers of packets.
COPIED_RATIOS = (0.9, 1.5)
TENSOR_TOLERANCE = 0.05  # between the tensor cores' busy time and the operations of the load, both of the peak


def run(kit: Kit, _: Setting) -> Iterator[Result]:
    """Load the first GPU, then compare."""
    copied = kit.new_folder() / "copied"
    with load_gpu(copied, kit.seconds(_START_SECONDS)) as process:
        time.sleep(_WARM_SECONDS)
        yield from compare_values(GpuSource(), COMMAND, process.pid, lambda: _bytes_copied(copied))


def compare_values(
    source: GpuSource, command: str, pid: int, copied: Callable[[], tuple[int, int]]
) -> Iterator[Result]:
    """Yield the comparisons of the first GPU; `copied` returns the bytes that it has received and sent by copies."""
    try:
        rounds = [_round(source, command) for _ in range(ROUNDS)]
    except (SourceUnavailable, SmiFailed, LookupError) as error:
        yield Result("NVML source", FAILED, note=str(error) or "there is no GPU")
        return
    yield from compare(rounds)
    yield _compare_pids(rounds[-1].sample, pid, command)
    yield from _compare_copies(source, copied)


@contextlib.contextmanager
def load_gpu(copied: Path, seconds: float) -> Iterator[psutil.Process]:
    """Load the first GPU by a process that ends with the block. Raises JobFailed if it does not work in time."""
    with child(sys.executable, "-m", f"{JOBS}.load", str(copied), log=copied.with_name("log")) as process:
        deadline = time.monotonic() + seconds
        while not copied.exists():
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                raise JobFailed(f"the process that loads the GPU has ended:\n{last_lines(copied.parent)}")
            if time.monotonic() > deadline:
                raise JobFailed(f"no round of the load ended within {seconds:.0f} s:\n{last_lines(copied.parent)}")
            time.sleep(0.1)
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


def _compare_copies(source: GpuSource, copied: Callable[[], tuple[int, int]]) -> Iterator[Result]:
    """Compare the counters of the bus with the bytes copied meanwhile, and the tensor cores with the products."""
    first = _sample(source)
    copied_before = copied()
    begin = time.monotonic()
    time.sleep(_COPY_SECONDS)
    last = _sample(source)
    copied_after = copied()
    end = time.monotonic()
    yield _compare_tensor(last, (copied_after[0] - copied_before[0]) // RECEIVED_BYTES, end - begin)
    for number, field in enumerate(("pcie_received_bytes", "pcie_sent_bytes")):
        counted = rise(getattr(first, field), getattr(last, field))
        in_copies = copied_after[number] - copied_before[number]
        if counted is None:
            yield Result(field, NOT_CHECKED, note="this GPU has no such counter, or one of 32 bits")
            continue
        holds = COPIED_RATIOS[0] * in_copies <= counted <= COPIED_RATIOS[1] * in_copies
        limits = f"× {COPIED_RATIOS[0]:g} … {COPIED_RATIOS[1]:g}"
        compared_with = f"copied meanwhile: {in_copies * MIB_PER_BYTE:,.0f} MiB, {limits}"
        yield Result(field, outcome_of(holds), counted * MIB_PER_BYTE, "MiB", compared_with)


def _compare_tensor(sample: GpuSample, rounds: int, seconds: float) -> Result:
    """Compare how busy the tensor cores were with the operations of the load in these rounds, relative to the peak."""
    ratio = sample.tensor_active_ratio
    peaks = peaks_of(sample.name or "", {})
    if ratio is None or peaks is None:
        note = "this GPU does not measure it" if ratio is None else f"the peak of {sample.name} is unknown"
        return Result("tensor_active_ratio", NOT_CHECKED, ratio, note=note)
    peak_ratio = rounds * PRODUCTS * 2 * WIDTH**3 / seconds / peaks.flops[DTYPE]
    compared_with = f"operations of the products: {peak_ratio:.3f} of the peak ± {TENSOR_TOLERANCE:g}"
    clock = sample.clocks_hertz.get("sm")
    note = ""
    if clock is not None:
        note = f"SM clock {clock / HERTZ_PER_MHZ:,.0f} MHz: the peak is that of the datasheet's clock"
    return Result(
        "tensor_active_ratio", outcome_of(abs(ratio - peak_ratio) <= TENSOR_TOLERANCE), ratio, "", compared_with, note
    )


def _bytes_copied(file: Path) -> tuple[int, int]:
    received, sent = map(int, file.read_text().split())
    return received, sent
