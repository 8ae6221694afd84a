"""Asks Prometheus and the hub: an answer, or one line on who did not answer and what to do; never a number made up.

Prometheus is found by ZMON_PROMETHEUS_URL, the hub by ZMON_HUB_URL. Both answer within a second or not at all, so that
a dead one shows as dead instead of freezing the page.
"""

import json
import os
import re
from collections import defaultdict
from dataclasses import dataclass, field
from math import isfinite

import pandas as pd
import requests

TIMEOUT_SECONDS = 1.0  # half of the page's refresh: with both dead the page still keeps its pace
FRAME = ["time", "series", "value"]  # what charts are drawn from


class Unreachable(Exception):
    """A source gave no usable answer; its text is the line that the page shows."""


@dataclass(frozen=True)
class Sample:
    """One series at one instant; `at` is Prometheus's clock, in unix seconds."""

    labels: dict[str, str]
    value: float
    at: float


@dataclass(frozen=True)
class Prometheus:
    """The history of every number."""

    url: str = field(default_factory=lambda: os.environ.get("ZMON_PROMETHEUS_URL", "http://127.0.0.1:9090"))

    def now(self, promql: str) -> list[Sample]:
        """The instant value of every series that matches; an empty list if none does."""
        found = self._result("query", query=promql)
        return [Sample(one["metric"], float(one["value"][1]), float(one["value"][0])) for one in found]

    def over(self, promql: str, legend: str, start: int, end: int, resolution: int) -> pd.DataFrame:
        """A FRAME on one grid of whole seconds, from the first known value to `end`; unknown is a missing value.

        The rows without a value matter: without them a chart would draw its line straight across a gap.
        """
        found = self._result("query_range", query=promql, start=start, end=end, step=resolution)
        known = [
            (int(at), _series_name(legend, one["metric"]), float(value))
            for one in found
            for at, value in one["values"]
            if isfinite(float(value))
        ]
        if not known:
            return pd.DataFrame(columns=FRAME)
        table = pd.DataFrame(known, columns=FRAME).pivot_table(index="time", columns="series", values="value")
        table = table.reindex(range(table.index[0], end + 1, resolution))
        table = table[sorted(table.columns, key=_natural)]
        table.index = pd.to_datetime(table.index, unit="s", utc=True).rename("time")
        return table.reset_index().melt(id_vars="time", var_name="series", value_name="value")

    def _result(self, endpoint: str, **params: str | int) -> list[dict]:
        answer = _ask("Prometheus", "ZMON_PROMETHEUS_URL", self.url, endpoint, **params)
        data = answer.get("data")
        if not isinstance(data, dict) or not isinstance(data.get("result"), list):
            raise Unreachable(f"What answers at {_shown(self.url)} is not Prometheus. Is ZMON_PROMETHEUS_URL right?")
        return data["result"]


@dataclass(frozen=True)
class Hub:
    """The one that decides: which jobs there are, and who is to blame."""

    url: str = field(default_factory=lambda: os.environ.get("ZMON_HUB_URL", "http://127.0.0.1:9781"))

    def jobs(self) -> tuple[list[dict], bool]:
        """Every job the hub knows, and whether it is blind: then this is what it saw last."""
        answer = self._answer("jobs")
        return answer["jobs"], answer.get("blind", False)

    def findings(self) -> list[dict]:
        """The active findings of all jobs, newest first."""
        return self._answer("findings", active=1)["findings"]

    def _answer(self, what: str, **params: str | int) -> dict:
        answer = _ask("The hub", "ZMON_HUB_URL", self.url, what, **params)
        if answer.get("schema") != 1 or not isinstance(answer.get(what), list):
            raise Unreachable(f"What answers at {_shown(self.url)} is no hub of this version. Is ZMON_HUB_URL right?")
        return answer


def quoted(label_value: str) -> str:
    """A label value that is safe inside PromQL: a job_id comes from the address bar."""
    return json.dumps(label_value)


def _ask(name: str, variable: str, url: str, path: str, **params: str | int) -> dict:
    """The JSON object at `url`/api/v1/`path`, or Unreachable saying who, where, why and what to do."""
    advice = f"Is it running, and is {variable} right?"
    try:
        response = requests.get(f"{url.rstrip('/')}/api/v1/{path}", params=params, timeout=TIMEOUT_SECONDS)
        answer = response.json()
    except requests.Timeout:
        raise Unreachable(f"{name} at {_shown(url)} did not answer within {TIMEOUT_SECONDS:g} s. {advice}") from None
    except requests.ConnectionError:
        raise Unreachable(f"{name} at {_shown(url)} cannot be reached. {advice}") from None
    except requests.JSONDecodeError:
        raise Unreachable(f"{name} at {_shown(url)} answered {response.status_code} and no JSON. {advice}") from None
    except (requests.RequestException, ValueError) as error:
        raise Unreachable(f"{name} cannot be asked at {_shown(url)}: {type(error).__name__}. {advice}") from None
    if not response.ok or not isinstance(answer, dict):
        reason = answer.get("error", "") if isinstance(answer, dict) else ""
        raise Unreachable(f"{name} at {_shown(url)} answered {response.status_code} {reason}".strip() + f". {advice}")
    return answer


def _shown(url: str) -> str:
    """A URL without its credentials, which do not belong on a page."""
    return re.sub(r"//[^/@]*@", "//", url)


def _series_name(legend: str, labels: dict[str, str]) -> str:
    """The legend filled in; largest, median and smallest of many series have a name of their own."""
    return labels.get("spread") or legend.format_map(defaultdict(lambda: "?", labels))


def _natural(name: str) -> list[int | str]:
    """Sorts rank 10 after rank 2."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
