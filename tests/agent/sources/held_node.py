"""A node whose GPUs somebody holds, for tests of the source `held`."""

import json

from zmon.agent.sources.held import HeldSource
from zmon.agent.sources.pods import pod_holders
from zmon.job.lease import Leases
from zmon.schema.host import GpuSample


class FakeNode:
    """A node with four GPUs, its scheduler's files, its control groups of v1, its pods, and a clock."""

    def __init__(self, root):
        self.files, self.cgroup, self.proc = root / "held", root / "cgroup", root / "proc"
        self.now, self.ratios, self.pids, self.ranks = 1000.0, [0.0] * 4, {}, []
        self.instances = []  # samples of instances of GPUs
        self.pods = None  # as the API has them; None: unknown
        self.source = HeldSource(
            self.gpus,
            lambda: self.ranks,
            Leases(),
            lambda: None if self.pods is None else tuple(pod_holders(self.pods, [])),
            self.proc,
            self.cgroup,
            self.files,
            lambda: self.now,
        )

    def gpus(self):
        return [
            GpuSample(str(n), f"GPU-{n}", utilization_ratio=ratio, pids=self.pids.get(n, ()), minor=n)
            for n, ratio in enumerate(self.ratios)
        ] + self.instances

    def job(self, number, *gpus, **more):
        self.files.mkdir(exist_ok=True)
        content = {"gpus": gpus, "user": "ann", "group": f"/job_{number}", **more}
        (self.files / f"slurm-{number}.json").write_text(json.dumps(content))

    def group(self, path, devices):
        folder = self.cgroup / "devices" / path.lstrip("/")
        folder.mkdir(parents=True)
        for each in (folder, *folder.parents):
            if each.is_relative_to(self.cgroup / "devices") and not (each / "devices.list").exists():
                (each / "devices.list").write_text("a *:* rwm\n")
        (folder / "devices.list").write_text(devices)

    def process(self, pid, group):
        (self.proc / str(pid)).mkdir(parents=True)
        (self.proc / str(pid) / "cgroup").write_text(f"12:devices:{group}\n1:name=systemd:{group}\n")

    def after(self, seconds=0.0, step=5.0):
        """Read every few seconds for so long, and return the last answer by holder."""
        until = self.now + seconds
        while True:
            held = {each.holder: each for each in self.source.read().value}
            if self.now >= until:
                return held
            self.now += step

    def idle(self, seconds):
        """Return the kind of each holder that is idle after so many seconds."""
        return {name: held.idle_kind for name, held in self.after(seconds).items() if held.idle_kind}
