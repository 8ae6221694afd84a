"""The table of measures: everything that is counted in a step of a rank.

A row of `MEASURES` is one measure. All else follows from it:

- the slots of a boundary in the black box, and the numbers that the C edge writes
- the columns of `zmon.schema.steps.Steps`, of the step log and of a rank's totals
- the metrics of a rank, and their documentation

A new measure is a row here and the place that counts it.

The rank imports this module, so it uses the standard library only. Boxes, steps and totals have seconds as whole
nanoseconds. -1 means unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from zmon.schema.names import ACTIVITIES, OPS, PHASES

UNKNOWN = -1
NS = 1e-9  # seconds

Per = Literal["", "activity", "phase", "op"]  # one number of the rank, or one for each word
WORDS: dict[Per, tuple[str, ...]] = {"": ("",), "activity": ACTIVITIES, "phase": PHASES, "op": OPS}


class Measure(NamedTuple):
    """One row: a number of a rank, or one for each activity, phase or op."""

    name: str
    unit: Literal["seconds", "bytes", ""]  # "": a count
    per: Per = ""
    # How a step follows from the totals at its two ends: their difference, the last total, or a number of its own,
    # which is unknown unless the job or the probe gives it.
    of_step: Literal["difference", "last", "own"] = "difference"
    column: str = ""  # its column in steps and totals, where {} is the word; "": it has none
    logged: bool = True  # the column is in the exported step log
    aligned: bool = False  # the hub compares it over all ranks, so it is in the report of each pass
    metric: str = ""  # "": it has none
    label: tuple[str, str] | None = None  # a label of the metric that tells this measure from others, and its value
    help: str = ""
    field: str = ""  # the field of `RankState` that has the total; "": `RankState.totals` has it

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it has a number for; one empty word if it is one number of the rank."""
        return WORDS[self.per]

    def column_of(self, word: str) -> str:
        """Return the name of its column for this word."""
        return self.column.format(word)

    @property
    def prefix(self) -> str:
        """The beginning of its columns, if it has one for each word."""
        return self.column.removesuffix("{}")

    @property
    def absent(self) -> int:
        """The value where there is no column: a phase or op did not run, and an amount is unknown."""
        return UNKNOWN if self.of_step != "difference" else 0


_DEVICE = "zmon_device_memory_bytes"
_DEVICE_HELP = "Memory of the device's caching allocator."
_OP_BYTES = "zmon_collective_bytes_total"
_OP_BYTES_HELP = "Size of the tensors that the rank sends or receives in collectives."
_OFFLOAD = "zmon_offload_bytes_total"
_OFFLOAD_HELP = (
    "Bytes of parameters and optimizer state that the rank moved from and to a disk or the memory of its host."
)
_NIC = "zmon_step_nic_bytes_total"
_NIC_HELP = "Bytes on the job's network interface during steps, read every 100 ms at most; on local rank 0 only."

