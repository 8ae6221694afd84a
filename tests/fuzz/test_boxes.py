"""Random boxes with valid checksums: the agent reads what it can, and always answers.

A process can write such a box on purpose. tests/box/test_fuzz.py has boxes whose checksums show the damage.
"""

import asyncio
import itertools
import os
import re
import struct
from dataclasses import replace
from zlib import crc32

import pytest

from tests.box.written import CELLS, HEAD, WRITTEN_BOUNDARIES, write_box
from tests.fuzz.draw import NUMBERS, text
from tests.fuzz.judging import judge
from zmon import metrics
from zmon.agent.exported import exported_ranks
from zmon.agent.snapshot import node_ranks, with_history
from zmon.agent.sources.boxes import Boxes
from zmon.box import layout
from zmon.box.versions import CURRENT
from zmon.format import plain
from zmon.schema.api import SnapshotRequest
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.received import decode
from zmon.schema.host import HostSample
from zmon.schema.limits import MAX_WORLD_SIZE
from zmon.web.responses import json_response

_BITS = {"i": 31, "q": 63}  # of the largest number that each code of `struct` packs


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """Return the bytes of a valid box."""
    return write_box(tmp_path_factory.mktemp("pristine"), 0).data


def random_number(code, chance):
    """Return a random integer that `struct` can pack with this code."""
    bits = _BITS[code]
    number = chance.choice([n for n in NUMBERS if isinstance(n, int)])
    return max(-(1 << bits), min(number, (1 << bits) - 1))


def random_values(packing, chance):
    """Return random values for this packing, one for each of its codes."""
    values = []
    for code in struct_codes(packing):
        if code.endswith("s"):
            values.append(text(chance).encode("utf-8", "replace") if chance.random() < 0.8 else chance.randbytes(9))
        elif code == "d":
            values.append(chance.choice((0.0, -1.0, 1e300, float("nan"), float("inf"))))
        elif code == "B":
            values.append(chance.randrange(256))
        elif code == "Q":
            values.append(chance.choice((0, 1, 5, (1 << 64) - 1, chance.randrange(30))))
        else:
            values.append(random_number(code, chance))
    return values


def struct_codes(packing):
    """Return the codes of a format without counts: `2q` is q, q; `64s` stays as it is."""
    codes = []
    for number, letter in re.findall(r"(\d*)([A-Za-z])", packing.format):
        if letter != "x":
            codes += [f"{number}s"] if letter == "s" else [letter] * int(number or 1)
    return codes


def with_checksum(raw, seed):
    """Return these bytes and the checksum that a reader expects behind them."""
    return raw + layout.CRC.pack(crc32(raw, seed))


def random_box(pristine, chance):
    """Return the head of a box with random values in some cells, boundaries and live words, and valid checksums."""
    data, seed = bytearray(pristine[:HEAD]), layout.PREFIX.unpack_from(pristine)[-1]
    for cell in CELLS:
        if chance.random() < 0.5:
            values = list(cell.struct.unpack_from(data, cell.offset))
            drawn = random_values(cell.struct, chance)
            for index in chance.sample(range(1, len(values)), min(len(values) - 1, chance.choice((1, 1, 2, 30)))):
                values[index] = drawn[index]
            values[0] = 1 << 40  # the number of the write: a reader takes the slot with the larger number
            raw = with_checksum(cell.struct.pack(*values), seed)
            data[cell.offset : cell.offset + len(raw)] = raw
    for slot in range(WRITTEN_BOUNDARIES):
        if chance.random() < 0.3:
            drawn = random_values(layout.BOUNDARY, chance)
            raw = with_checksum(layout.BOUNDARY.pack(slot, *drawn[1:]), seed)
            offset = CURRENT.ring + slot * CURRENT.boundary_size
            data[offset : offset + len(raw)] = raw
    for index in range(layout.NUM_LIVE):
        if chance.random() < 0.1:
            struct.pack_into("<q", data, CURRENT.live + 8 * index, random_number("q", chance))
    if chance.random() < 0.5:
        since = chance.choice((0, 5, 1 << 40, (1 << 62)))
        word = layout.STATE_KEY + layout.STATE_PRIME * chance.randrange(layout.STATE_LIMIT) - since
        struct.pack_into("<2q", data, CURRENT.live, since, word)
    return bytes(data)


def box_checker(pristine, folder):
    """Return a check that writes a random box, and does with it what an agent and a hub do."""
    path = folder / "job" / "0" / "rank-0.box"
    path.parent.mkdir(parents=True)
    path.write_bytes(pristine)
    file = os.open(path, os.O_RDWR)
    times = itertools.count(1)

    def check(chance):
        os.pwrite(file, random_box(pristine, chance), 0)
        # Nanoseconds; the clock of the pristine box begins at 1_000_000_000_000.
        boxes = Boxes(folder, "node-a", clock=lambda: 2_000_000_000_000 + next(times))

        async def ask(question):
            return question(boxes)

        try:
            reading = boxes.read()
            request = SnapshotRequest(since=0, about=chance.choice((0, 8)))
            node = asyncio.run(with_history(ask, request, node_ranks(boxes, request), 64))
        finally:
            boxes.close()
        states = tuple(state for state, _ in node.ranks)
        assert all(plain(line) == line for line in reading.dropped)
        assert all(0 <= state.rank < state.world_size <= MAX_WORLD_SIZE for state in states)
        report = AgentReport("node-a", 1.8e9, "0", states, HostSample(), (), dict(node.steps), node.cursor)
        exported = tuple(exported_ranks(states).ranks)
        metrics.agent_page(replace(report, ranks=exported, steps={}), 0.0, 0)
        answer = json_response(report).body
        received = decode(answer, AgentReport)
        assert received.steps == report.steps
        judge(received, received)

    return check


def test_random_boxes_are_read_or_left_out(pristine, tmp_path, check_random):
    check_random(box_checker(pristine, tmp_path))
