"""Tests of `zmon bench-peak`, which measures the processors of this host with torch."""

import json
import os

import torch

from zmon.offline.measured_files import read_peaks

SMALL = ("--seconds", "0", "--size", "64", "--elements", "4096")


def test_bench_peak_measures_each_dtype_and_the_memory(command, tmp_path):
    file = tmp_path / "peaks.yaml"
    code, out, err = command("bench-peak", *SMALL, "--json", "--out", file)
    assert code == 0, err
    answer = json.loads(out)
    assert set(answer["peaks"]["flops"]) == {"float64", "float32", "bfloat16", "float16"}
    assert all(rate > 0 for rate in answer["peaks"]["flops"].values())
    assert answer["peaks"]["memory_bandwidth"] > 0
    written = read_peaks(file)
    assert list(written) == [answer["device"]]
    assert round(answer["peaks"]["flops"]["float32"]) == written[answer["device"]].flops["float32"]


def test_bench_peak_uses_all_processors_whatever_a_launcher_has_set(command):
    """With one thread, the measured peak would be a fraction of that of the host."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        code, out, err = command("bench-peak", *SMALL)
    finally:
        torch.set_num_threads(before)
    assert code == 0, err
    assert f"with {len(os.sched_getaffinity(0))} threads" in out
    assert "processors" in out
    assert "memory (triad)" in out


def test_missing_folder_for_the_result_is_refused_with_exit_code_2(command):
    code, _, err = command("bench-peak", "--out", "/nowhere/peaks.yaml")
    assert code == 2
    assert "/nowhere does not exist" in err
