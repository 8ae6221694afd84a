"""Parts of the detectors, one task in each module. Pure.

- stall: `diagnosis` (the culprit if nothing moves) with `awaited_ranks`, `flight_records` and `network`; `exits` (the
  culprit if ranks ended) with `deaths`, `memory` and `size_mismatch`
- straggler: `self_times`, `hardware_reasons`, `step_cost`, `network`
- imbalance: `plan_text`
- all detectors: `new_finding`, `wording`, `pressure`
"""
