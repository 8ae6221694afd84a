"""Checks that a watched job can capture its step as a CUDA graph, and that the graph computes the same parameters."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu_check.kit import Kit
from bench.gpu_check.records import Capture, Captures
from bench.gpu_check.result import FAILED, NOT_CHECKED, Result, outcome_of
from bench.gpu_check.settings import Setting

LARGEST_DIFFERENCE = 1e-5  # of a parameter; a graph may choose other kernels
_LIMIT_SECONDS = 60.0  # of the job


def run(kit: Kit, setting: Setting) -> Iterator[Result]:
    """Run the job, which compares the parameters with those of a training without a graph."""
    job = kit.run(setting, "graphs", seconds=_LIMIT_SECONDS)
    yield from compare(job.records(Captures)[0])


def compare(captures: Captures) -> Iterator[Result]:
    """Yield a result for each watched capture; it is NOT_CHECKED if the same capture fails without zmon."""
    without_zmon = {capture.what: capture for capture in captures.captures if not capture.is_watched}
    for capture in captures.captures:
        if capture.is_watched:
            yield _compare(capture, without_zmon[capture.what])


def _compare(capture: Capture, without_zmon: Capture) -> Result:
    subject = f"capture and replay of {capture.what}"
    if without_zmon.error:
        return Result(subject, NOT_CHECKED, note=f"it fails without zmon too: {without_zmon.error}")
    if capture.error or capture.largest_difference is None:
        return Result(subject, FAILED, note=capture.error or "it has no result")
    holds = capture.largest_difference <= LARGEST_DIFFERENCE
    compared_with = f"parameters without a graph; limit {LARGEST_DIFFERENCE:g}"
    return Result(subject, outcome_of(holds), capture.largest_difference, compared_with=compared_with)
