"""Tests of the reader of nvidia-smi, with a program that answers like it."""

import pytest

from bench.gpu_check.nvidia_smi import SmiFailed, process_bytes, query, rows, value
from tests.bench.gpu_check.fake_smi import FakeSmi

GPU = {"index": "0", "power.draw": "71.39", "clocks_throttle_reasons.sync_boost": "Not Active"}


def test_query_returns_texts_by_property(tmp_path):
    smi = FakeSmi(tmp_path, gpu=[GPU, {**GPU, "index": "1"}])
    first, second = query(("index", "power.draw"), command=smi.command)
    assert (first, second["index"]) == ({"index": "0", "power.draw": "71.39"}, "1")


def test_refused_property_is_asked_by_its_older_name_or_left_out(tmp_path):
    smi = FakeSmi(tmp_path, gpu=[GPU])
    answer = query(("index", "clocks_event_reasons.sync_boost", "clocks.max.video"), command=smi.command)
    assert answer == [{"index": "0", "clocks_event_reasons.sync_boost": "Not Active"}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("81559", 81559.0), ("71.39", 71.39), ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"), ("Active", True),
        ("Not Active", False), ("Enabled", True), ("Disabled", False), ("No", False), ("[N/A]", None), ("N/A", None),
        ("[Not Supported]", None), ("[Unknown Error]", None), ("", None),
    ],
)  # fmt: skip
def test_value_of_a_text(text, expected):
    assert value(text) == expected


def test_memory_of_a_process_is_that_on_all_its_gpus(tmp_path):
    apps = [{"pid": pid, "used_gpu_memory": mebibytes} for pid, mebibytes in (("7", "500"), ("7", "12"), ("8", "1"))]
    smi = FakeSmi(tmp_path, compute_apps=apps)
    assert process_bytes(7, smi.command) == 512 << 20
    assert process_bytes(9, smi.command) is None


def test_missing_program_is_a_failure_with_its_reason():
    with pytest.raises(SmiFailed, match="not installed"):
        query(("index",), command="/nonexistent/nvidia-smi")


def test_program_that_fails_is_a_failure_with_its_first_line(tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho No devices were found\nexit 6\n")
    program.chmod(0o755)
    with pytest.raises(SmiFailed, match="No devices were found"):
        query(("index",), command=str(program))


def test_lines_with_another_number_of_values_are_a_failure():
    with pytest.raises(SmiFailed, match="another number of values"):
        rows("0, 1\n", ("index",))
