"""Functions that run the rank of a test, and read what it has written: its box and its output."""

import contextlib
import textwrap
from typing import NamedTuple

from tests.boxes import Totals, read_part, read_records, read_totals
from tests.steps import StepRecord
from zmon.box.reader import BoxReader


def run_rank(start_rank, script, **options):
    """Run a script in a rank that is watched without the hooks into torch, and return the rank after its clean end."""
    attach = "import zmon\nfrom zmon import probe\nassert probe.attach_box()\n"
    rank = start_rank(attach + textwrap.dedent(script), **options)
    assert rank.wait() == 0
    return rank


class Steps(NamedTuple):
    """The steps in a box, and the totals up to its last boundary."""

    records: list[StepRecord]
    totals: Totals


def read_box(path):
    """Return the steps in the box at this path."""
    with contextlib.closing(BoxReader(path)) as reader:
        return Steps(read_records(reader), read_totals(reader))


def read_steps(box):
    return read_box(box.path)


def current_state(box):
    """Return the state of the rank, as a reader sees it."""
    return read_part(box, "now")


def read_sequences(box):
    """Return the number of collectives of each group, by the number of the group."""
    return read_part(box, "sequences")


def zmon_lines(rank):
    """Return the lines that zmon printed in a rank."""
    return [line for line in rank.output.splitlines() if line.startswith("zmon: ")]


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
