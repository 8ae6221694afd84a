"""Predictions of zmon for MLPerf's DLRM-DCNv2 on 8, 64 and 128 H100, next to the published results.

    python -m bench.mlperf

Only the self time of a rank is fitted, to the published results of the sizes in the first column.
"""

from __future__ import annotations

from statistics import linear_regression
from typing import NamedTuple

from zmon.scaling.predict import Exchange, Link, Links, PredictedStep, Work, predict


class PublishedResult(NamedTuple):
    """A result of MLPerf Training 4.1, DLRM-DCNv2, on H100."""

    ranks: int
    global_batch: int  # of NVIDIA's HugeCTR configurations 1x8x6912 and 8x8x2112; 16x8x1056, the same batch, is assumed
    samples_per_second: float


PUBLISHED = (
    PublishedResult(8, 55_296, 13.75e6),
    PublishedResult(64, 135_168, 49.1e6),
    PublishedResult(128, 135_168, 67.7e6),
)
H100 = Links(
    ranks_per_host=8,
    host=Link(450e9),  # NVLink 4 has 900 GB/s for both directions together (H100 datasheet)
    net=Link(50e9),  # one 400 Gb/s port per GPU (DGX H100 datasheet)
)
TABLES, DIM = 26, 128
LOOKUPS = 214  # of a sample
HALF_BYTES = 2  # of a number in half precision
ID_BYTES = 8
# A sample takes one multiplication for each parameter of the dense layers: bottom 13-512-256-128; 3 cross layers of
# rank 512 over 27 vectors of 128; top 3456-1024-1024-512-256-1.
DENSE = (
    (13 * 512 + 512 * 256 + 256 * 128)
    + 3 * 2 * (27 * DIM * 512)
    + (27 * DIM * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256)
)
EXCHANGES = {
    # vectors and gradients in half precision, and ids
    "all_to_all": Exchange(sample_bytes=2 * TABLES * DIM * HALF_BYTES + LOOKUPS * ID_BYTES, calls=2),
    "all_reduce": Exchange(fixed_bytes=DENSE * HALF_BYTES),
}
LINKS = dict.fromkeys(EXCHANGES, H100)


def predictions(num_fitted: int) -> list[PredictedStep]:
    """Return the prediction for each published result, with the self time fitted to the first `num_fitted` of them."""
    fitted = PUBLISHED[:num_fitted]
    samples = [result.global_batch / result.ranks for result in fitted]  # of a rank in a step
    no_self_time = Work(0.0, 0.0, EXCHANGES)
    self_seconds = [
        result.global_batch / result.samples_per_second - _predict(no_self_time, result).seconds for result in fitted
    ]
    if num_fitted == 1:  # the fixed part cannot be determined from one size
        slope, intercept = self_seconds[0] / samples[0], 0.0
    else:
        slope, intercept = linear_regression(samples, self_seconds)
    return [_predict(Work(slope, intercept, EXCHANGES), result) for result in PUBLISHED]


def _predict(work: Work, result: PublishedResult) -> PredictedStep:
    prediction = predict(work, LINKS, result.ranks, result.global_batch)
    assert isinstance(prediction, PredictedStep), prediction
    return prediction


def main() -> None:
    """Print the table."""
    print("| self time fitted to | GPUs | published | predicted | error | self time | all-to-all | all-reduce |")
    print("|-|-|-|-|-|-|-|-|")
    for num_fitted, sizes in ((1, "8 GPUs"), (2, "8 and 64")):
        for result, prediction in zip(PUBLISHED, predictions(num_fitted), strict=True):
            error = prediction.samples_per_second / result.samples_per_second - 1
            parts = (prediction.self_seconds, *prediction.exposed_seconds.values())
            times = " | ".join(f"{1000 * seconds:.2f} ms" for seconds in parts)
            fit = " (fitted)" if result in PUBLISHED[:num_fitted] else ""
            rates = f"{result.samples_per_second / 1e6:.2f} M/s | {prediction.samples_per_second / 1e6:.2f} M/s"
            print(f"| {sizes} | {result.ranks} | {rates} | {error:+.1%}{fit} | {times} |")


if __name__ == "__main__":
    main()
