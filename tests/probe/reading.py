"""Functions that read parts of a box that a test has written."""

from tests.boxes import read_records, read_totals
from zmon.box.reader import BoxReader


def read_steps(box):
    """Return step records and totals."""
    reader = BoxReader(box.path)
    try:
        return read_records(reader), read_totals(reader)
    finally:
        reader.close()


def current_state(box):
    """Return the current state of the rank."""
    reader = BoxReader(box.path)
    try:
        return reader.now()
    finally:
        reader.close()


def read_sequences(box):
    """Return the number of collectives entered, by group."""
    reader = BoxReader(box.path)
    try:
        return reader.sequences()
    finally:
        reader.close()


def read_gauges(box):
    """Return the reported gauges."""
    reader = BoxReader(box.path)
    try:
        return reader.report()
    finally:
        reader.close()


def ns(seconds):
    """Convert to whole nanoseconds."""
    return round(seconds * 1e9)


def ms(seconds):
    """Convert to whole milliseconds, because the clock of the tests advances by a nanosecond at each reading."""
    return round(seconds * 1e3)


def exact_time_by_part(measures):
    """Return nanoseconds by phase and by exposed op."""
    phases = {name: ns(seconds) for name, seconds in measures.phases.items()}
    return phases | {name: ns(op.exposed_seconds) for name, op in measures.ops.items() if op.exposed_seconds}


def time_by_part(measures):
    """Return milliseconds by phase and by exposed op; values below half a millisecond are left out."""
    return {name: round(value / 1e6) for name, value in exact_time_by_part(measures).items() if value >= 500_000}


def parts_sum_to_duration(record):
    """Return True if phases and exposed ops sum to the duration of the step, to the nanosecond."""
    return sum(exact_time_by_part(record.measures).values()) == ns(record.duration)
