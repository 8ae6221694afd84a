"""The values of a GPU that zmon reads from NVML, each beside the properties of nvidia-smi that show the same. Pure.

While the GPU is loaded, both are read in several rounds, nvidia-smi just before and just after zmon. A value passes if
in one of the rounds it lies between the two readings of nvidia-smi, extended by its tolerance. A value with a wrong
unit or from a wrong field does so in no round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from bench.gpu_check.nvidia_smi import Row, value
from bench.gpu_check.result import NOT_CHECKED, PASSED, Result, outcome_of
from zmon.agent.sources.gpu import sysfs_address
from zmon.schema.host import GpuSample

Value = float | bool | str | None
BYTES_PER_MIB, HERTZ_PER_MHZ, RATIO_PER_PERCENT = 2.0**20, 1e6, 0.01

# Fields of a sample that nvidia-smi cannot confirm here, with the reason.
NOT_COMPARED = {
    "nics": "nvidia-smi shows them in the picture of `topo -m` only",
    "memory_active_ratio": "nvidia-smi shows it in `dmon` only",
    "minor": "nvidia-smi shows it in `-q` only",
    "lost": "a GPU is not taken off the bus for a check",
    "xid_errors": "an XID error is not provoked for a check",
    "nvlink_received_bytes": "nvidia-smi shows NVLink counters link by link, and one GPU alone sends nothing",
    "nvlink_sent_bytes": "nvidia-smi shows NVLink counters link by link, and one GPU alone sends nothing",
    "nvlink_errors": "nvidia-smi shows NVLink counters link by link, and one GPU alone sends nothing",
}
_TEXTS = ("gpu", "uuid", "name", "pci")  # fields that are texts; `gpu` is the index
# Compared in nvml.py: the copies, the products and the process of the load are known.
COMPARED_WITH_LOAD = ("pcie_received_bytes", "pcie_sent_bytes", "pids", "tensor_active_ratio")


@dataclass(frozen=True)
class Pair:
    """A value of zmon and the properties of nvidia-smi that show the same."""

    field: str  # of GpuSample
    key: str  # in a field that is a mapping, else ""
    properties: tuple[str, ...]  # of nvidia-smi; zmon has their sum. Empty: nvidia-smi has none
    scale: float = 1.0  # nvidia-smi's unit in zmon's unit
    unit: str = ""  # of zmon
    tolerance: float = 0.0  # in zmon's unit

    @property
    def name(self) -> str:
        """The name of the value in the report."""
        return f"{self.field}[{self.key}]" if self.key else self.field

    def of_sample(self, sample: GpuSample) -> Value:
        """Return zmon's value."""
        whole = getattr(sample, self.field)
        result: Value = whole.get(self.key) if self.key else whole
        return result

    def of_row(self, row: Row) -> Value:
        """Return nvidia-smi's value in zmon's unit; None if it has none."""
        parts = [value(row.get(name, "")) for name in self.properties]
        if not parts or parts[0] is None:
            return None
        if self.field in _TEXTS:
            text = row[self.properties[0]]
            return sysfs_address(text) if self.field == "pci" else text
        if len(parts) == 1 and not _is_number(parts[0]):
            return parts[0]
        numbers = [part for part in parts if isinstance(part, float)]
        return sum(numbers) * self.scale if len(numbers) == len(parts) else None


@dataclass(frozen=True)
class Round:
    """The values of one GPU: by nvidia-smi, by zmon, and by nvidia-smi again."""

    before: Row
    sample: GpuSample
    after: Row


def _clocks(field: str, kind: str, domains: Iterable[str], tolerance: float) -> Iterator[Pair]:
    for domain in domains:
        yield Pair(field, domain, (f"clocks.{kind}.{domain}",), HERTZ_PER_MHZ, "Hz", tolerance)


def _mapping(field: str, properties: dict[str, str]) -> Iterator[Pair]:
    yield from (Pair(field, key, (name,)) for key, name in properties.items())


