"""Build a node as an agent sees it: boxes on a scripted clock, a scripted kernel, and sources of all hardware."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.agent.agent_client import FakeSource
from tests.boxes import Box, Clock
from tests.build import NOW
from tests.job.test_flight import dump, entry
from tests.metrics.scene import FULL_HOST
from zmon.box import BoxWriter
from zmon.probe.plan_file import write_plan
from zmon.probe.rank import ACTIVITY_NUMBER, OP_NUMBER, PHASE_NUMBER
from zmon.schema.host import HostSample

SECOND = 1_000_000_000
BEGIN = 5_000 * SECOND  # start of every rank on the host's monotonic clock
STACK = 'Thread 0x1 (most recent call first):\n  File "train.py", line 12 in guilty_line\n'


@dataclass
class Kernel:
    """The state of the kernel: the monotonic clock, the processes that hold boxes, and a folder like /proc."""

    proc: Path
    ns: int = BEGIN + 40 * SECOND
    holders: dict[Path, int] = field(default_factory=dict)

    def start(self, box: Box, state: str = "S") -> None:
        """Start the process of a box in this state, with a file as its standard error."""
        pid = box.who.pid
        self.holders[box.path] = pid
        folder = self.proc / str(pid)
        for name in ("fd", "fdinfo"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        log = self.proc / f"stderr-{pid}"
        log.write_text(f"rank {box.who.rank} said\n")
        (folder / "fd/2").symlink_to(log)
        (folder / "fdinfo/2").write_text("pos:\t0\nflags:\t0100001\n")
        (folder / "status").write_text(f"Uid:\t{os.getuid()}\t0\t0\t0\nGid:\t{os.getgid()}\t0\t0\t0\nGroups:\t\n")
        (folder / "wchan").write_text("futex_wait_queue")
        self._write_stat(pid, state)

    def end(self, box: Box) -> None:
        """Let the process of a box begin to end, and let go of the box."""
        self._write_stat(self.holders[box.path], "R", flags=0x4)  # PF_EXITING
        del self.holders[box.path]

    def _write_stat(self, pid: int, state: str, flags: int = 0) -> None:
        fields = [state, "900", *["0"] * 4, str(flags), *["0"] * 12, "77", "0", "50000", *["0"] * 30]
        (self.proc / str(pid) / "stat").write_text(f"{pid} (python) {' '.join(fields)}\n")


@dataclass
class Interface:
    """The network interface of a job, which is read at the end of each step."""

    ledger: Any

    def since_last(self) -> tuple[int, int]:
        """Return the bytes sent and received since the last step."""
        self.ledger._interface_read_at = 0
        return 500, 600


def rank_box(root: Path, rank: int, socket: str = "", **identity: Any) -> Box:
    """Return a box of one of five ranks with all that a box can hold, ten steps after its start."""
    who = {
        "rank": rank, "local_rank": rank, "world_size": 5, "local_world_size": 5, "pid": 4_200_000 + rank,
        "run_uid": f"{rank:02x}" * 16, "labels": {"name": "dlrm", "owner": "ann"}, "device": "GPU-1",
        "socket": socket, "start_ns": BEGIN, "start_unix": NOW - 40, **identity,
    }  # fmt: skip
    box = Box(root, Clock(BEGIN), who)
    box.timeline = box.edge.make_timeline(box.writer, None, box.clock, unix_clock=time.time_ns)
    box.ledger = box.timeline.ledger
    box.ledger._interface = Interface(box.ledger)
    box.ledger.memory_reader = lambda: (1_000, 2_000, 3_000)
    box.timeline.overhead_ns, box.ledger.dropped = 5_000_000, 2
    box.clock.sleep(1.5)
    box.timeline.begin_step(1)
    box.ledger.work(32, 800)
    box.ledger.report({"loss": 0.5, "auc": float("nan")}, 1)
    box.steps(8)
    box.timeline.turn_to(ACTIVITY_NUMBER["checkpoint"])
    box.clock.sleep(0.5)
    box.ledger.note_checkpoint()
    box.timeline.turn_to(ACTIVITY_NUMBER["eval"])
    box.clock.sleep(0.25)
    for _ in range(2):
        box.timeline.begin_step(None)
        box.timeline.phase(PHASE_NUMBER["data"])
        box.clock.sleep(0.01)
        box.timeline.enter_op(OP_NUMBER["all_reduce"], box.timeline.group("1", 5), 40, 40)
        box.clock.sleep(0.02)
        box.timeline.leave_op()
        box.ledger.work(32, 900)
        box.timeline.end_step()
    return box


def write_last_words(writer: BoxWriter, kind: str, type_: str = "", message: str = "") -> None:
    """Write last words, one second before NOW."""
    writer.last_words(int(NOW - 1) * SECOND, kind, type_, message)


def ranks(root: Path, kernel: Kernel, socket: str) -> list[Box]:
    """Return ranks: one in a collective, one with an exception, one stopped, one about to die, one done."""
    boxes = [rank_box(root, rank, socket if rank == 0 else "") for rank in range(5)]
    waits, leaves, stopped, dies, done = boxes
    waits.timeline.enter_op(OP_NUMBER["all_to_all"], waits.timeline.group("0", 2), 100, 60)
    leaves.timeline.phase(PHASE_NUMBER["backward"])
    write_last_words(leaves.writer, "exception", "builtins.ValueError", "bad batch 17")
    stopped.timeline.phase(PHASE_NUMBER["embedding"])
    write_last_words(dies.writer, "exception", "builtins.RuntimeError", "CUDA error")
    write_last_words(done.writer, "exit")
    done.timeline.turn_to(ACTIVITY_NUMBER["done"])
    for box, state in zip(boxes, "SDTSS", strict=True):
        kernel.start(box, state)
    predicted = [
        {"lookups": 900, "sent_bytes": 100, "received_bytes": 60, "seconds": 0.02, "memory_bytes": 3_000,
         "tables": [f"t{rank}", "shared"]}
        for rank in range(4)
    ]  # fmt: skip
    write_plan(waits.path, waits.who.run_uid, 5, [*predicted, {}], {"samples_per_second": 8000.0})
    other = rank_box(root, 0, job_id="other", run_uid=(b"o" * 16).hex(), pid=4_200_100, world_size=1)
    other.steps(24)  # consecutive steps: an answer has the mean of the steps between the selected ones
    kernel.start(other)
    return [*boxes, other]


def host() -> HostSample:
    """Return a host with every kind of hardware, whose connections have all values that a kernel may report."""
    tcp = FULL_HOST.tcp
    assert tcp is not None
    peers = tuple(replace(peer, acked_bytes=5_000, busy_seconds=0.5) for peer in tcp.peers)
    return replace(FULL_HOST, tcp=replace(tcp, peers=peers, addresses=("10.0.0.1",), devices=("eth0",)))


def sources() -> list[FakeSource]:
    """Return a source for each kind of hardware."""
    fields = ("nics", "rdma", "gpus", "tcp", "load", "storage", "cgroups", "clock", "kernel", "processes", "held")
    return [FakeSource(name, name, lambda name=name: getattr(host(), name)) for name in fields]


def worker_server() -> web.Application:
    """Return an app that answers like torch's worker server on a rank's socket."""
    hanging = entry(9, input_sizes=[[72], [4, 3]], input_dtypes=["Float", "Long"])
    answers = {"dump_traceback": STACK.encode(), "fr_trace_json": dump(entry(8, retired=True), hanging)}

    async def answer(request: web.Request) -> web.Response:
        body = answers.get(request.match_info["handler"])
        return web.Response(status=404) if body is None else web.Response(body=body)

    app = web.Application()
    app.add_routes([web.post("/handler/{handler}", answer)])
    return app


async def answer_of(client: Any, path: str) -> dict[str, Any]:
    """Return the status and the body of an answer: parsed if it is JSON, else its text."""
    async with client.get(path) as answer:
        text = await answer.text()
        is_json = answer.content_type == "application/json"
        return {"status": answer.status, "type": answer.content_type, "body": json.loads(text) if is_json else text}
