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

This page lists what zmon reports when ranks of a job end. Search it for the first thing that went wrong: one rank, the
whole job, a signal, a connection, NCCL's watchdog, sizes, or starts that fail.

zmon reports every end of a job as a finding, except two: all ranks finished, or the owner of the job ended it. The
owner ended it if a signal reached the launcher or all ranks before any rank raised an exception or was killed. `quiet`
in a table means that zmon reports nothing at that moment. The end is one of these two, the job has not ended, or it is
too early to tell which rank failed first.

- **Signals.** A launcher sends SIGTERM to the survivors of every failure, so a signal alone does not prove that the
  owner ended the job. If a signal reached several ranks, none of them is named, unless one rank had it clearly before
  the others.
- **Order.** Within one host, the times of the *last words* decide which rank ended first. These are what the probe
  writes when a rank raises, receives a signal or exits. Across hosts, the hub
  compares ages at one moment. Deaths less than {look:g} s apart count as simultaneous.
- **Victims.** A rank is a victim if it ended because of another rank. There are three cases. Its error was raised
  inside a collective, or comes from gloo, NCCL or c10d, even if a framework raised another exception from it. It was
  killed after other ranks had ended. Or it gave up waiting for others: in a collective, in `monitored_barrier`, or at
  the store for a key. The rank that it waited for is named if counts, the error or the order show which one that is.

| finding | outcome in `zmon ends` ([ends.md](ends.md)) |
|---|---|
| `host_lost` | `node_lost` |
| a warning without a cause | `unknown` |
| another finding | `failed` |
| none, and all ranks finished | `done` |
| none, and a signal ended a rank | `cancelled` |
| none, and nothing explains the end | `unknown` |

If the kernel or the output of a rank shows that the scheduler ended the launch, the outcome is `cancelled` (time
limit), `preempted` or `node_lost` instead ([failures.md](failures.md)).

In the tables, a job has the ranks 0 to 3 on the host node-a, unless a row says otherwise. A note in “…” quotes the
finding. An agent looks at its ranks ten times a second; a *look* is one of these readings. An *older kernel* is one
before Linux 6.15, which reports no exit status. `make generate` makes this page from `tests/detectors/endings/`: each
row is a test.

## One rank ends by itself

The table has the cause and the severity for each moment at which the rank ends. The culprit is this rank. `teardown` is
after the last step, when the other ranks have finished.

"""
LAUNCHER_TEXT = """\

The rows were tested with these launchers: {launchers}.
Cause and culprit do not depend on the launcher. The table has the severity without restarts. If the launcher has
restarts left, the finding is a warning for {restart:g} s, in which the launcher should start the job again. After a
restart it stays a warning for {start:g} s more, because new processes import torch before they are ranks.

- The sender of a SIGTERM distinguishes a signal to one rank from an owner's signal to all ranks. The C module of the
  probe records the sender (`zmon/probe/signal_sender.c`; it is built where there is a compiler). Without the module,
  the order in which the ranks had the signal decides. On a host whose processes wait for cores, no rank is then named
  for having the signal first.
- The table needs the exit status, which Linux reports since 6.15. On older kernels a rank that calls `os._exit(0)`
  counts as killed (`rank_exited`), and SIGHUP looks like SIGKILL. The other rows follow from the last words alone.
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
    sections = [table(title, section_rows) for title, section_rows in SECTIONS.items()]
    limits = EndLimits()
    text = LAUNCHER_TEXT.format(launchers=launchers, restart=limits.restart_seconds, start=limits.start_seconds)
    return "".join([HEAD.format(look=LOOK_SECONDS), head, *rows, text, *sections])


def cause_text(cause: str | None) -> str:
    """Return a cause as the page shows it."""
    return f"`{cause}`" if cause else "quiet"


def _cell(way: Way, when: str) -> str:
    cause, severity, _ = expected(way, when, TORCHRUN)
    return f"{cause_text(cause)}, {severity}" if cause else cause_text(cause)
