"""Ranks that have ended: which of them ended first, why, and whether the job will be started again. Pure.

`rules` has the order of the rules and the short ones, and `job_end` what they share. The long rules are in
`size_mismatch`, `launcher`, `signals` (with `signal_order` and `signal_reach`), `uneven_end`, `rendezvous`,
`connection_loss`, `wordless_end` and `agreed_exit`. `memory` and `storage_errors` find out why one rank ended.
`crash_loop` compares starts. How one rank ended, and which rank ended before which, is in zmon/job. docs/endings.md has
all cases.
"""

from zmon.detectors.endings.crash_loop import crash_loop_finding
from zmon.detectors.endings.job_end import are_unsettled, outlook_of_gone
from zmon.detectors.endings.launcher import launcher_gone
from zmon.detectors.endings.limits import EndLimits
from zmon.detectors.endings.rules import exit_finding

__all__ = ["EndLimits", "are_unsettled", "crash_loop_finding", "exit_finding", "launcher_gone", "outlook_of_gone"]
