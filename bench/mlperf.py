"""Predictions of zmon for MLPerf's DLRM-DCNv2 on 8, 64 and 128 H100, next to the published results.

    python -m bench.mlperf

Only the self time of a rank is fitted, to the published results of the sizes in the first column.
"""

from __future__ import annotations

from statistics import linear_regression

from zmon.scaling.predict import Exchange, Link, Links, PredictedStep, Work, predict

# Ranks, global batch (NVIDIA's HugeCTR configurations 1x8x6912 and 8x8x2112; 16x8x1056, the same batch, is assumed),
# and published samples/s (MLPerf Training 4.1, DLRM-DCNv2, H100).
ROWS = ((8, 55_296, 13.75e6), (64, 135_168, 49.1e6), (128, 135_168, 67.7e6))
H100 = Links(
    ranks_per_host=8,
    host=Link(450e9),  # NVLink 4 has 900 GB/s for both directions together (H100 datasheet)
    net=Link(50e9),  # one 400 Gb/s port per GPU (DGX H100 datasheet)
)
TABLES, DIM, LOOKUPS, HALF, KEY = 26, 128, 214, 2, 8
# A sample takes one multiplication for each parameter of the dense layers: bottom 13-512-256-128; 3 cross layers of
# rank 512 over 27 vectors of 128; top 3456-1024-1024-512-256-1.
DENSE = (
    (13 * 512 + 512 * 256 + 256 * 128)
    + 3 * 2 * (27 * DIM * 512)
    + (27 * DIM * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256)
)
EXCHANGES = {
    # vectors and gradients in half precision, and ids
    "all_to_all": Exchange(sample_bytes=2 * TABLES * DIM * HALF + LOOKUPS * KEY, calls=2),
    "all_reduce": Exchange(fixed_bytes=DENSE * HALF),
}
LINKS = dict.fromkeys(EXCHANGES, H100)


def rows(num_fitted: int) -> list[tuple[int, float, PredictedStep]]:
    """Return ranks, published and predicted rate, with the self time fitted to the first `num_fitted` rows."""
    points = [
        (batch / ranks, batch / rate - _exchange_seconds(ranks, batch)) for ranks, batch, rate in ROWS[:num_fitted]
    ]
    if num_fitted == 1:  # the fixed part cannot be determined from one size
        slope = points[0][1] / points[0][0]
        intercept = 0.0
    else:
        slope, intercept = linear_regression(*zip(*points, strict=True))
    return [(ranks, rate, _predict(Work(slope, intercept, EXCHANGES), ranks, batch)) for ranks, batch, rate in ROWS]


def _exchange_seconds(ranks: int, batch: int) -> float:
    return _predict(Work(0.0, 0.0, EXCHANGES), ranks, batch).seconds


def _predict(work: Work, ranks: int, batch: int) -> PredictedStep:
    prediction = predict(work, LINKS, ranks, batch)
    assert isinstance(prediction, PredictedStep), prediction
    return prediction


def main() -> None:
    """Print the table."""
    print("| self time fitted to | GPUs | published | predicted | error | self time | all-to-all | all-reduce |")
    print("|-|-|-|-|-|-|-|-|")
    for num_fitted, sizes in ((1, "8 GPUs"), (2, "8 and 64")):
        for ranks, rate, prediction in rows(num_fitted):
            error = prediction.samples_per_second / rate - 1
            parts = (prediction.self_seconds, *prediction.exposed_seconds.values())
            times = " | ".join(f"{1000 * seconds:.2f} ms" for seconds in parts)
            fit = " (fitted)" if ranks in [row[0] for row in ROWS[:num_fitted]] else ""
            rates = f"{rate / 1e6:.2f} M/s | {prediction.samples_per_second / 1e6:.2f} M/s"
            print(f"| {sizes} | {ranks} | {rates} | {error:+.1%}{fit} | {times} |")


if __name__ == "__main__":
    main()
