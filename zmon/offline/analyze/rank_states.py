"""The state of a rank of which only its steps are known. Pure."""

from __future__ import annotations

from zmon.schema.rank import RankState


def rank_state(job_id: str, attempt: int, rank: int, world_size: int, host: str, role: str = "") -> RankState:
    """Return the state of a rank that trains and is never overdue."""
    return RankState(
        job_id=job_id, attempt=attempt, run_uid=f"{attempt}-{rank}", start=0.0, rank=rank, local_rank=rank,
        world_size=world_size, host=host, pid=0, device="unknown", backend=None, launcher="",
        restart_count=attempt, max_restarts=None, labels={}, alive=True, process_state=None, exit_status=None,
        gone_seconds=None, stopped_seconds=None, activity="train", activity_seconds=0.0, phase="other", step=0,
        step_seconds=0.0, state_seconds=0.0, in_flight=None, sequences={}, lease_seconds=None, overdue_seconds=0.0,
        steps=0, step_seconds_total=0.0, totals=None, report={}, last_words=None,
        last_step_time=None, last_checkpoint_time=None, overhead_seconds=0.0, dropped_records=0, resident_bytes=None,
        role=role,
    )  # fmt: skip
