"""Play the drills of the recordings and write their files: `python -m lab.recording [NAME …]`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from lab.drills.draw import job_spec
from lab.drills.play import await_scene
from lab.recording.loop import loop
from lab.recording.recorder import Recorder, longest_pause
from lab.recording.scenes import DRAW, SCENES
from lab.recording.stage import RecordedHosts
from lab.stage import client
from lab.stage.cluster import agent_url
from zmon.errors import ZmonError
from zmon.stack.replay import FOLDER, SUFFIX, PastSeries, Recording, encode

CHECKOUT = Path(__file__).parents[2]
HISTORY_SECONDS = 45.0  # of training before the recording, for charts
BEFORE_SECONDS = 20.0  # of the recording before the fault
AFTER_SECONDS = 60.0  # of the recording after the fault
MAX_PAUSE_SECONDS = 5.0  # between two reports of an agent before the fault
# The history leaves out what zmon concluded: findings, what is recorded from them, and alerts.
_SELECTOR = '{__name__=~"zmon.+|up|scrape_samples_scraped",__name__!~"zmon_(finding|incident|alert).*|zmon:finding.*"}'


def record(name: str, stage: RecordedHosts) -> Recording:
    """Play one drill on the stage and return its recording. Raises ZmonError."""
    recorded_scene = SCENES[name]
    job_id = f"recorded-{name}"
    job = stage.start(job_spec(recorded_scene.drill, DRAW, job_id))
    try:
        scene = await_scene(recorded_scene.drill, stage, job, DRAW)
        began = time.time()
        time.sleep(HISTORY_SECONDS)
        recorder = Recorder(stage, job_id)
        try:
            time.sleep(BEFORE_SECONDS)
            instances = {address(agent_url(host)): host.name for host in stage.hosts.values()}
            instances[address(stage.urls["hub"])] = "hub"
            past = history(stage.urls["prometheus"], job_id, began, time.time(), instances)
            injection = recorded_scene.drill.fault(scene)
            recorder.read_evidence(injection.onset)
            time.sleep(AFTER_SECONDS)
            ended = time.time()
        finally:
            hosts = recorder.stop()
        if injection.lift is not None:
            injection.lift()
    finally:
        job.end()
    fault = injection.onset - recorder.began
    if any(longest_pause(host.reports, fault) > MAX_PAUSE_SECONDS for host in hosts):
        raise ZmonError("an agent did not answer before the fault", "the machine is busy", "Record again")
    start, end = loop(hosts, ended - recorder.began)
    hosts = tuple(replace(host, reports=[report for report in host.reports if report.at <= end]) for host in hosts)
    recording = Recording(recorded_scene.title, job_id, recorder.began, fault, end, start, hosts, past)
    return with_paths(recording, {str(stage.folder): "/run/zmon-lab", **paths_of_this_machine()})


def history(
    prometheus: str, job_id: str, start: float, end: float, instances: Mapping[str, str]
) -> tuple[PastSeries, ...]:
    """Return all series between two unix times, without those of other jobs.

    `instances`: the name of a host, or `hub`, by the address that Prometheus scrapes.
    """
    series = []
    for row in client.query(prometheus, f"{_SELECTOR}[{end - start:.0f}s] @ {end:.3f}"):
        labels = row["metric"]
        if "instance" in labels:
            labels |= {"instance": instances.get(labels["instance"], labels["instance"])}
        if labels.get("job_id", job_id) == job_id:
            series.append(PastSeries(labels, tuple((float(time), float(value)) for time, value in row["values"])))
    return tuple(series)


def with_paths(recording: Recording, names: Mapping[str, str]) -> Recording:
    """Return the recording with each path in `names` replaced by its name, so that nothing identifies the machine."""

    def replace_paths(value: Any) -> Any:
        if isinstance(value, str):
            for folder, name in names.items():
                value = value.replace(folder, name)
            return value
        if isinstance(value, dict):
            return {key: replace_paths(item) for key, item in value.items()}
        return [replace_paths(item) for item in value] if isinstance(value, list | tuple) else value

    plain = msgspec.to_builtins(recording, builtin_types=(bytes,))
    return msgspec.convert(replace_paths(plain), Recording)


def paths_of_this_machine() -> dict[str, str]:
    """Return the folders and control groups of this machine, and names for them that say nothing about it."""
    groups = (line.rpartition(":")[2] for line in Path("/proc/self/cgroup").read_text().splitlines())
    return {str(CHECKOUT): "/opt/zmon", sys.base_prefix: "/usr", **{path: "/job" for path in groups if path != "/"}}


def address(url: str) -> str:
    """Return host and port of a URL, as Prometheus names an instance."""
    return url.removeprefix("http://")


def main(names: Sequence[str]) -> None:
    """Make these recordings, or all of them."""
    with tempfile.TemporaryDirectory(prefix="zmon-recording-") as folder:
        stage = RecordedHosts(Path(folder))
        try:
            for name in names or SCENES:
                try:
                    data = encode(record(name, stage))
                except ZmonError as error:
                    print(f"{name}: {error}", file=sys.stderr, flush=True)
                    continue
                (FOLDER / f"{name}{SUFFIX}").write_bytes(data)
                print(f"{name}: {len(data) / 1000:.0f} kB", flush=True)
        finally:
            stage.close()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ZmonError as error:
        sys.exit(f"recording: {error}")
