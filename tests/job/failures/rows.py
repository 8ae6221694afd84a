"""Every class of failure with the clues that show it; `docs/failures.md` is generated from these rows."""

from __future__ import annotations

from tests.job.failures.job_rows import CODE, FILES, LAST_WORDS, LAUNCHERS, SURVIVED
from tests.job.failures.machine_rows import DEVICES, MEMORY, RANKS, SIGNALS

SECTIONS = {
    "Memory and limits": MEMORY,
    "Signals and schedulers": SIGNALS,
    "Other ranks": RANKS,
    "Devices and tensors": DEVICES,
    "Files and services": FILES,
    "The code and its configuration": CODE,
    "Last words of a rank": LAST_WORDS,
    "Prefixes of launchers and loggers": LAUNCHERS,
    "Quiet: what did not end the launch": SURVIVED,
}