PAIRS: tuple[Pair, ...] = (
    Pair("gpu", "", ("index",)),
    Pair("uuid", "", ("uuid",)),
    Pair("name", "", ("name",)),
    Pair("pci", "", ("pci.bus_id",)),
    # NVML's first version of this call counts the memory that the driver reserves as used; nvidia-smi does not.
    Pair("memory_used_bytes", "", ("memory.used", "memory.reserved"), BYTES_PER_MIB, "B", 2 * BYTES_PER_MIB),
    Pair("memory_total_bytes", "", ("memory.total",), BYTES_PER_MIB, "B", BYTES_PER_MIB),
    Pair("utilization_ratio", "", ("utilization.gpu",), RATIO_PER_PERCENT, "", 0.1),
    Pair("power_watts", "", ("power.draw",), 1.0, "W", 15.0),
    Pair("power_limit_watts", "", ("enforced.power.limit",), 1.0, "W", 0.5),
    Pair("temperature_celsius", "", ("temperature.gpu",), 1.0, "°C", 2.0),
    Pair("memory_temperature_celsius", "", ("temperature.memory",), 1.0, "°C", 2.0),
    *_clocks("clocks_hertz", "current", ("graphics", "sm", "memory", "video"), 45 * HERTZ_PER_MHZ),
    *_clocks("max_clocks_hertz", "max", ("graphics", "sm", "memory"), 0.5 * HERTZ_PER_MHZ),
    Pair("max_clocks_hertz", "video", ()),  # nvidia-smi has no property for it
    *_mapping(
        "throttled",
        {
            "sw_power_cap": "clocks_event_reasons.sw_power_cap",
            "hw_slowdown": "clocks_event_reasons.hw_slowdown",
            "sync_boost": "clocks_event_reasons.sync_boost",
            "sw_thermal": "clocks_event_reasons.sw_thermal_slowdown",
            "hw_thermal": "clocks_event_reasons.hw_thermal_slowdown",
            "hw_power_brake": "clocks_event_reasons.hw_power_brake_slowdown",
        },
    ),
    *_mapping(
        "ecc_errors",
        {
            "volatile_corrected": "ecc.errors.corrected.volatile.total",
            "volatile_uncorrected": "ecc.errors.uncorrected.volatile.total",
            "aggregate_corrected": "ecc.errors.corrected.aggregate.total",
            "aggregate_uncorrected": "ecc.errors.uncorrected.aggregate.total",
            "retired_pages_correctable": "retired_pages.single_bit_ecc.count",
            "retired_pages_uncorrectable": "retired_pages.double_bit.count",
            "remapped_correctable": "remapped_rows.correctable",
            "remapped_uncorrectable": "remapped_rows.uncorrectable",
        },
    ),
    Pair("repair_pending", "", ("remapped_rows.pending",)),
    Pair("mig", "", ("mig.mode.current",)),
)
REMAPPED = tuple(name for pair in PAIRS for name in pair.properties if name.startswith("remapped_rows."))
PROPERTIES = tuple(dict.fromkeys(name for pair in PAIRS for name in pair.properties if name not in REMAPPED))


def compare(rounds: Sequence[Round]) -> Iterator[Result]:
    """Yield a result for each pair and for each field that is not compared."""
    for pair in PAIRS:
        results = [_compare(pair, round_) for round_ in rounds]
        yield next((result for result in results if result.outcome == PASSED), results[-1])
    for field, reason in NOT_COMPARED.items():
        yield Result(field, NOT_CHECKED, note=reason)


def _compare(pair: Pair, round_: Round) -> Result:
    value = pair.of_sample(round_.sample)
    before = pair.of_row(round_.before)
    after = pair.of_row(round_.after)
    figure = value if _is_number(value) else _text(value)
    if value is None and before is None:
        return Result(pair.name, NOT_CHECKED, note="this GPU does not offer it")
    if before is None or after is None:
        return Result(pair.name, NOT_CHECKED, figure, pair.unit, note="nvidia-smi does not show it")
    holds = _between(value, before, after, pair.tolerance) if _is_number(value) else value in (before, after)
    bounds = f"nvidia-smi: {_text(before)} … {_text(after)}" if before != after else f"nvidia-smi: {_text(before)}"
    tolerance = f" ± {pair.tolerance:,.4g}" if pair.tolerance else ""
    return Result(pair.name, outcome_of(holds), figure, pair.unit if _is_number(value) else "", bounds + tolerance)


def _between(value: float, before: Value, after: Value, tolerance: float) -> bool:
    if not (_is_number(before) and _is_number(after)):
        return False
    return min(before, after) - tolerance <= value <= max(before, after) + tolerance


def _is_number(value: Value) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Value) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:,.4g}"