# The order is that of the numbers in a box. The C edge needs each of these together, in this order: what a job declares
# of a step (`samples` to `offload_written`), the other amounts, the times, and the counts.
MEASURES = (
    Measure("steps", "", metric="zmon_steps_total", help="Optimizer updates that the rank has finished.", field="steps"),
    Measure("step", "seconds", column="duration", metric="zmon_step_seconds_total", help="Time that the rank has spent in steps.", field="step_seconds_total"),
    Measure("last_step", "seconds", of_step="last", metric="zmon_last_step_timestamp_seconds", help="Unix time at which the last step ended.", field="last_step_time"),
    Measure("last_checkpoint", "seconds", of_step="last", metric="zmon_last_checkpoint_timestamp_seconds", help="Unix time at which the last checkpoint ended.", field="last_checkpoint_time"),
    Measure("memory_allocated", "bytes", of_step="last", column="device_memory_allocated", logged=False, metric=_DEVICE, label=("kind", "allocated"), help=_DEVICE_HELP),
    Measure("memory_reserved", "bytes", of_step="last", column="device_memory_reserved", logged=False, metric=_DEVICE, label=("kind", "reserved"), help=_DEVICE_HELP),
    Measure("memory_peak", "bytes", of_step="last", column="device_memory_peak", metric=_DEVICE, label=("kind", "peak"), help=_DEVICE_HELP, field="device_memory_peak_bytes"),
    Measure("overhead", "seconds", metric="zmon_probe_overhead_seconds_total", help="Time that the probe itself needed.", field="overhead_seconds"),
    Measure("dropped", "", metric="zmon_probe_dropped_records_total", help="Records that the probe dropped.", field="dropped_records"),
    Measure("between", "seconds", per="activity", field="between_seconds"),
    Measure("samples", "", of_step="own", column="samples", aligned=True, metric="zmon_samples_total", help="Samples that this rank has trained on."),
    Measure("lookups", "", of_step="own", column="lookups", aligned=True, metric="zmon_lookups_total", help="Embedding rows that this rank has looked up."),
    Measure("flops", "", of_step="own", column="flops", aligned=True),
    Measure("memory_traffic", "bytes", of_step="own", column="memory_traffic", aligned=True),
    Measure("tokens", "", of_step="own", column="tokens", aligned=True, metric="zmon_tokens_total", help="Tokens that this rank has trained on."),
    Measure("offload_read", "bytes", of_step="own", column="offload_read", aligned=True, metric=_OFFLOAD, label=("direction", "read"), help=_OFFLOAD_HELP),
    Measure("offload_written", "bytes", of_step="own", column="offload_written", aligned=True, metric=_OFFLOAD, label=("direction", "written"), help=_OFFLOAD_HELP),
    Measure("nic_sent", "bytes", of_step="own", column="nic_sent", metric=_NIC, label=("direction", "sent"), help=_NIC_HELP),
    Measure("nic_received", "bytes", of_step="own", column="nic_received", metric=_NIC, label=("direction", "received"), help=_NIC_HELP),
    Measure("phase", "seconds", per="phase", column="phase_{}", aligned=True, metric="zmon_phase_seconds_total", help="Self time of the rank in steps, by phase."),
    Measure("exposed", "seconds", per="op", column="exposed_{}", aligned=True, metric="zmon_collective_exposed_seconds_total", help="Time in collectives that no computation hides (exposed time)."),
    Measure("inflight", "seconds", per="op", column="inflight_{}", metric="zmon_collective_seconds_total", help="Time that collectives were in flight."),
    Measure("calls", "", per="op", column="calls_{}", logged=False, metric="zmon_collectives_total", help="Collectives that the rank has entered."),
    Measure("sent", "bytes", per="op", column="bytes_sent_{}", aligned=True, metric=_OP_BYTES, label=("direction", "sent"), help=_OP_BYTES_HELP),
    Measure("received", "bytes", per="op", column="bytes_received_{}", aligned=True, metric=_OP_BYTES, label=("direction", "received"), help=_OP_BYTES_HELP),
)  # fmt: skip

AMOUNT_MEASURES = tuple(measure for measure in MEASURES if measure.of_step == "own")
_EDGES = tuple(accumulate((len(measure.words) for measure in MEASURES), initial=0))
# The numbers of a measure among those of a boundary: first all totals, then what is a step's own.
SLOTS = {measure.name: slice(*edges) for measure, edges in zip(MEASURES, pairwise(_EDGES), strict=True)}
NUM_TOTALS = _EDGES[-1]
OWN_SLOTS = {measure.name: NUM_TOTALS + number for number, measure in enumerate(AMOUNT_MEASURES)}
NUM_SLOTS = NUM_TOTALS + len(AMOUNT_MEASURES)


class Column(NamedTuple):
    """The column of a measure for one word, and its number among those of a boundary."""

    measure: Measure
    word: str
    slot: int


COLUMNS = {
    measure.column_of(word): Column(measure, word, slot)
    for measure in MEASURES
    if measure.column
    for slot, word in enumerate(measure.words, SLOTS[measure.name].start)
}
_BY_WORD = tuple(measure for measure in MEASURES if measure.column and measure.per)


class ColumnMeaning(NamedTuple):
    """The measure of a column, and its word, which only a newer zmon may know."""

    measure: Measure
    word: str


def measure_of(column: str) -> ColumnMeaning | None:
    """Return the measure of a column and its word; None: no measure has it."""
    if known := COLUMNS.get(column):
        return ColumnMeaning(known.measure, known.word)
    return next(
        (ColumnMeaning(m, column.removeprefix(m.prefix)) for m in _BY_WORD if column.startswith(m.prefix)), None
    )


def columns_of(measure: str, columns: Iterable[str]) -> dict[str, str]:
    """Return the columns of a measure among these, by their words, such as the phase or the op."""
    meanings = ((column, measure_of(column)) for column in columns)
    return {meaning.word: column for column, meaning in meanings if meaning and meaning.measure.name == measure}


def is_aligned(column: str) -> bool:
    """Return True if the hub compares this column over all ranks."""
    meaning = measure_of(column)
    return meaning is not None and meaning.measure.aligned


def value(measure: Measure, number: int) -> float | None:
    """Return a number of a box in seconds, bytes or counts; None: unknown."""
    if number == UNKNOWN and measure.of_step != "difference":
        return None
    return number * NS if measure.unit == "seconds" else number


def ns(seconds: float) -> int:
    """Return seconds as whole nanoseconds."""
    return round(seconds / NS)
