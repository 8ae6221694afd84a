"""The policy of the benchmark's arms and matrix: a proved culprit is killed, and torchrun starts the job again."""

POLICY = """\
rules:
  - name: frozen
    causes: [rank_frozen]
    proofs: [process_state]
    act: kill_culprit
    mode: enforce
    override: "bench.recovery: jobs of its own"
  - name: hung
    causes: [compute_hang, input_stall, collective_mismatch, sequence_lag]
    proofs: [stacks, sequence]
    act: kill_culprit
    mode: enforce
    override: "bench.recovery: jobs of its own"
"""
