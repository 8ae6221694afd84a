"""Jobs in which nothing moves, although no rank has ended: who does not do what the others wait for. Pure.

`frozen` reports processes that do not run, `standstill` all other jobs. Its `rules` infer from `awaited_ranks` and
`flight_records` which ranks the others wait for; `different_paths` proves with `skipped_collective` and `crossed_order`
that collectives can never end. `diagnosis` has the answer of a rule, and its words. `early` decides what shows a hang
before a lease ends, and `silence` how severe it is that nothing moves. `as_trainers` judges generators, evaluators, and
ranks that wait after a save by the ranks that train. `after_training` recognizes that no step is due any more.
`sequence_lag` reports a job that moves and cannot finish, and `exiting` one that has finished and does not end.
"""

from zmon.detectors.hangs.as_trainers import as_judged
from zmon.detectors.hangs.early import is_shown_early, ranks_to_look_at, stands_still
from zmon.detectors.hangs.exiting import exit_hang, exiting_ranks
from zmon.detectors.hangs.flight_records import behind_on_device, root_ranks
from zmon.detectors.hangs.frozen import frozen_finding
from zmon.detectors.hangs.limits import HangLimits
from zmon.detectors.hangs.sequence_lag import lag_finding, lag_lasts
from zmon.detectors.hangs.standstill import conflict_finding, is_overdue, link_finding, silence_finding

__all__ = [
    "HangLimits", "as_judged", "behind_on_device", "conflict_finding", "exit_hang", "exiting_ranks", "frozen_finding",
    "is_overdue", "is_shown_early", "lag_finding", "lag_lasts", "link_finding", "ranks_to_look_at", "root_ranks",
    "silence_finding", "stands_still",
]  # fmt: skip
