"""The page of all ways in which a process can end, from the rows that tests/detectors/endings/test_table.py judges."""

from __future__ import annotations

from scripts.hangs_page import table
from tests.detectors.endings.abort_rows import NCCL, SIZES
from tests.detectors.endings.job_rows import WHOLE_JOB
from tests.detectors.endings.loop_rows import LOOPS
from tests.detectors.endings.one_rank_rows import ONE_RANK
from tests.detectors.endings.runner_rows import RUNNERS
from tests.detectors.endings.signal_rows import SIGNALS
from tests.detectors.endings.store_rows import STORE
from tests.detectors.endings.table import LAUNCHERS, TORCHRUN, WAYS, WHENS, Way, expected
from zmon.detectors.endings.limits import EndLimits
from zmon.job.facts import LOOK_SECONDS

HEAD = """\
# How a job can end

Generated from `tests/detectors/endings/` by `make generate`. Each row is a test.

An end is quiet only if the owner of the job caused it (a signal reached the launcher or all ranks before any rank
raised or was killed), or if all ranks finished. A launcher sends SIGTERM to the survivors of every failure, so a
signal alone proves no cancellation. The order of the ends decides: within one host by the times of the last words,
across hosts by ages that the hub brings to one moment, and deaths less than {look:g} s apart count as simultaneous.
A signal that reached several ranks names nobody, unless one rank had it clearly before the others.

A rank is a victim only if its error was raised inside a collective, or if its text comes from gloo, NCCL or c10d. An
exception that a framework raised from such an error counts as well. A rank that is killed after others were already
gone is a consequence, too.

`zmon ends` lists how launches ended ([ends.md](ends.md)). A finding makes the outcome `failed`, `node_lost` for a lost
host, and `unknown` for a warning without a cause. A quiet end is `done` if all ranks finished, and `cancelled` if a
signal ended one.

## One rank ends by itself

Cause and severity by the moment of the end. The culprit is that rank. `teardown` is after the last step: the other
ranks have finished.

"""
LAUNCHER_TEXT = """\

Launchers: {launchers}.

Cause and culprit are the same under all of them. With restarts left, the finding is a warning for {restart:g} s, until
the launcher should have started the job again, and for {start:g} s more once it has: new processes import torch before
they are ranks. The table has the severity without restarts.

A SIGTERM to one rank is told from an owner's SIGTERM to all by its sender, which the C module of the probe records
(`zmon/probe/signal_sender.c`; it is built where there is a compiler). Without it, the order in which ranks had the
signal counts, and on a host whose processes wait for cores nobody is named for having it first.

The table needs the exit status, which Linux reports since 6.15. On older kernels a rank that calls `os._exit(0)`
counts as killed (`rank_exited`), and SIGHUP cannot be told from SIGKILL. The other rows follow from the last words
alone.
"""
SECTIONS = {  # heading → rows; rank 0 to 3 are on one host unless the row says otherwise
    "The whole job ends": WHOLE_JOB,
    "One rank ends first": ONE_RANK,
    "A framework runs the job's function": RUNNERS,
    "Signals": SIGNALS,
    "Ranks that never meet, and connections that break": STORE,
    "NCCL's watchdog": NCCL,
    "Another size": SIZES,
    "Starts that fail one after the other": LOOPS,
}


def endings_page() -> str:
    """Return the page."""
    head = f"| how | {' | '.join(WHENS)} |\n|---|{'---|' * len(WHENS)}\n"
    rows = [f"| {way.name} | {' | '.join(_cell(way, when) for when in WHENS)} |\n" for way in WAYS]
    launchers = ", ".join(launcher.name for launcher in LAUNCHERS)
    sections = [table(title, rows_) for title, rows_ in SECTIONS.items()]
    limits = EndLimits()
    text = LAUNCHER_TEXT.format(launchers=launchers, restart=limits.restart_seconds, start=limits.start_seconds)
    return "".join([HEAD.format(look=LOOK_SECONDS), head, *rows, text, *sections])


def cause_text(cause: str | None) -> str:
    """Return a cause as the page shows it."""
    return f"`{cause}`" if cause else "quiet"


def _cell(way: Way, when: str) -> str:
    cause, severity, _ = expected(way, when, TORCHRUN)
    return f"`{cause}`, {severity}" if cause else "quiet"
