"""Train with DDP until the fault named by the variable FAULT strikes rank 1 at step 30; without FAULT train on."""

import os
import signal
import socket
import threading
import time
from datetime import timedelta

import psutil
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import zmon

STRUCK, STEP = 1, 30
PAUSE = 0.02  # seconds in each step
MEETING_SECONDS = 6  # the time in which all ranks must have reached the store
LATE_SECONDS = (0, 3, 1)  # by rank; rank 0 gives up first, so that rank 2 loses the store

zmon.attach()
fault = os.environ.get("FAULT", "")
is_struck = int(os.environ["RANK"]) == STRUCK
if "unreachable" in fault and is_struck:
    os.environ["MASTER_PORT"] = "1"  # nothing listens there
if fault == "late and unreachable":
    time.sleep(LATE_SECONDS[int(os.environ["RANK"])])


def connections(pid):
    """Return the TCP connections of a process."""
    return [c for c in psutil.Process(pid).net_connections("tcp") if c.status == psutil.CONN_ESTABLISHED]


def shut_connection_to(pid):
    """Shut down this rank's connections to another process, as if a reset had reached both ends."""
    theirs = {(c.raddr, c.laddr) for c in connections(pid)}
    for ours in connections(os.getpid()):
        if (ours.laddr, ours.raddr) in theirs:
            socket.socket(fileno=os.dup(ours.fd)).shutdown(socket.SHUT_RDWR)


def strike():
    """Cause the fault on this rank."""
    if fault == "storage":
        raise RuntimeError("storage client: cannot read shard 17: connection refused")
    if fault == "bad batch":
        raise ValueError("bad batch 17")
    if fault == "wrapped":
        os._exit(3)
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "terminated":
        os.kill(os.getpid(), signal.SIGTERM)
    if fault == "hang":
        threading.Event().wait()
    if fault == "full disk":
        torch.save(model.state_dict(), "/dev/full")
    if fault == "reset":
        threading.Thread(target=shut_connection_to, args=(pids[STRUCK + 1],)).start()


def train_step():
    """Train one step; a failure is wrapped in an exception of the job's own, as many frameworks do."""
    time.sleep(PAUSE)
    optimizer.zero_grad()
    try:
        if not (fault == "skipped backward" and is_struck and step == STEP):  # the job swallows an exception of it
            model(torch.randn(4, 64)).sum().backward()
    except RuntimeError as error:
        if fault == "wrapped":
            raise ValueError("the training step failed") from error
        raise
    if fault == "skipped update" and is_struck and step == STEP:
        return  # as if clipping the gradients had raised an exception that the job swallows
    optimizer.step()


dist.init_process_group("gloo", timeout=timedelta(seconds=MEETING_SECONDS if "unreachable" in fault else 60))
pids = [0] * dist.get_world_size()
dist.all_gather_object(pids, os.getpid())
model = DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(10**6):
    if step == STEP and is_struck:
        if fault == "uneven":
            break  # this rank has fewer batches than the others
        strike()
    train_step()
dist.destroy_process_group()
