"""Tests of the table of measures. Each number of a boundary has one place, and each column belongs to one measure."""

from itertools import pairwise

import pytest

from zmon.box import layout
from zmon.schema.measures import (
    AMOUNT_MEASURES,
    COLUMNS,
    MEASURES,
    NUM_SLOTS,
    NUM_TOTALS,
    OWN_SLOTS,
    SLOTS,
    is_aligned,
    measure_of,
    ns,
    value,
)
from zmon.schema.names import ACTIVITIES, OPS, PHASES
from zmon.schema.rank import RankState

MEASURE = {measure.name: measure for measure in MEASURES}
# The arguments of `zmon.work`.
DECLARED = [measure.name for measure in AMOUNT_MEASURES if not measure.name.startswith("nic_")]


def test_totals_lie_one_after_the_other_and_amounts_of_the_step_follow():
    slots = [SLOTS[measure.name] for measure in MEASURES]
    assert slots[0].start == 0
    assert all(before.stop == after.start for before, after in pairwise(slots))
    assert slots[-1].stop == NUM_TOTALS
    assert list(OWN_SLOTS.values()) == list(range(NUM_TOTALS, NUM_SLOTS))
    assert list(OWN_SLOTS) == [measure.name for measure in MEASURES if measure.of_step == "own"]


def test_measure_has_a_number_for_each_of_its_words():
    words = {"": ("",), "activity": ACTIVITIES, "phase": PHASES, "op": OPS}
    for measure in MEASURES:
        assert measure.words == words[measure.per]
        assert SLOTS[measure.name].stop - SLOTS[measure.name].start == len(measure.words)


def test_each_number_of_a_boundary_belongs_to_one_part():
    """First come the head and the values of gauges, then all totals, then the amounts of the step."""
    head = [layout.NUMBER, layout.KIND, layout.STEP_NUMBER, layout.TIME, layout.REPORTED]
    values = range(layout.VALUES, layout.VALUES + layout.MAX_REPORT_KEYS)
    totals = [place for slots in layout.SLOTS.values() for place in range(slots.start, slots.stop)]
    step_amounts = range(layout.STEP_AMOUNTS.start, layout.STEP_AMOUNTS.stop)
    assert [*head, *values, *totals, *step_amounts] == list(range(layout.BOUNDARY.size // 8))


def names_between(first, last):
    """Return the names of the measures from one to another, both included, in the order of the table."""
    names = [measure.name for measure in MEASURES]
    return names[names.index(first) : names.index(last) + 1]


def test_what_a_job_declares_comes_before_the_other_amounts():
    """The C edge adds the arguments of `zmon.work` to the first amounts."""
    names = [measure.name for measure in AMOUNT_MEASURES]
    assert names == names_between("samples", "nic_received") == [*DECLARED, "nic_sent", "nic_received"]
    assert len(DECLARED) == layout.NUM_DECLARED == layout.NIC_SENT
    assert slice(layout.SLOTS["samples"].start, layout.SLOTS["nic_received"].stop) == layout.AMOUNTS
    assert len(names) == layout.NUM_AMOUNTS == layout.NIC_RECEIVED + 1


def test_times_counts_and_memory_lie_together():
    """The C edge has one index for the phase or the exposed op in which a rank is."""
    assert names_between("phase", "inflight") == ["phase", "exposed", "inflight"]
    assert (0, len(PHASES), len(PHASES) + len(OPS)) == (layout.PHASE, layout.EXPOSED, layout.INFLIGHT)
    assert layout.NUM_TIMES == layout.TIMES.stop - layout.TIMES.start == len(PHASES) + 2 * len(OPS)
    assert all(MEASURE[name].unit == "seconds" for name in names_between("phase", "inflight"))
    assert names_between("calls", "received") == ["calls", "sent", "received"]
    assert (0, len(OPS), 2 * len(OPS)) == (layout.COUNT, layout.SENT, layout.RECEIVED)
    assert layout.NUM_COUNTS == layout.COUNTS.stop - layout.COUNTS.start == 3 * len(OPS)
    assert names_between("memory_allocated", "memory_peak") == ["memory_allocated", "memory_reserved", "memory_peak"]
    assert layout.NUM_MEMORY == 3


def test_each_column_belongs_to_one_measure():
    columns = [measure.column_of(word) for measure in MEASURES if measure.column for word in measure.words]
    assert len({*columns}) == len(columns)
    assert list(COLUMNS) == columns


def test_column_has_the_number_of_its_word():
    for name, column in COLUMNS.items():
        slots = SLOTS[column.measure.name]
        assert column.slot == slots.start + column.measure.words.index(column.word)
        assert measure_of(name) == (column.measure, column.word)


def test_no_column_begins_like_those_of_another_measure():
    """Otherwise a word that only a newer zmon knows could be one of two measures."""
    prefixes = [measure.prefix for measure in MEASURES if measure.column and measure.per]
    for name, column in COLUMNS.items():
        assert [prefix for prefix in prefixes if name.startswith(prefix)] == [column.measure.prefix] * bool(column.word)


@pytest.mark.parametrize(
    ("column", "measure", "word"),
    [
        ("phase_tokenize", "phase", "tokenize"),
        ("exposed_all_gather_v2", "exposed", "all_gather_v2"),
        ("bytes_sent_multicast", "sent", "multicast"),
        ("calls_", "calls", ""),
    ],
)
def test_word_that_only_a_newer_zmon_knows_has_the_measure_of_its_column(column, measure, word):
    assert measure_of(column) == (MEASURE[measure], word)
    assert column not in COLUMNS


@pytest.mark.parametrize("column", ["", "step", "start", "loss", "report_loss", "phase", "samples_2", "mean_samples"])
def test_other_column_has_no_measure(column):
    assert measure_of(column) is None
    assert not is_aligned(column)


def test_hub_compares_self_time_exposed_time_bytes_and_work():
    aligned = {"phase", "exposed", "sent", "received", *DECLARED}
    assert {measure.name for measure in MEASURES if measure.aligned} == aligned
    assert is_aligned("phase_forward")
    assert is_aligned("exposed_multicast")
    assert not is_aligned("inflight_all_to_all")


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("phase", 1_500_000_000, 1.5),
        ("sent", 1_500, 1_500),
        ("samples", 0, 0),
        ("phase", -1, -1e-9),  # the difference of two totals is never unknown
        ("sent", -1, -1),
        *((name, -1, None) for name in ("samples", "memory_peak", "last_checkpoint")),
    ],
)
def test_value_has_the_unit_of_its_measure_or_is_unknown(name, number, expected):
    assert value(MEASURE[name], number) == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("number", [0, 1, 999_999_999, 86_400 * 10**9 + 1])
def test_whole_nanoseconds_of_seconds_are_the_same_again(number):
    assert ns(value(MEASURE["phase"], number)) == number


def test_measures_of_one_metric_have_labels_of_their_own_and_one_help_and_one_label_name():
    measures = [measure for measure in MEASURES if measure.metric]
    assert len({(measure.metric, measure.label) for measure in measures}) == len(measures)
    assert all(measure.help for measure in measures)
    described = {(measure.metric, measure.help, measure.label and measure.label[0]) for measure in measures}
    assert len(described) == len({measure.metric for measure in measures})


def test_field_of_a_measure_is_a_field_of_a_rank():
    assert {measure.field for measure in MEASURES} - {""} <= set(RankState.__dataclass_fields__)
