"""Tests that the identity keeps its place and its encoding in a box (tests/golden has the rest of the layout)."""

import struct
from dataclasses import asdict

from tests.boxes import Box, read_part
from zmon.box.identity import Identity, packed_identity
from zmon.box.versions import CURRENT

# Every value differs from all others and from its default, so a field in the place of another one would be noticed.
FULL = Identity(
    pid=4711, run_uid=bytes(range(16)).hex(), start_ns=12_345, start_unix=1_700_000_000.0, launcher_pid=900,
    launcher_start=77, rank=5, local_rank=1, world_size=8, local_world_size=4, attempt=2, restart_count=3,
    max_restarts=6, watch=9, job_id="j" * 64, device="GPU-1234", backend="nccl", socket="/run/x.sock",
    labels={"owner": "ann"}, launch_id="launch", program="train.py", role="trainer", edge="c", samples_source="loader",
    device_name="H200", flops_source="counted", flops_dtypes={"float32": 0.25, "bfloat16": 0.75}, uncounted="a kernel",
    loops="3-9 main train.py\n12-40 <module> run.py",
)  # fmt: skip


def test_identity_has_the_bytes_of_this_version():
    formats = "q16sqqqq8i64s64s32s256s2560s24s64s64s16s16s96s16s160s256s2048s"  # of the fields, in their order
    packed = struct.pack("<Q" + formats, 1, *packed_identity(FULL))  # a cell begins with a number of 8 bytes
    assert packed == CURRENT.identity.struct.pack(1, *packed_identity(FULL))
    assert packed[8:48] == struct.pack("<q16sqq", 4711, bytes(range(16)), 12_345, 1_700_000_000_000_000_000)
    assert CURRENT.identity.offset == 64


def test_every_field_of_the_identity_is_read_with_its_type(tmp_path):
    assert read_part(Box(tmp_path, identity=asdict(FULL)), "identity") == FULL
