"""Tests that the values of every source reach /metrics, the snapshot and the window of the hub."""

from dataclasses import fields, make_dataclass

import msgspec
import pytest

from tests.agent.agent_client import FakeSource, shows
from tests.build import agent_report, rank_state
from tests.metrics.scene import FULL_HOST
from zmon.agent.sources import all_sources
from zmon.hub.agent_link import AgentLink
from zmon.metrics.names import SPECS, Subject
from zmon.schema.host import HostSample

PARTS = [field.name for field in fields(HostSample)]
Fan = make_dataclass("Fan", [("name", str), ("speed_ratio", float)], frozen=True)
WithFans = make_dataclass("WithFans", [("fans", tuple | None, None)], bases=(HostSample,), frozen=True)


def test_each_field_of_a_sample_has_a_single_source():
    assert sorted(source.field for source in all_sources(dict)) == sorted(PARTS)
    names = [source.name for source in all_sources(dict)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("part", PARTS)
def test_each_field_of_a_sample_reaches_both_ends_of_the_hub_window(part):
    """Rates need both ends; a field that is not passed on would lose a metric without an error."""
    link = AgentLink("http://node-a:9780")
    link.record_report(agent_report(rank_state(0), sample=FULL_HOST))
    window = link.window()
    assert getattr(FULL_HOST, part) is not None
    assert getattr(window.now, part) is getattr(FULL_HOST, part)
    assert getattr(window.before, part) == getattr(FULL_HOST, part)


async def test_new_source_reaches_metrics_snapshot_and_hub_window(monkeypatch, serve):
    """A source needs a field, a method `read` and a registration; its metric needs a line in the table of names."""
    fans = Subject(("host", "fan"), lambda sample: sample.fans or (), lambda fan: (fan.name,))
    monkeypatch.setitem(SPECS, "zmon_fan_speed_ratio", fans.gauge("Speed.", lambda fan: fan.speed_ratio))
    monkeypatch.setattr("zmon.agent.HostSample", WithFans)
    async with serve(FakeSource("fan", "fans", lambda: (Fan("front", 0.5),))) as client:
        assert await shows(client, 'zmon_fan_speed_ratio{fan="front",host="node-a"} 0.5')
        async with client.get("/api/v1/snapshot") as answer:
            fans_answer = msgspec.json.decode(await answer.read())["sample"]["fans"]
        assert fans_answer == [{"name": "front", "speed_ratio": 0.5}]
    link = AgentLink("http://node-a:9780")
    link.record_report(agent_report(rank_state(0), sample=WithFans(fans=(Fan("front", 0.5),))))
    assert link.window().before.fans == link.window().now.fans == (Fan("front", 0.5),)
