"""Parts of the detectors, one task in each module. Pure.

- stall, ranks ended: `exits` (the ordered rules) with `ends` and `deaths` (how each rank ended), `connection_errors`,
  `cancellation`, `connection_loss`, `launcher`, `memory`, `rendezvous`, `size_mismatch`, `even_sizes`,
  `storage_errors`, `uneven_end`; `crash_loop` (it ends again and again)
- stall, nothing moves: `diagnosis` (the ordered rules) with `diagnosis_result`, `awaited_ranks`, `flight_records`;
  `different_paths` (rules that prove a stall) with `skipped_collective`, `crossed_order`; `finishing` (the others are
  done); `silence` (how severe silence is); `frames` (where ranks stand)
- stall, two faults: `overlap`; a fault of a job that still moves: `moving_faults`, `sequence_lag`
- network: `host_links` (connections by pair of hosts), `cut_hosts`, `network` (no data passes), `slow_network`,
  `slow_network_finding`
- straggler: `self_times` with `chance`, `hardware_reasons`, `step_cost`
- imbalance: `plan_text`; `jitter` and `uneven_steps` (another rank is slow in each step); `stages`
- all detectors: `new_finding`, `wording`, `pressure`
"""
