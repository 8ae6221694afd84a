"""Tests of every order of three ranks in three collectives, with every fault at every position: no wrong name."""

from dataclasses import replace
from itertools import product

import pytest

from lab.simulator.interleavings import DAMAGES, interleavings
from tests.build import disconnected, killed, raised, snapshot, terminated, waiting
from zmon.detectors.stall import Stall
from zmon.schema.rank import EnteredCollective, InFlight

OPS = ("all_to_all", "all_reduce", "all_gather")
NUM_EARLIER = 300  # collectives of earlier steps
SECONDS = 30.0  # since the last step
STALL = Stall()
STRUCK_SECONDS = 1.0  # since a rank died
SKEWS = (-0.15, 0.1)  # seconds by which an agent looks at its host later than the others; negative: earlier
# A peer of a dead rank still waits, is about to end with its last words written, or has ended by its error or a signal.
PEERS = ("waits", "leaves", "disconnected", "terminated")


def state(rank, position, damage):
    """Return a rank at its position; a rank that entered later waits a little less."""
    seconds = SECONDS - 0.01 * position.order
    count = NUM_EARLIER + position.entered
    entered = ()
    inside = None
    if position.inside is not None:
        size = 8192 if position.larger else 4096
        inside = InFlight(OPS[position.inside], "0", count, size, seconds)
        entered = (EnteredCollective(inside.op, "0", count, size),)
    return waiting(
        rank, seconds, world_size=3, in_flight=inside, entered=entered, sequences={"0": count}, phase="forward",
        host=f"node-{rank}",
    )  # fmt: skip


def collectives_of(rank):
    """Return where a rank is in its collectives, which it does not lose when it dies."""
    fields = ("in_flight", "sequences", "entered", "host", "world_size")
    return {name: getattr(rank, name) for name in fields}


def peer(state_, kind, gone):
    """Return a rank that waited for a rank that died `gone` seconds ago; `kind` is one of PEERS."""
    changes = collectives_of(state_) | {"step_seconds": gone + 1.0}
    after = STRUCK_SECONDS - 0.1  # a rank stamps its last words itself: they follow those of the struck rank
    if kind == "waits":
        return replace(state_, step_seconds=gone + 1.0, overdue_seconds=0.0)
    if kind == "terminated":
        return terminated(state_.rank, gone, last_words_seconds=after, **changes)
    died = disconnected(state_.rank, gone, last_words_seconds=after, **changes)
    return died if kind == "disconnected" else replace(
        died, alive=True, gone_seconds=None, exit_status=None, process_state="S", leaving_seconds=gone
    )  # fmt: skip


def snapshots(case):
    """Yield the snapshots in which the detector may see this interleaving."""
    ranks = [state(number, position, case.damage) for number, position in enumerate(case.positions)]
    struck = ranks[case.rank]
    if case.damage == "stop":
        ranks[case.rank] = replace(struck, process_state="T", stopped_seconds=2.0)
    if case.damage not in ("kill", "raise"):
        yield snapshot(*ranks)
        return
    died = killed if case.damage == "kill" else raised
    ranks[case.rank] = died(case.rank, STRUCK_SECONDS, **collectives_of(struck))
    peers = [rank for rank in range(3) if rank != case.rank]
    for *kinds, skew, num_hosts in product(PEERS, PEERS, SKEWS, (1, 3)):
        states = list(ranks)
        for rank, kind in zip(peers, kinds, strict=True):
            states[rank] = peer(ranks[rank], kind, STRUCK_SECONDS - skew)
        yield snapshot(*(replace(state, host=f"node-{state.rank % num_hosts}") for state in states))


def cases():
    """Return every distinct state that the interleavings lead to, with the struck rank."""
    return list({(case.damage, case.rank, _shown(case)): case for case in interleavings(OPS)}.values())


def _shown(case):
    """Return the part of the positions that the detector uses. After a death it does not use the order of the waits."""
    if case.damage in ("kill", "raise"):
        return tuple(replace(position, order=0) for position in case.positions)
    return case.positions


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_interleaving_of_three_ranks_names_an_innocent(damage):
    num_diagnosed = 0
    for case in cases():
        for view in snapshots(case) if case.damage == damage else ():
            for finding in STALL.detect(view):
                assert set(finding.ranks) <= {case.rank}, (case, finding.summary)
                num_diagnosed += finding.ranks == (case.rank,)
    assert num_diagnosed


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_interleaving_of_three_ranks_has_a_finding(damage):
    silent = [
        case for case in cases() if case.damage == damage and any(not STALL.detect(view) for view in snapshots(case))
    ]
    assert not silent


def test_interleavings_have_every_order_of_every_collective():
    assert len({case.orders for case in interleavings(OPS)}) == 6**3
    assert {(case.damage, case.rank, case.struck) for case in interleavings(OPS)} >= {
        (damage, rank, collective) for damage, rank, collective in product(DAMAGES, range(3), range(3))
    }


def test_skipped_collective_pairs_with_an_equal_one_in_silence():
    assert not [case for case in interleavings(("all_reduce",) * 3) if case.damage == "skip"]
