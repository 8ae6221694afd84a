"""Tests of the work of a job relative to the peak of its devices, through a hub: its metrics and its view."""

from dataclasses import replace

import pytest

from tests.build import JOB
from tests.hub.fakes import FakeAgent, healthy
from tests.hub.test_job_state import COUNT, steps
from zmon.scaling.peaks import DevicePeaks
from zmon.schema.host import GpuSample, HostSample

PEAKS = {"Xeon, 2 processors": DevicePeaks({"float32": 1e12}, 2e10, "by hand")}
RATIOS = ("zmon_job_flops_ratio", "zmon_job_memory_bandwidth_ratio", "zmon_job_roofline_ratio")


def working(device_name):
    """Return an agent with four ranks on a device of this name, which declare 1e9 operations and 1e8 bytes a step."""
    declared = {"device_name": device_name, "flops_source": "declared", "flops_dtypes": {"float32": 1.0}}
    agent = FakeAgent(*(replace(rank, **declared) for rank in healthy()))
    agent.declared = {
        JOB: {
            uid: tuple(
                replace(r, measures=replace(r.measures, flops=10**9, memory_traffic_bytes=10**8)) for r in records
            )
            for uid, records in steps(1, 50)[JOB].items()
        }
    }
    return agent


async def test_work_of_a_job_is_shown_relative_to_the_peak_of_its_devices(start_hub):
    """Four ranks share the peak of 1e12: 4e9 operations in 20 ms are a fifth of it."""
    agent = working("Xeon, 2 processors")
    hub_client = await start_hub(agent, peaks=PEAKS)
    await hub_client.passes(1)
    agent.records = agent.declared
    await hub_client.passes()
    step, wall = await hub_client.metric("zmon_job_flops_ratio")
    assert step == pytest.approx(0.2)
    # 100 steps take 0.4 s at the peak; the account has the ranks' 2 s in steps
    assert wall == pytest.approx(0.2, rel=0.05)
    assert await hub_client.metric("zmon_job_memory_bandwidth_ratio") == [pytest.approx(1.0)]
    assert await hub_client.metric("zmon_job_roofline_ratio") == [pytest.approx(1.0)]
    (job,) = await hub_client.jobs()
    assert job["utilization"]["source"] == "declared"
    assert job["utilization"]["memory_bound"] is True


async def test_job_on_an_unknown_device_has_no_ratio_instead_of_a_wrong_one(start_hub):
    agent = working("Imaginary 1")
    hub_client = await start_hub(agent, peaks=PEAKS)
    await hub_client.passes(1)
    agent.records = agent.declared
    await hub_client.passes()
    assert await hub_client.metric(COUNT) == [50.0]
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
