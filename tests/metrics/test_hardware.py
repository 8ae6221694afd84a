"""Tests of hardware metrics. Every field of a sample has a metric or is listed as a field without one."""

from dataclasses import fields, make_dataclass, replace

import pytest

from scripts.metrics_page import metrics_page
from tests.metrics.scene import FULL_HOST, GOOD_GPU, page, value
from zmon.metrics.names import GPU, SPECS
from zmon.schema import host

# Fields without a metric, by type. A new field of a sample needs a metric or an entry in this table.
NO_METRIC = {
    host.NicSample: {"bond", "pci"},  # the parent device; hardware detectors and capsules use it
    host.GpuSample: {"mig", "pids", "minor"},
    host.CgroupSample: {"ranks"},
    host.KernelLog: {"events"},  # the page has their number
    host.TcpSample: {"peers", "addresses", "devices", "answers"},  # the agent's page sums the peers of each rank
    **{kind: set() for kind in (host.HostLoad, host.DiskSample, host.MountSample, host.ClockSample, host.HeldGpus)},
}


class FieldRecorder:
    """A wrapper that records which fields of an object are read."""

    def __init__(self, item):
        self.item, self.names = item, set()

    def __getattr__(self, name):
        self.names.add(name)
        return getattr(self.item, name)


def read_by_metrics(kind):
    """Return the fields of a type of sample that some metric reads."""
    names = set()
    for spec in SPECS.values():
        for item in spec.subject.items(FULL_HOST) if spec.subject else ():
            if type(item) is kind:
                reading = FieldRecorder(item)
                spec.subject.label_values(reading)
                spec.read(reading)
                names |= reading.names
    return names


@pytest.mark.parametrize("kind", NO_METRIC, ids=lambda kind: kind.__name__)
def test_every_field_of_a_sample_has_a_metric_or_is_listed(kind):
    names = read_by_metrics(kind)
    assert names | NO_METRIC[kind] == {field.name for field in fields(kind)}
    assert not names & NO_METRIC[kind]


def test_every_part_of_a_host_except_processes_has_metrics():
    sample = FieldRecorder(FULL_HOST)
    for spec in SPECS.values():
        if spec.subject:
            [*spec.subject.items(sample)]
    assert sample.names == {field.name for field in fields(host.HostSample)} - {"processes"}


def test_new_gpu_metric_needs_a_field_and_a_line_in_the_table(monkeypatch):
    with_fan = make_dataclass("WithFan", [("fan_ratio", float | None, None)], bases=(host.GpuSample,), frozen=True)
    monkeypatch.setitem(SPECS, "zmon_gpu_fan_ratio", GPU.gauge("Speed of its fan.", lambda gpu: gpu.fan_ratio))
    values = {field.name: getattr(GOOD_GPU, field.name) for field in fields(GOOD_GPU)}
    gpus = (with_fan(**values, fan_ratio=0.5), with_fan(**values | {"uuid": "GPU-9"}))
    text = page(sample=replace(FULL_HOST, gpus=gpus))
    assert value(text, "zmon_gpu_fan_ratio", host="node-a", gpu="0", uuid="GPU-1") == 0.5
    assert value(text, "zmon_gpu_fan_ratio", uuid="GPU-9") is None, "unknown has no series"
    assert "| `zmon_gpu_fan_ratio` | gauge | `host`, `gpu`, `uuid` | Speed of its fan. |" in metrics_page()


def test_metric_by_label_has_a_series_for_each_value(monkeypatch):
    shown = GPU.counter("Retries.", lambda gpu: {"read": 3, "write": None}, by="way")
    monkeypatch.setitem(SPECS, "zmon_gpu_retries_total", shown)
    text = page(sample=replace(FULL_HOST, gpus=(GOOD_GPU,)))
    assert value(text, "zmon_gpu_retries_total", way="read") == 3
    assert value(text, "zmon_gpu_retries_total", way="write") is None


def test_name_of_a_device_that_is_not_utf_8_hides_no_other_series():
    (known,) = (nic for nic in FULL_HOST.nics if nic.device == "eth0")
    nics = [replace(known, device=name, received_bytes=number) for name, number in (("e\udcff0", 1), ("eth1", 3))]
    text = page(sample=host.HostSample(nics=tuple(nics)))
    assert value(text, "zmon_nic_receive_bytes_total", device="e\ufffd0") == 1
    assert value(text, "zmon_nic_receive_bytes_total", device="eth1") == 3
