"""Tests of the layout of a box: its words fit, and its identity keeps its place (tests/golden has the whole layout)."""

import struct
from dataclasses import fields, replace

import pytest

from tests.boxes import IDENTITY, Box, read_part
from zmon.box import layout
from zmon.box.identity import Identity, packed_identity, unpacked_identity
from zmon.box.versions import CURRENT
from zmon.schema.names import ACTIVITIES, OPS, PHASES

FULL = replace(
    IDENTITY, pid=4711, run_uid=bytes(range(16)).hex(), start_ns=12_345, rank=5, local_rank=1, world_size=8,
    local_world_size=4, attempt=2, restart_count=3, device="GPU-1234", socket="/run/x.sock", labels={"owner": "ann"},
    loops="3-9 main train.py\n12-40 <module> run.py",
)  # fmt: skip


def test_numbers_of_all_words_fit_into_the_state_of_a_rank():
    """A word without enough bits for its number would be read as another word."""
    last = (len(ACTIVITIES) - 1, len(PHASES) - 1, len(OPS) - 1, layout.MAX_GROUPS - 1)
    assert layout.unpack_state(layout.state(*last)) == last
    assert len(OPS) <= layout.NONE


def test_identity_has_the_bytes_of_this_version():
    formats = "q16sqqqq8i64s64s32s256s2560s24s64s64s16s16s96s16s160s256s2048s"
    packed = struct.pack("<Q" + formats, 1, *packed_identity(FULL))
    assert packed == CURRENT.identity.struct.pack(1, *packed_identity(FULL))
    assert packed[8:48] == struct.pack("<q16sqq", 4711, bytes(range(16)), 12_345, 1_700_000_000_000_000_000)
    assert CURRENT.identity.offset == 64


def test_every_field_of_the_identity_is_read_with_its_type(tmp_path):
    box = Box(tmp_path, identity={field.name: getattr(FULL, field.name) for field in fields(FULL)})
    assert read_part(box, "identity") == FULL


@pytest.mark.parametrize("name", [field.name for field in fields(Identity)])
def test_field_of_the_identity_is_stored_separately(name):
    """Two fields with the same place, or a field without one, would return another value."""
    value_by_name = {"run_uid": "ab" * 16, "flops_dtypes": {"float32": 0.25, "bfloat16": 0.75}}
    value_by_type = {int: 7, float: 1_700_000_000.5, str: "other", dict: {"model": "dlrm"}}
    value = value_by_name.get(name, value_by_type[type(getattr(FULL, name))])
    changed = replace(FULL, **{name: value})
    assert changed != FULL
    assert unpacked_identity(packed_identity(changed)) == changed


def test_job_id_of_maximum_length_is_read(tmp_path):
    assert read_part(Box(tmp_path, identity={"job_id": "j" * 64}), "identity").job_id == "j" * 64
