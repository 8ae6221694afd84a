"""Tests of `zmon bench-peak`, which measures the processors of this host with torch."""

import json

from zmon.offline.peak_bench import read

SMALL = ("--seconds", "0", "--size", "64", "--elements", "4096")


def test_bench_peak_measures_each_dtype_and_the_memory(command, tmp_path):
    file = tmp_path / "peaks.yaml"
    code, out, err = command("bench-peak", *SMALL, "--json", "--out", file)
    assert code == 0, err
    answer = json.loads(out)
    assert set(answer["peaks"]["flops"]) == {"float64", "float32", "bfloat16", "float16"}
    assert all(rate > 0 for rate in answer["peaks"]["flops"].values())
    assert answer["peaks"]["memory_bandwidth"] > 0
    written = read(file)
    assert list(written) == [answer["device"]]
    assert round(answer["peaks"]["flops"]["float32"]) == written[answer["device"]].flops["float32"]


def test_bench_peak_prints_the_name_of_the_processors(command):
    code, out, err = command("bench-peak", *SMALL)
    assert code == 0, err
    assert "processors" in out
    assert "memory (triad)" in out


def test_folder_that_does_not_exist_is_misuse(command):
    code, _, err = command("bench-peak", "--out", "/nowhere/peaks.yaml")
    assert code == 2
    assert "/nowhere does not exist" in err
