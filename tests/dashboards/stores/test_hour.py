"""Tests of the hour: it has a series of each alert that must fire in it."""

import re

import pytest

from bench.dashboard.synthetic import everything
from tests.dashboards.stores import hour
from tests.dashboards.stores.test_same_answers import ALERTS, NEVER

pytestmark = pytest.mark.unit


def test_hour_has_a_series_of_each_alert():
    names = {entry.name for entry in everything(hour.SCENE)} | hour.REPLACED
    names |= {labels["__name__"] for labels, _ in hour.recorded()}
    read = {name: set(re.findall(r"\b(?:zmon[_:]|up\b)[a-z_:]*", rule["expr"])) for name, (rule, _) in ALERTS.items()}
    assert [name for name in read.keys() - NEVER if read[name] and not read[name] & names] == []
