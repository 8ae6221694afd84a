"""Random step logs: `zmon steps` names the damaged parts and uses the rest. No file becomes large in memory."""

import json
import zlib

import pytest

from tests.fuzz.draw import body, changed, damaged
from tests.steplog.build import append_once, rank_box, segments
from zmon.format import plain
from zmon.steplog import read_runs
from zmon.steplog.format import _BLOCK, _BLOCK_MAGIC, _CRC, _HEADER, _MAGIC, _VERSION, read_header
from zmon.web.responses import json_response

MAX_STEPS = 200  # of a run; two segments have 100, however many boundaries a header claims
PACKED = [  # bodies of blocks that unpack to 10 bytes, 1 MiB and 64 MiB
    zlib.compress(bytes(size) + b"end", 9) for size in (10, 1 << 20, 64 << 20)
]


@pytest.fixture(scope="module")
def segment(tmp_path_factory):
    """Return the bytes of a segment with 50 steps, and the values of its header."""
    root = tmp_path_factory.mktemp("log")
    box = rank_box(root / "boxes")
    box.steps(40)
    box.ledger.report({"loss": 0.5}, 1)
    box.steps(10)
    append_once(root / "steps", box)
    (path,) = segments(root / "steps")
    data = path.read_bytes()
    *_, size, _ = _HEADER.unpack_from(data)  # of the identity
    return data, json.loads(data[_HEADER.size : _HEADER.size + size])


def random_segment(segment, chance):
    """Return a segment with a changed header, changed blocks with valid checksums, or damaged bytes."""
    data, header = segment
    run, offset = read_header(data)
    blocks = data[offset:]
    if chance.random() < 0.5:
        version = chance.choice((run.box_version - 1, run.box_version, chance.randrange(1 << 32)))
        identity = body(changed({**header, "box_version": version}, chance), chance)
        head = _HEADER.pack(_MAGIC, _VERSION, version, len(identity), zlib.crc32(identity)) + identity
    else:
        head = data[:offset]
    if chance.random() < 0.3:  # a further block, whose header may have a wrong number of boundaries
        packed = chance.choice(PACKED)
        count = chance.choice((1, 2, 100, 4096, (1 << 32) - 1))
        begin = _BLOCK.pack(_BLOCK_MAGIC, len(packed), chance.choice((0, 1, 51, (1 << 64) - 1)), count)
        blocks += begin + _CRC.pack(zlib.crc32(packed, zlib.crc32(begin))) + packed
    whole = head + blocks
    return damaged(whole, chance) if chance.random() < 0.5 else whole


def log_checker(segment, folder):
    """Return a check that writes one or two random segments to the folder and reads them."""

    def check(chance):
        for number in range(chance.choice((1, 2))):
            (folder / f"0-rank-0-{number}.000000000001.steps").write_bytes(random_segment(segment, chance))
        runs, unusable = read_runs(folder)
        assert all(plain(line) == line for line in unusable)
        for run in runs:
            chunks = list(run.chunks())
            assert sum(chunk.steps.num_rows for chunk in chunks) <= MAX_STEPS
            run.num_boundaries()
            json_response([[chunk.steps, chunk.reported] for chunk in chunks])
            json_response(run.run)

    return check


def test_random_step_logs_are_read_or_refused(segment, tmp_path, check_random):
    check_random(log_checker(segment, tmp_path))
