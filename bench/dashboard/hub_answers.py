"""The answers of the simulated hub about the job: its view, its open finding and its scaling curve."""

from __future__ import annotations

from bench.cluster import RANKS_PER_AGENT
from bench.dashboard.scene import (
    EVALUATING,
    JOB,
    OPS,
    PHASES,
    SAMPLES,
    SIMULATED_SECONDS,
    SLOW,
    STEP_SECONDS,
    USUAL,
    Scene,
    by_word,
)
from zmon.detectors.new_finding import rank_row
from zmon.schema.curve import WEAK, Efficiency, Point, ScalingCurve
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.gathered import RankStack
from zmon.schema.job import RECORDED, ExpectedStep, JobView, Utilization

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
SELF_SECONDS = 0.14  # self time of a step
SECONDS_PER_DOUBLING = 0.011  # exposed time that each doubling of the ranks adds to a step
DETECTION_SECONDS = 20.0  # from the onset of a finding to its detection
_REFERENCE_SECONDS = 0.21  # of a step with the fewest ranks
_SELF_RATIO = 0.55  # of the expected step
_RECORDED_TIME = 1.79e9  # of the scaling curve, in unix seconds
_PEAK_FLOPS = 989.5e12  # of a rank
_STACK = "\n".join(f'File "train.py", line {line}, in step' for line in range(40))


def job(scene: Scene, kind: int) -> JobView:
    """Return the job's view after SIMULATED_SECONDS of this kind. Its time categories sum to this time."""
    trains = kind != EVALUATING
    lead = scene.rank(kind, 0)
    causes = by_word(lead, "phase_") | by_word(lead, "exposed_")
    account = causes if trains else {"eval": float(SIMULATED_SECONDS)}
    step = STEP_SECONDS[kind] if trains else None
    samples = SAMPLES * scene.num_ranks
    expected_seconds = STEP_SECONDS[USUAL]
    parts = {phase: expected_seconds * _SELF_RATIO * share for phase, share in PHASES.items()}
    parts |= {op: expected_seconds * (1 - _SELF_RATIO) * share for op, share in OPS.items()}
    reference = Point(SIZES[0], SIZES[0] * SAMPLES, _REFERENCE_SECONDS, JOB, _RECORDED_TIME)
    return JobView(
        job_id=JOB, attempt=0, world_size=scene.num_ranks, ranks_seen=scene.num_ranks, state=lead.activity,
        step=lead.step, step_seconds=step, step_seconds_p95=step and 1.2 * step,
        samples_per_second=step and samples / step, report=lead.report, time=account, hosts=tuple(scene.hosts),
        labels=lead.labels, findings=(finding(scene).id,) if kind == SLOW else (),
        gpu_seconds={cause: seconds * scene.num_ranks for cause, seconds in account.items()},
        goodput_ratio=0.93,
        efficiency=Efficiency(_REFERENCE_SECONDS / step, WEAK, JOB, reference, 0.84) if step else None,
        expected=ExpectedStep(RECORDED, JOB, expected_seconds, parts, step, {}) if step else None,
        utilization=_utilization(scene, step) if step else None,
    )  # fmt: skip


def _utilization(scene: Scene, step_seconds: float) -> Utilization:
    """Return the ratios of a job that memory bandwidth limits. The figures are made up."""
    peak = _PEAK_FLOPS * scene.num_ranks
    rate = 0.08 * peak / step_seconds
    memory = 0.12 / step_seconds
    return Utilization(
        "declared", flops_per_second=rate, peak_flops=peak, step_ratio=rate / peak, wall_ratio=0.93 * rate / peak,
        memory_ratio=memory, roofline_ratio=memory, memory_bound=True,
    )  # fmt: skip


def finding(scene: Scene) -> Finding:
    """Return the open finding: one rank is slow. The evidence has a row for each rank, as in a real finding."""
    culprit = scene.rank(SLOW, scene.culprit)
    onset = scene.current_slow.begin
    return Finding(
        id="0123456789abcdef", job_id=JOB, detector="straggler", cause="compute_straggler", severity="warning",
        ranks=(culprit.rank,), hosts=(culprit.host,), step=86_000, onset=onset, detected=onset + DETECTION_SECONDS,
        confidence=0.99,
        summary=f"rank {culprit.rank} takes 150 ms more than the median rank, and all others wait for it",
        detail=f"On {culprit.host}: does something else use its GPU or cores (`nvidia-smi`, `top`)?",
        runbook="docs/runbooks.md#compute_straggler", lost_gpu_hours=scene.num_ranks * 0.12,
        evidence=Evidence(
            ranks=tuple(rank_row(scene.rank(SLOW, rank)) for rank in range(scene.num_ranks)),
            stacks={str(culprit.rank): RankStack(stack=_STACK, stack_error=None)},
        ),
    )  # fmt: skip


def curve(scene: Scene) -> ScalingCurve:
    """Return the recorded scaling curve of jobs with this name, at sizes up to the size of the job."""
    sizes = [ranks for ranks in SIZES if ranks <= max(scene.num_ranks, SIZES[1])]
    return ScalingCurve(JOB, tuple(_point(doublings, ranks) for doublings, ranks in enumerate(sizes)))


def _point(doublings: int, ranks: int) -> Point:
    exposed = 0.02 + SECONDS_PER_DOUBLING * doublings
    causes = {"forward": SELF_SECONDS, "imbalance": 0.005, **{op: exposed * share for op, share in OPS.items()}}
    sent = {op: 40e6 * share for op, share in OPS.items()}
    return Point(
        ranks, ranks * SAMPLES, sum(causes.values()), by=f"{JOB}-{ranks}", recorded=_RECORDED_TIME,
        half_width_seconds=0.002, causes=causes, sent_bytes=sent, ranks_per_host=min(RANKS_PER_AGENT, ranks),
    )  # fmt: skip
