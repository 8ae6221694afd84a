"""Tests of the ledger of acts: what the next agent knows, and what does not count."""

from types import SimpleNamespace

import pytest

from zmon.agent.acts import ledger as ledger_module
from zmon.agent.acts.ledger import ANNOUNCED, DONE, FILE, FINISHED, INTERRUPTED, SIGNAL, WITHDRAWN, ActEntry, ActLedger
from zmon.schema.act import END_JOB, KILL_CULPRIT, REFUSED

ROTATE_BYTES = 2000  # about ten entries


def entry(event, key="rank aa", act=KILL_CULPRIT):
    """Return an entry of the ledger about rank 3."""
    return ActEntry(
        time=1000.0, event=event, act=act, rank=3, run_uid="aa", intent="i", reason="r", line=event, key=key, job="job"
    )


@pytest.fixture
def clocks():
    """Return a wall clock and a monotonic clock that a test sets."""
    return SimpleNamespace(wall=1000.0, monotonic=50.0)


@pytest.fixture
def opened(tmp_path, clocks):
    """Yield a function that opens the ledger as the next agent does, after the end of the agent before."""
    ledgers = []

    def open_next():
        while ledgers:
            ledgers.pop().close()
        ledgers.append(ActLedger(tmp_path, lambda: clocks.wall, lambda: clocks.monotonic))
        return ledgers[-1]

    yield open_next
    ledgers.pop().close()


# The events in the ledger when an agent ends, the act, and what the next agent knows: whether there was an act, whether
# it was done, and whether the next agent marks it as interrupted.
LEDGERS = {
    "refused": ((REFUSED,), KILL_CULPRIT, False, False, False),
    "withdrawn": ((ANNOUNCED, WITHDRAWN), KILL_CULPRIT, False, False, False),
    "a kill is announced": ((ANNOUNCED,), KILL_CULPRIT, True, False, True),
    "a kill is done": ((ANNOUNCED, DONE), KILL_CULPRIT, True, True, False),
    "an end begins": ((ANNOUNCED, DONE), END_JOB, True, True, True),
    "an end goes on": ((ANNOUNCED, DONE, SIGNAL), END_JOB, True, True, True),
    "an end is finished": ((ANNOUNCED, DONE, FINISHED), END_JOB, True, True, False),
    "an end was interrupted": ((ANNOUNCED, DONE, INTERRUPTED), END_JOB, True, True, False),
}


@pytest.mark.parametrize(("events", "act", "is_act", "done", "marked"), LEDGERS.values(), ids=LEDGERS)
def test_next_agent_knows_what_was_done(opened, tmp_path, events, act, is_act, done, marked):
    first = opened()
    for event in events:
        first.write(entry(event, act=act))
    for _ in range(2):  # the second time nothing is marked again
        second = opened()
        known_act = second.act_on("rank aa")
        assert (known_act is not None) == is_act
        assert bool(known_act and known_act.outcome) == done
        assert second.act_for("aa", is_kill=act == KILL_CULPRIT) is known_act
    lines = (tmp_path / FILE).read_bytes().splitlines()
    assert len(lines) == len(events) + marked
    assert (INTERRUPTED.encode() in lines[-1]) == (marked or events[-1] == INTERRUPTED)


def test_last_line_that_is_cut_off_does_not_count_and_later_lines_do(opened, tmp_path, caplog):
    opened().write(entry(ANNOUNCED))
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[: len(whole) // 2])
    second = opened()
    assert second.act_on("rank aa") is None
    assert "cannot be read" in caplog.text
    second.write(entry(ANNOUNCED, key="rank bb"))
    second.write(entry(DONE, key="rank bb"))
    assert opened().act_on("rank bb").outcome.event == DONE


def test_recent_acts_count_also_if_the_wall_clock_is_set(opened, clocks):
    ledger = opened()
    ledger.write(entry(ANNOUNCED))
    ledger.write(entry(DONE))
    assert len(ledger.within(600)) == 1
    clocks.wall += 86400.0  # set forward
    assert len(ledger.within(600)) == 1
    clocks.monotonic += 601.0
    assert ledger.within(600) == []
    clocks.wall = 10.0  # set back: it may have been just now
    assert len(ledger.within(600)) == 1


def test_new_file_has_the_acts_and_the_old_file_stays_beside_it(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "ROTATE_BYTES", ROTATE_BYTES)
    ledger = opened()
    ledger.write(entry(ANNOUNCED))
    ledger.write(entry(DONE))
    for _ in range(40):
        ledger.write(entry(REFUSED, key=""))
    assert (tmp_path / FILE).stat().st_size < 2 * ROTATE_BYTES
    assert (tmp_path / f"{FILE}.1").stat().st_size > ROTATE_BYTES
    assert opened().act_on("rank aa").outcome.event == DONE


def test_new_file_has_only_the_last_acts(opened, monkeypatch):
    monkeypatch.setattr(ledger_module, "ROTATE_BYTES", ROTATE_BYTES)
    monkeypatch.setattr(ledger_module, "_MAX_ACTS", 3)
    ledger = opened()
    for number in range(20):
        ledger.write(entry(ANNOUNCED, key=f"rank {number}"))
        ledger.write(entry(DONE, key=f"rank {number}"))
    after = opened()
    assert after.act_on("rank 19").outcome.event == DONE
    assert after.act_on("rank 0") is None
