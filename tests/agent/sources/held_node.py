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
        self.now = 1000.0  # monotonic seconds
        self.ratios = [0.0] * 4  # utilization of each GPU
        self.pids = {}  # of the processes on a GPU, by the number of the GPU
        self.ranks = []  # pairs of the state of a rank and its pid
        self.instances = []  # samples of instances of GPUs
        self.pods = None  # as the API has them; None: unknown
        self.source = HeldSource(
            self.gpus,
            lambda: self.ranks,
            Leases(),
            pods=lambda: None if self.pods is None else tuple(pod_holders(self.pods, [])),
            proc=self.proc,
            cgroup=self.cgroup,
            folder=self.files,
            clock=lambda: self.now,
        )

    def gpus(self):
        """Return a sample of each GPU and instance."""
        return [
            GpuSample(str(n), f"GPU-{n}", utilization_ratio=ratio, pids=self.pids.get(n, ()), minor=n)
            for n, ratio in enumerate(self.ratios)
        ] + self.instances

    def job(self, number, *gpus):
        """Write the scheduler's file of a job of ann that holds these GPUs."""
        self.files.mkdir(exist_ok=True)
        content = {"gpus": gpus, "user": "ann", "group": f"/job_{number}"}
        (self.files / f"slurm-{number}.json").write_text(json.dumps(content))

    def group(self, path, devices):
        """Add a control group with this list of devices; those above it have all devices."""
        root = self.cgroup / "devices"
        folder = root / path.lstrip("/")
        folder.mkdir(parents=True)
        for above in folder.parents:
            if above.is_relative_to(root) and not (above / "devices.list").exists():
                (above / "devices.list").write_text("a *:* rwm\n")
        (folder / "devices.list").write_text(devices)

    def process(self, pid, group):
        """Add a process in this control group to /proc."""
        (self.proc / str(pid)).mkdir(parents=True)
        (self.proc / str(pid) / "cgroup").write_text(f"12:devices:{group}\n1:name=systemd:{group}\n")

    def after(self, seconds=0.0):
        """Let the time pass, with a read every 5 seconds, and return the last answer by holder."""
        until = self.now + seconds
        while True:
            answer = {held.holder: held for held in self.source.read().value}
            if self.now >= until:
                return answer
            self.now += 5.0

    def idle(self, seconds):
        """Let the time pass; return the kind of idleness of each holder that is idle then."""
        return {name: held.idle_kind for name, held in self.after(seconds).items() if held.idle_kind}
