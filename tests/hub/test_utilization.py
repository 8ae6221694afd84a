"""Tests of the work of a job relative to the peak of its devices, through a hub: its metrics and its view."""

from dataclasses import replace

import pytest

from tests.build import JOB
from tests.hub.fakes import FakeAgent, healthy, step_records
from zmon.metrics import STEP_HISTOGRAM
from zmon.scaling.peaks import DevicePeaks
from zmon.schema.host import GpuSample, HostSample

PEAKS = {"Xeon, 2 processors": DevicePeaks({"float32": 1e12}, memory_bandwidth=2e10, source="by hand")}
RATIOS = ("zmon_job_flops_ratio", "zmon_job_memory_bandwidth_ratio", "zmon_job_roofline_ratio")


def agent_with(device_name):
    """Return an agent with four ranks on a device of this name, which declare their operations."""
    fields = {"device_name": device_name, "flops_source": "declared", "flops_dtypes": {"float32": 1.0}}
    return FakeAgent(*(replace(rank, **fields) for rank in healthy()))


def with_work(record):
    """Return the record of a step with 1e9 operations and 1e8 bytes of memory traffic."""
    return replace(record, measures=replace(record.measures, flops=10**9, memory_traffic_bytes=10**8))


RECORDS = {JOB: {uid: tuple(map(with_work, records)) for uid, records in step_records(1, 50)[JOB].items()}}


async def test_work_of_a_job_is_shown_relative_to_the_peak_of_its_devices(start_hub):
    """Four ranks share the peak of 1e12: 4e9 operations in 20 ms are a fifth of it."""
    agent = agent_with("Xeon, 2 processors")
    hub_client = await start_hub(agent, peaks=PEAKS)
    await hub_client.passes(1)
    agent.records = RECORDS
    await hub_client.passes()
    step, wall = await hub_client.metric("zmon_job_flops_ratio")
    assert step == pytest.approx(0.2)
    # At the peak, the 100 steps of a rank would take 0.4 s. They took 2 s of wall-clock.
    assert wall == pytest.approx(0.2, rel=0.05)
    assert await hub_client.metric("zmon_job_memory_bandwidth_ratio") == [pytest.approx(1.0)]
    assert await hub_client.metric("zmon_job_roofline_ratio") == [pytest.approx(1.0)]
    (job,) = await hub_client.jobs()
    assert job["utilization"]["source"] == "declared"
    assert job["utilization"]["memory_bound"] is True


async def test_job_on_an_unknown_device_has_no_ratio_instead_of_a_wrong_one(start_hub):
    agent = agent_with("Imaginary 1")
    hub_client = await start_hub(agent, peaks=PEAKS)
    await hub_client.passes(1)
    agent.records = RECORDS
    await hub_client.passes()
    assert await hub_client.metric(f"{STEP_HISTOGRAM}_count") == [50.0]
    for name in RATIOS:
        assert await hub_client.metric(name) == []
    (job,) = await hub_client.jobs()
    assert job["utilization"] is None
    assert "the peak of Imaginary 1 is unknown" in job["utilization_unknown"]


async def test_gpus_that_measure_their_tensor_cores_need_neither_operations_nor_peaks(start_hub):
    agent = FakeAgent(*(replace(rank, device=f"GPU-{rank.rank % 2}", device_name="Imaginary 1") for rank in healthy()))
    gpus = tuple(
        GpuSample(str(n), f"GPU-{n}", tensor_active_ratio=0.3 + 0.2 * n, memory_active_ratio=0.6) for n in range(2)
    )
    agent.sample = HostSample(gpus=gpus)
    hub_client = await start_hub(agent)
    await hub_client.passes(2)
    assert await hub_client.metric("zmon_job_flops_ratio") == [pytest.approx(0.4)]
    assert await hub_client.metric("zmon_job_memory_bandwidth_ratio") == [pytest.approx(0.6)]
    (job,) = await hub_client.jobs()
    assert job["gpu_activity"] == {
        "tensor_ratio": pytest.approx(0.4), "tensor_wall_ratio": None, "memory_ratio": pytest.approx(0.6)
    }  # fmt: skip
