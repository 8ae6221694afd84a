"""What a test reads back from a box it wrote."""

from zmon.box.reader import BoxReader


def read(box):
    """Step records and totals."""
    reader = BoxReader(box.path)
    try:
        return [record for _, record in reader.records(0)], reader.totals()
    finally:
        reader.close()


def now(box):
    """What the rank is doing."""
    reader = BoxReader(box.path)
    try:
        return reader.now()
    finally:
        reader.close()


def sequences(box):
    """Collectives entered, by group."""
    reader = BoxReader(box.path)
    try:
        return reader.sequences()
    finally:
        reader.close()


def reported(box):
    """The gauges."""
    reader = BoxReader(box.path)
    try:
        return reader.report()
    finally:
        reader.close()


def ns(seconds):
    """Whole nanoseconds."""
    return round(seconds * 1e9)


def ms(seconds):
    """Whole milliseconds: the clock of the tests moves on by a nanosecond at each reading."""
    return round(seconds * 1e3)


def exact(measures):
    """Nanoseconds by phase and by exposed op."""
    phases = {name: ns(seconds) for name, seconds in measures.phases.items()}
    return phases | {name: ns(op.exposed_seconds) for name, op in measures.ops.items() if op.exposed_seconds}


def parts(measures):
    """The same in milliseconds; what took none is left out."""
    return {name: round(spent / 1e6) for name, spent in exact(measures).items() if spent >= 500_000}


def sums_up(record):
    """Whether phases and exposed ops make up the step, to the nanosecond."""
    return sum(exact(record.measures).values()) == ns(record.duration)
