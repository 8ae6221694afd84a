"""Tests of the lock on a box, which shows whether the rank is alive. Forked workers do not change the answer."""

import contextlib
import signal
from pathlib import Path

from tests.boxes import eventually
from zmon.box.reader import BoxReader
from zmon.process import process_stat

IDLE = """
    import time
    from zmon import probe
    assert probe.attach_box()
    print("attached", flush=True)
    time.sleep(60)
"""


def read_lock_holder(rank):
    """Return the pid of the process that holds the box of a rank, or None."""
    with contextlib.closing(BoxReader(rank.box)) as reader:
        return reader.holder()


def test_lock_holder_is_the_pid_of_a_living_rank_and_none_after_death(start_rank):
    rank = start_rank(IDLE)
    rank.says("attached")
    assert read_lock_holder(rank) == rank.pid
    rank.signal(signal.SIGSTOP)
    assert read_lock_holder(rank) == rank.pid
    rank.signal(signal.SIGKILL)
    rank.wait()
    assert read_lock_holder(rank) is None


def test_killed_rank_is_dead_although_its_workers_and_their_children_live(start_rank):
    """Forked workers, for example of DataLoader, inherit the descriptors and the memory of the rank."""
    rank = start_rank("""
        import os, time
        from zmon import probe
        assert probe.attach_box()
        box = probe.current.box
        workers = []
        for _ in range(4):
            read, write = os.pipe()
            worker = os.fork()
            if not worker:
                grandchild = os.fork()
                if grandchild:
                    os.write(write, f"{grandchild}".encode())
                while True:
                    os.fstat(box._fd)  # worker and grandchild have the file open
                    time.sleep(0.01)
            workers += [worker, int(os.read(read, 20))]
        print("workers", *workers, flush=True)
        time.sleep(60)
    """)
    workers = [int(pid) for pid in rank.says("workers").split()]
    assert len(workers) == 8
    assert read_lock_holder(rank) == rank.pid
    rank.signal(signal.SIGKILL)
    rank.wait()
    for worker in workers:
        assert process_stat(worker).state in "RSD"  # it runs, sleeps or waits for a disk: it has not ended
        assert any(rank.box.name in str(fd.readlink()) for fd in Path(f"/proc/{worker}/fd").iterdir())
    assert read_lock_holder(rank) is None


def test_forked_worker_that_ends_does_not_make_its_rank_look_dead(start_rank):
    rank = start_rank("""
        import os, sys, time
        from zmon import probe
        assert probe.attach_box()
        worker = os.fork()
        if not worker:
            sys.exit()
        os.waitpid(worker, 0)
        print("waited", flush=True)
        time.sleep(60)
    """)
    rank.says("waited")
    assert read_lock_holder(rank) == rank.pid


def test_second_process_of_a_rank_is_refused_and_continues(start_rank):
    first = start_rank(IDLE, world_size=2)
    first.says("attached")
    second = start_rank(
        """
        import zmon
        from zmon import probe
        print(probe.attach_box())
        with zmon.step():
            print("trains", flush=True)
        """,
        world_size=2,
    )
    assert second.wait() == 0
    complaint, attached, trains = second.output.splitlines()
    assert complaint.startswith(f"zmon: process {first.pid} holds the black box")
    assert (attached, trains) == ("False", "trains")
    assert read_lock_holder(first) == first.pid
    first.signal(signal.SIGKILL)
    first.wait()
    third = start_rank(IDLE, world_size=2)
    third.says("attached")
    assert eventually(lambda: read_lock_holder(third) == third.pid)
