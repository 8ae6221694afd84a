"""Make dumps of torch's flight recorder as NCCL writes them: a pickle of one rank, with version, groups and entries."""

import pickle


def entry(sequence, name="nccl:all_reduce", group="0", state="scheduled", sizes=((128,),), **changes):
    """Return one operation, laid out as torch/csrc/distributed/c10d/FlightRecorder.hpp describes it."""
    return {
        "record_id": sequence - 1, "pg_id": 0, "process_group": (group, "default_pg"), "collective_seq_id": sequence,
        "p2p_seq_id": 0, "op_id": sequence, "profiling_name": name, "duration_ms": None,
        "time_created_ns": 1_800_000_000_000_000_000 + sequence,
        "input_sizes": [list(size) for size in sizes], "input_dtypes": ["Float"] * len(sizes),
        "output_sizes": [list(size) for size in sizes], "output_dtypes": ["Float"] * len(sizes), "state": state,
        "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": state == "completed",
        "timeout_ms": 600_000, "is_p2p": False,
        "frames": [
            {"name": "all_reduce", "filename": "/env/lib/python3.11/site-packages/torch/distributed/d.py", "line": 3},
            {"name": "step", "filename": "/home/me/train.py", "line": 80 + sequence},
        ], **changes,
    }  # fmt: skip


def done(last, **changes):
    """Return the entries up to `last`, all completed."""
    return [entry(sequence, state="completed", **changes) for sequence in range(1, last + 1)]


def content(entries, ranks=4):
    """Return the content of the dump of one rank."""
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
        "pg_status": {"0": {"last_enqueued_collective": 3, "last_completed_collective": 3}},
        "entries": entries,
    }  # fmt: skip


def write(folder, *by_rank, ranks=None):
    """Write the entries of each rank to a file of its own, and return the paths. A rank whose item is None has no file.

    `ranks` is the number of ranks of the job; None: as many as there are items.
    """
    paths = []
    for rank, entries in enumerate(by_rank):
        if entries is not None:
            paths.append(folder / f"nccl_trace_rank_{rank}")
            paths[-1].write_bytes(pickle.dumps(content(entries, ranks or len(by_rank)), protocol=2))
    return paths
