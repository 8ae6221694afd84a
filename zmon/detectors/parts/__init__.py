"""Parts of the detectors, one task in each module. Pure.

- stall: `diagnosis` (the culprit if nothing moves) with `awaited_ranks`, `flight_records` and `network`; `silence` (how
  severe silence is); `frames` (where the ranks stand); `exits` (the culprit if ranks ended) with `deaths`, `memory` and
  `size_mismatch`
- straggler: `self_times` with `chance`, `hardware_reasons`, `step_cost`, `network`
- imbalance: `plan_text`; `jitter` and `uneven_steps` (another rank is slow in each step); `stages`
- all detectors: `new_finding`, `wording`, `pressure`
"""
